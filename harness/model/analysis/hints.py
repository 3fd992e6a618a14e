"""Facts that a user states on the command line: NAME:shape=1,3,H,W, NAME:type=float32, NAME:value=1,2."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from harness.core.errors import RequestError, unknown_name

FORMS = "NAME:shape=1,3,H,W (_ for an unknown size, .. at the end for more axes), NAME:type=float32 or NAME:value=1,2"


def parse_hint(text: str, graph: onnx.ModelProto) -> tuple[str, str, Any]:
    """Return the tensor, the part of its fact, and its value, of NAME:PART=VALUE; RequestError for another text."""
    known = {name for node in graph.graph.node for name in (*node.input, *node.output) if name}
    left, equals, value = text.rpartition("=")
    name, colon, part = left.rpartition(":")
    if not equals or not colon or part not in PARTS:
        raise RequestError(f"fact {text!r} has another form", FORMS)
    if name not in known:
        raise unknown_name("tensor", name, known)
    try:
        return name, part, PARTS[part](value.strip())
    except (ValueError, KeyError) as error:
        raise RequestError(f"fact {text!r}: {value!r} is no {part}", FORMS) from error


def _shape(text: str) -> tuple[list[int | str | None], bool]:
    """Return the sizes, None for unknown ones, and whether there are no more axes."""
    words = [word.strip() for word in text.strip("[]()").split(",") if word.strip()]
    closed = not words or words[-1] != ".."
    sizes: list[int | str | None] = []
    for word in words if closed else words[:-1]:
        if not (word.isidentifier() or word.isdecimal()):
            raise ValueError(word)
        sizes.append(None if word == "_" else int(word) if word.isdecimal() else word)
    return sizes, closed


def _type(text: str) -> int:
    if text in ("float32", "float64"):
        return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(text)))
    return int(onnx.TensorProto.DataType.Value(text.upper()))


def _value(text: str) -> np.ndarray[Any, Any]:
    """Return a list of numbers as an array, a single one without axis: int64, or float32 with a point or exponent."""
    words = [word.strip() for word in text.strip("[]").split(",") if word.strip()]
    whole = all(word.lstrip("+-").isdecimal() for word in words)
    values = np.array([int(word) if whole else float(word) for word in words], np.int64 if whole else np.float32)
    return values if "," in text or "[" in text else values.reshape(())


PARTS = {"shape": _shape, "type": _type, "value": _value}

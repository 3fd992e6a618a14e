"""Two models of the same function: ONNX Runtime without optimisations computes both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.onnx_runtime.sessions import Stored, refused, session

if TYPE_CHECKING:
    import onnxruntime

VECTORS = 8
BATCH_SHARE = 1e-4
"""Accepted difference as a share of the greatest value: several vectors at once are summed in another order."""
NAMES = {"float": "float32", "double": "float64"}
"""NumPy's names of the types that ONNX Runtime calls otherwise."""


def require_same(before: Stored, after: onnx.ModelProto, name: str, batch: int = 1) -> None:
    """Compare the outputs of two models for random inputs: bit for bit, or for `batch` vectors at once within a share.

    `before` takes `batch` vectors, `after` one; all first axes are those of vectors then.  Raises RequestError where
    ONNX Runtime refuses or fails, and where outputs differ.
    """
    inputs, outputs = [], []
    sizes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in after.graph.input}
    loaded = _loaded(before, name)
    for number in range(VECTORS):
        inputs.append(_random_inputs(loaded, sizes, batch, number))
        outputs.append(_run(loaded, inputs[-1], name))
    names = [value.name for value in loaded.get_outputs()]
    del loaded  # it holds the weights
    loaded = _loaded(Stored(after), name)
    taken = {value.name for value in loaded.get_inputs()}
    for feed, expected in zip(inputs, outputs, strict=True):
        rows = [{key: value[row : row + 1] if batch > 1 else value for key, value in feed.items() if key in taken}
                for row in range(batch)]  # fmt: skip
        results = [_run(loaded, row, name) for row in rows]
        for output, values, *parts in zip(names, expected, *results, strict=True):
            if not _same(values, parts):
                raise RequestError(
                    f"model {name!r}: output {output!r} has other values after the changes at import, according to "
                    "ONNX Runtime without optimisations",
                    "export it with a newer opset, with a fixed input shape of one vector; and report the file",
                )


def _same(values: Any, parts: list[Any]) -> bool:
    if not isinstance(values, np.ndarray):  # a sequence of maps, or of tensors
        return len(parts) == 1 and repr(values) == repr(parts[0])
    if len(parts) == 1:
        return values.dtype == parts[0].dtype and values.shape == parts[0].shape and same_bits(values, parts[0])
    joined = np.concatenate(parts) if all(np.ndim(part) for part in parts) else np.array(parts)
    if joined.shape != values.shape:
        return False
    with np.errstate(all="ignore"):
        difference = np.abs(joined.astype(np.float64) - values)
        near = difference <= BATCH_SHARE * np.abs(values).max(initial=0)
    return bool((near | (joined == values) | (np.isnan(joined) & np.isnan(values))).all())


def same_bits(first: Array, second: Array) -> bool:
    """Return whether two arrays of one shape and type have the same bits."""
    return np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()


def _random_inputs(
    loaded: onnxruntime.InferenceSession, sizes: Mapping[str, list[int]], batch: int, seed: int
) -> dict[str, Array]:
    """Return a value of each input; a size that the session leaves free is that of `sizes`, else `batch` or 1."""
    random, inputs = np.random.default_rng(seed), {}
    for value in loaded.get_inputs():
        known = sizes.get(value.name) or [0] * len(value.shape)
        free = [batch, *[1] * len(value.shape)]
        shape = [size if isinstance(size, int) and size > 0 else known[axis] or free[axis]
                 for axis, size in enumerate(value.shape)]  # fmt: skip
        drawn = random.standard_normal(shape) * 2
        name = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype(NAMES.get(name, name))
        inputs[value.name] = drawn.astype(dtype) if dtype.kind == "f" else (drawn > 0).astype(dtype)
    return inputs


def _loaded(model: Stored, name: str) -> onnxruntime.InferenceSession:
    try:
        return session(model.path, 1, optimised=False)
    except Exception as error:  # its exceptions have no common base of their own
        raise refused(name, error) from error


def _run(loaded: onnxruntime.InferenceSession, inputs: Mapping[str, Array], name: str) -> list[Any]:
    try:
        return list(loaded.run(None, inputs))
    except Exception as error:  # as above
        raise RequestError(
            f"ONNX Runtime fails on model {name!r}: {error}", "give a model that runs with one vector at a time"
        ) from error

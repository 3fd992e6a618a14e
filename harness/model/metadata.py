"""The input box and the normalisation, from the metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.indices import index_ranges
from harness.model.network import Normalisation
from harness.operators.base import Layer
from harness.operators.counters import DEFAULT_BOX
from harness.operators.tensor import BOOL, CODES, LARGEST, Tensor, integer_limits, is_float

SHOWN = 80  # characters of a value, in a message


def input_box(
    metadata: Mapping[str, str], inputs: Sequence[Tensor], layers: Sequence[Layer], name: str
) -> dict[str, Array]:
    """Return the bounds of each input by its name, (2, size): those of the metadata, or else `default_box`.

    Indices are within the axis.
    The metadata have the bounds of all values of all inputs, in the order of the inputs.
    """
    sizes = [tensor.size for tensor in inputs]
    stated = stated_box(metadata, sum(sizes), name)
    if stated is None:
        box = {tensor.name: default_box(tensor, [x for x in layers if tensor in x.inputs]) for tensor in inputs}
        for indices in index_ranges(inputs, layers):
            own = box[indices.input]
            own[0, indices.places] = np.maximum(own[0, indices.places], indices.low)
            own[1, indices.places] = np.minimum(own[1, indices.places], indices.high)
        return box
    parts = np.split(stated, np.cumsum(sizes)[:-1], axis=1)
    return {tensor.name: _of_type(part, tensor, name) for tensor, part in zip(inputs, parts, strict=True)}


def default_box(tensor: Tensor, readers: Sequence[Layer]) -> Array:
    """Return bounds, (2, size), for every output of the readers of an input.

    Those are all codes, and all values of wider integers, but for a Clip.
    """
    whole: tuple[float, float] = DEFAULT_BOX if is_float(tensor.dtype) else integer_limits(tensor.dtype)
    limiting = [] if tensor.dtype in (BOOL, *CODES) else readers
    ranges = [layer.stimuli.representable() or whole for layer in limiting] or [whole]
    ends = min(low for low, _ in ranges), max(high for _, high in ranges)
    return np.repeat(np.array(ends, tensor.dtype)[:, None], tensor.size, axis=1)


def _of_type(box: npt.NDArray[np.float64], tensor: Tensor, name: str) -> Array:
    """Return bounds of an input, (2, size), as values of its type."""
    if not is_float(tensor.dtype):
        least, greatest = integer_limits(tensor.dtype)
        if not ((box == np.rint(box)) & (box >= least) & (box <= greatest)).all():
            raise RequestError(
                f"model {name!r}: the input box of {tensor.name!r} is {box[0].tolist()} to {box[1].tolist()}",
                f"integers from {least} to {greatest}",
            )
    return box.astype(tensor.dtype)


def states_box(metadata: Mapping[str, str]) -> bool:
    """Return whether the model gives bounds of its inputs."""
    return "input_box_low" in metadata or "input_box_high" in metadata


def stated_box(metadata: Mapping[str, str], width: int, name: str) -> npt.NDArray[np.float64] | None:
    """Return bounds of all values of the inputs, float64 (2, width); None where the model does not say."""
    if not states_box(metadata):
        return None
    low = _numbers(metadata, "input_box_low", width, name)
    high = _numbers(metadata, "input_box_high", width, name)
    box = np.array([low, high], np.float64)
    if not (np.abs(box) <= LARGEST).all() or (box[0] > box[1]).any():
        raise RequestError(f"model {name!r}: the input box is {low} to {high}", "finite bounds, low <= high")
    return box


def normalisation_of(metadata: Mapping[str, str], width: int, name: str) -> Normalisation | None:
    """Return the conversion to physical units; None if the model does not state it."""
    keys = ("input_names", "input_units", "input_mean", "input_range")
    missing = [key for key in keys if key not in metadata]
    if len(missing) == len(keys):
        return None
    if missing:
        raise RequestError(f"model {name!r}: metadata lacks {', '.join(missing)}", f"all of {', '.join(keys)}, or none")
    spans = _numbers(metadata, "input_range", width, name)
    if 0 in spans:
        raise RequestError(f"model {name!r}: metadata input_range has a 0", "ranges other than 0")
    return Normalisation(
        names=tuple(map(str, _json_list(metadata, "input_names", width, name))),
        units=tuple(map(str, _json_list(metadata, "input_units", width, name))),
        mean=_numbers(metadata, "input_mean", width, name),
        range=spans,
    )


def _numbers(metadata: Mapping[str, str], key: str, width: int, name: str) -> tuple[float, ...]:
    values = _json_list(metadata, key, width, name)
    if not all(map(_is_finite, values)):
        raise RequestError(f"model {name!r}: metadata {key} is {_short(metadata[key])}", "a list of finite numbers")
    return tuple(map(float, values))


def _short(value: str | None) -> str:
    return repr(value if value is None or len(value) <= SHOWN else f"{value[:SHOWN]}...")


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer beyond float64
        return False


def _json_list(metadata: Mapping[str, str], key: str, width: int, name: str) -> list[Any]:
    try:
        values = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):  # not JSON, or beyond the limits of Python's parser
        values = None
    if not isinstance(values, list) or len(values) != width:
        raise RequestError(
            f"model {name!r}: metadata {key} is {_short(metadata.get(key))}",
            f"a JSON list of {width} values, one an input",
        )
    return values

"""The tensors of an engine as activations of a network: names, shapes, order of axes, types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from harness.applications.judge.activations import quantisations
from harness.applications.judge.dumps import DumpedTensor, Dumps, Layout, Quantisation
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.tensor import CODES, Tensor, integer_limits
from harness.reference.stimuli import Stimuli

NEAR = 1e-4
"""Share of a step by which a number may miss its code; engines round scale * (code - zero_point) variously."""
LEVELS = 200
"""Units in the last place of a short float that a number of up to 255 steps may miss its code by."""
RESHAPES = ("Flatten", "Reshape", "Squeeze")
"""Operators that keep the order of values in ONNX, which engines with the channels last keep too."""
COMPARED_ORDERS = 16
"""Vectors for which the order of the values of an image and of its row are compared."""
STEP_VALUES, MOST_LEVELS = 1 << 16, 512
"""Values among which the step of an engine's codes is searched, and different ones of codes with a sign."""
Convert: TypeAlias = Callable[[Array], tuple[Array, Array | None]]
"""Function from values of the engine to those of the model, and where they are none of its values (None: nowhere)."""


class MismatchError(Exception):
    """Error for a tensor that has the name of an activation, but cannot be its values."""


class Rows(NamedTuple):
    """Values (vectors, size) of the model's type; masks of those that are none of its values, and of NaN, or None."""

    values: Array
    off: Array | None
    nan: Array | None


@dataclass(frozen=True, eq=False)
class Activation:
    """An activation of the network in the dumps: `count` vectors, and how the values become those of the model.

    `order` has the place in the dumps of each value of a vector, None if it is the same.  `notes` say what was assumed.
    """

    tensor: Tensor
    dumped: DumpedTensor
    count: int
    notes: tuple[str, ...]
    order: Array | None
    convert: Convert

    def rows(self, start: int, stop: int) -> Rows:
        """Return the values of some vectors."""
        size = self.tensor.size
        flat = self.dumped.read(start * size, stop * size).reshape(stop - start, size)
        flat = flat if self.order is None else flat[:, self.order]
        nan = np.isnan(flat) if flat.dtype.kind == "f" else None
        values, off = self.convert(flat)
        return Rows(values, off, nan if nan is not None and nan.any() else None)

    @property
    def nbytes(self) -> int:
        """The bytes of all values in the dumps."""
        return self.count * self.tensor.size * self.dumped.dtype.itemsize


@dataclass(eq=False)
class Matched:
    """The activations in the dumps by their names in the model.

    `unmatched` are names of the engine without an activation; `problems` say why an activation cannot be read.
    """

    activations: dict[str, Activation] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def match(network: Network, dumps: Dumps, layout: Layout | None = None) -> Matched:
    """Return what the dumps have of the network; `layout` overrides what the files state."""
    tensors = {tensor.name: tensor for tensor in network.inputs}
    tensors |= {layer.output.name: layer.output for layer in network.layers}
    scales, matched = quantisations(network), Matched()
    names, matched.unmatched = _names(network, [*dumps.tensors])
    usual = layout or _common_layout([(tensors[own].shape, dumps.tensors[theirs]) for own, theirs in names.items()])
    for name, theirs in names.items():
        dumped, tensor = dumps.tensors[theirs], tensors[name]
        try:
            order = _order_of(tensor, dumped, layout or dumped.layout, usual)
            matched.activations[name] = _activation(tensor, dumped, order, scales.get(name))
        except MismatchError as error:
            called = "" if theirs == name else f" ({theirs!r} in the dumps)"
            matched.problems.append(f"{name!r}{called} is not compared: {error}")
    for layer in network.layers:
        if layer.operator in RESHAPES:
            _keep_order(matched.activations, layer)
    return matched


def _keep_order(activations: dict[str, Activation], layer: Layer) -> None:
    """Read an image that became a row with the channels last, if the dumps of both have the same order of values."""
    image, row = (activations.get(name) for name in (layer.sources[0], layer.output.name))
    if image is None or row is None or image.order is None or len(_without_ones(row.tensor.shape)) > 1:
        return
    count = min(image.count, row.count, COMPARED_ORDERS) * row.tensor.size
    stored, moved = image.dumped.read(0, count), row.dumped.read(0, count)
    if stored.tobytes() == moved.tobytes() and image.dumped.dtype == row.dumped.dtype:
        notes = (*row.notes, f"in the order of {image.tensor.name}, with the channels last")
        activations[layer.output.name] = replace(row, order=image.order, notes=notes)


class DumpedInputs(Stimuli):
    """The inputs of the network in the dumps as vectors."""

    def __init__(self, network: Network, activations: Mapping[str, Activation]) -> None:
        self._network = network
        self._inputs = {tensor.name: activations[tensor.name] for tensor in network.inputs}
        self.count, self.width = min(one.count for one in self._inputs.values()), network.vector.size
        self.origin = "the dumps"

    @classmethod
    def from_matched(cls, network: Network, matched: Matched) -> DumpedInputs | None:
        """Return the inputs in the dumps; None if one is missing."""
        known = all(tensor.name in matched.activations for tensor in network.inputs)
        return cls(network, matched.activations) if known else None

    def chunk(self, start: int, stop: int) -> Array:
        """Return vectors start to stop."""
        rows = {name: np.array(values.rows(start, stop).values) for name, values in self._inputs.items()}
        return self._network.vectors(rows)

    def describe(self) -> dict[str, int]:
        """Return their number."""
        return {"from the dumps": self.count}


def _names(network: Network, theirs: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the name in the dumps of each activation, and the names without one.

    A name is that of the tensor, of the ONNX node or of the layer; else one that is the same in letters and digits, if
    there is only one.
    """
    own = {name: name for name in [*(tensor.name for tensor in network.inputs), *_written(network)]}
    of_nodes = {**{layer.name: layer.output.name for layer in network.layers},
                **{layer.node: layer.output.name for layer in network.layers if layer.node}}  # fmt: skip
    dumped_names: dict[str, str] = {}
    for known in (own, of_nodes):
        for name in theirs:
            if name in known and known[name] not in dumped_names and name not in dumped_names.values():
                dumped_names[known[name]] = name
    left = [name for name in theirs if name not in dumped_names.values()]
    plain = _by_plain_name({**of_nodes, **own})
    candidates: dict[str, list[str]] = {}
    for name in left:
        activations = plain.get(_plain(name), set())
        for activation in activations if len(activations) == 1 else ():
            candidates.setdefault(activation, []).append(name)
    for activation, names in candidates.items():
        if len(names) == 1 and activation not in dumped_names:
            dumped_names[activation] = names[0]
    return dumped_names, [name for name in theirs if name not in dumped_names.values()]


def _written(network: Network) -> Iterator[str]:
    for layer in network.layers:
        yield layer.output.name


def _by_plain_name(known: Mapping[str, str]) -> dict[str, set[str]]:
    plain: dict[str, set[str]] = {}
    for name, activation in known.items():
        plain.setdefault(_plain(name), set()).add(activation)
    return plain


def _plain(name: str) -> str:
    """Return a name in lower-case letters and digits, without :0 at its end and a number and _ at its start."""
    without = re.sub(r"^\d+_", "", re.sub(r":\d+$", "", name))
    return "_".join(re.findall(r"[a-z0-9]+", without.lower()))


def _activation(tensor: Tensor, dumped: DumpedTensor, order: Layout, scale: Quantisation | None) -> Activation:
    """Return the values of an activation; MismatchError if the type is another one."""
    notes: list[str] = []
    places = None
    if order == "nhwc":
        places = np.argsort(_channels_last(tensor.shape), kind="stable")
        notes.append("read with the channels last")
    if _holds_codes(tensor, dumped, scale):
        scale, note = Quantisation(1.0, 0), f"whole numbers of {dumped.dtype} read as codes"
        convert, _ = _conversion(tensor.dtype, dumped, scale)
    else:
        convert, note = _conversion(tensor.dtype, dumped, scale)
    notes += [note] if note else []
    return Activation(tensor, dumped, dumped.size // tensor.size, tuple(notes), places, convert)


def _holds_codes(tensor: Tensor, dumped: DumpedTensor, scale: Quantisation | None) -> bool:
    """Return whether the first vectors of floats are codes, and not the numbers for which codes stand."""
    if tensor.dtype not in CODES or dumped.dtype.kind != "f" or dumped.quantisation is not None:
        return False
    low, high = integer_limits(tensor.dtype)
    first = dumped.read(0, min(COMPARED_ORDERS * tensor.size, dumped.size))
    if not ((first == np.rint(first)) & (first >= low) & (first <= high)).all():
        return False
    return scale is None or _nearest(tensor.dtype, first.astype(np.float64), scale)[1] is not None


def step_of(activation: Activation) -> float | None:
    """Return the number of which all of the first values of floats are multiples; None if there is none."""
    size = activation.tensor.size
    values = activation.dumped.read(0, min(STEP_VALUES // size + 1, activation.count) * size).astype(np.float64)
    levels = np.unique(np.abs(values[np.isfinite(values)]))
    if not 2 < len(levels) <= MOST_LEVELS:
        return None
    step = float(np.diff(levels).min())
    whole = levels / step
    return step if (np.abs(whole - np.rint(whole)) <= NEAR * np.maximum(whole, 1)).all() else None


def _order_of(tensor: Tensor, dumped: DumpedTensor, layout: Layout | None, usual: Layout | None) -> Layout:
    """Return the order of the axes; MismatchError if a file has another shape, or files have different orders.

    Where both orders fit, it is `layout`, or else the `usual` one of the other tensors, or that of ONNX.
    """
    layouts: set[Layout] = set()
    for part in dumped.parts:
        if not tensor.size or part.size % tensor.size or not part.size:
            raise MismatchError(f"{part.place} has shape {part.shape}, and a vector has {tensor.shape_text} values")
        orders = _orders(tensor.shape, part.shape)
        if not orders:
            raise MismatchError(f"it has shape {part.shape}, and a vector of the model has {tensor.shape_text}")
        if layout is not None and layout not in orders and _is_image(tensor.shape):
            raise MismatchError(f"it has shape {part.shape}, which is no shape of layout {layout}")
        preferred = layout or (usual if len(orders) > 1 and _is_whole(part.shape) else None)
        layouts.add(preferred if preferred in orders else orders[0])
    if len(layouts) > 1:
        raise MismatchError("its files have their axes in different orders")
    return layouts.pop()


def _is_whole(shape: tuple[int, ...]) -> bool:
    """Return whether a shape has the axes of images; a row has its values in the order of ONNX, if nothing is said."""
    return len(_without_ones(shape)) > 2


def _common_layout(pairs: Sequence[tuple[tuple[int, ...], DumpedTensor]]) -> Layout | None:
    """Return the layout of all tensors with only one; None if they differ, or if there are none."""
    orders = [_orders(own, part.shape) for own, dumped in pairs if _is_image(own) for part in dumped.parts]
    certain = {layouts[0] for layouts in orders if len(layouts) == 1}
    return certain.pop() if len(certain) == 1 else None


def _is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and shape[0] > 1 and math.prod(shape[1:]) > 1


def _orders(own: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[Layout, ...]:
    """Return the orders of axes in which a file with a shape can have an activation; without axes, both."""
    first, last = _without_ones(own), _without_ones((*own[1:], own[0])) if own else ()
    rests = [_without_ones(theirs[begin:]) for begin in (1, 0)]
    is_row = len(theirs) < 2 or (len(theirs) == 2 and theirs[1] == math.prod(own))
    layouts: list[Layout] = []
    if first in rests or is_row:
        layouts.append("nchw")
    if _is_image(own) and (last in rests or is_row):
        layouts.append("nhwc")
    return tuple(layouts)


def _without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _channels_last(shape: tuple[int, ...]) -> Array:
    """Return the place in the order of ONNX of each value that is stored with the channels last."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    return np.moveaxis(places, 0, -1).reshape(-1)


def _conversion(dtype: np.dtype[Any], dumped: DumpedTensor, scale: Quantisation | None) -> tuple[Convert, str]:
    """Return the function to the type of an activation, and what it assumes; `scale` is that of the model's codes."""
    stored, stated = dumped.dtype.newbyteorder("="), dumped.quantisation
    if stored.kind not in "biuf":
        raise MismatchError(f"it has the type {stored}")
    if dtype in CODES:
        return _to_codes(dtype, stored, stated, scale)
    if stated is not None:
        if dtype.kind != "f":
            raise MismatchError(f"it has a scale, and the model has {dtype}")
        factor, zero_point = np.float32(stated.scale), np.float32(stated.zero_point)
        return lambda x: ((x.astype(np.float32) - zero_point) * factor, None), f"{stored} times {stated.scale:g}"
    if stored == dtype:
        return lambda x: (x.astype(dtype, copy=False), None), ""
    if dtype == np.float32 and stored.kind != "f":
        raise MismatchError(f"it has {stored}, and the model float32: describe its scale and zero point")
    if dtype.kind not in "biuf":
        raise MismatchError(f"it has {stored}, and the model {dtype}")
    return lambda x: _as(dtype, x), f"{stored} read as {dtype}"


def _as(dtype: np.dtype[Any], values: Array) -> tuple[Array, Array | None]:
    """Return values of another type; those that it does not have are marked."""
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
        same = converted.astype(values.dtype) == values
    if dtype.kind == "f" and values.dtype.kind == "f":
        same |= np.isnan(values)
    return converted, None if same.all() else ~same


def _to_codes(
    dtype: np.dtype[Any], stored: np.dtype[Any], stated: Quantisation | None, scale: Quantisation | None
) -> tuple[Convert, str]:
    low, high = integer_limits(dtype)
    if stated is not None or stored.kind == "f":
        if scale is None:
            raise MismatchError(f"it has {stored}, and the scale of the model's codes is not known")
        source = stated or Quantisation(1.0, 0)
        note = (
            f"numbers of {stored}" if stated is None else f"{stored} times {stated.scale:g}, from {stated.zero_point}"
        )
        near = max(NEAR, LEVELS * float(np.finfo(stored).eps)) if stored.kind == "f" else NEAR
        return lambda x: _nearest(dtype, (x.astype(np.float64) - source.zero_point) * source.scale, scale, near), note
    if stored == dtype:
        return lambda x: (x.astype(dtype, copy=False), None), ""
    if stored.itemsize == 1 and stored.kind in "iu":
        offset = low - integer_limits(stored)[0]
        return lambda x: ((x.astype(np.int16) + offset).astype(dtype), None), f"{stored} codes plus {offset}"

    def narrowed(values: Array) -> tuple[Array, Array | None]:
        outside = (values < low) | (values > high)
        return np.clip(values, low, high).astype(dtype), outside if outside.any() else None

    return narrowed, f"codes of {stored}"


def _nearest(
    dtype: np.dtype[Any], numbers: Array, scale: Quantisation, near: float = NEAR
) -> tuple[Array, Array | None]:
    """Return the nearest codes of numbers, and where a number is farther than a share of a step from them."""
    low, high = integer_limits(dtype)
    with np.errstate(all="ignore"):
        steps = numbers / scale.scale + scale.zero_point
        rounded = np.rint(steps)
        off = ~((np.abs(steps - rounded) <= near) & (rounded >= low) & (rounded <= high))
    codes = np.clip(np.nan_to_num(rounded, nan=low, posinf=high, neginf=low), low, high).astype(dtype)
    return codes, off if off.any() else None

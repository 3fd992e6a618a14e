"""Tile, Expand, DepthToSpace and SpaceToDepth (ONNX), any type: values of a vector, repeated or in another order.

Tile             y[i, ...] = x[i % size, ...]                                 along each axis
Expand           y[i, ...] = x[i, ...]                                        x[0, ...] along an axis of size 1
DepthToSpace     y[c, h * b + i, w * b + j] = x[(i * b + j) * C + c, h, w]    x[(c * b + i) * b + j, h, w] in mode CRD
SpaceToDepth     y[(i * b + j) * C + c, h, w] = x[c, h * b + i, w * b + j]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import fields
from harness.operators.fault_models import FaultModel
from harness.operators.move import Move, moving
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.rules_of_others import RULES
from harness.operators.tensor import EVERY_TYPE, INT64, Tensor

Places: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Rearrange(Move):
    """The values in an order of `ORDERS`; `numbers` are the parameters of that function."""

    ONNX = (("", "Tile"), ("", "Expand"), ("", "DepthToSpace"), ("", "SpaceToDepth"))
    formula = "y = x, repeated along axes (Tile, Expand), or with blocks of rows and columns as channels"
    roles = ("x", "sizes")
    fragments = moving("rearrange_axes", 104, "ONNX Tile, Expand, DepthToSpace, SpaceToDepth: repeats, or blocks.")

    numbers: tuple[int, ...]

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of the axes."""
        RULES[node.proto.op_type](node)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant sizes, which keeps the first axis."""
        repeats = node.operator in ("Tile", "Expand")
        node.require_inputs(1 + repeats, 1 + repeats)
        source = node.activation(0, EVERY_TYPE)
        numbers, shape = (_repeats if repeats else _block)(node, source)
        places = ORDERS[node.operator](_numbered(source.shape), *numbers).reshape(shape)
        written = fields(node, [source], shape, source.dtype, source.bound, negative_zero=source.negative_zero)
        return cls(**written, places=places, numbers=numbers)

    @property
    def stepped(self) -> Places:
        """The places with an axis for each along which they have steps."""
        return ORDERS[self.operator](_numbered(self.input.shape), *self.numbers)

    @property
    def transparent(self) -> bool:
        """True, as ONNX Runtime may move quantisers across it before it fuses layers."""
        return True

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders: none, of repeated values, of the axes of a block, or of the other mode."""
        yield from super().fault_models(*inputs)
        at, numbered = _numbered([self.size]), _numbered(self.input.shape)
        others: dict[str, Places] = {
            "values are repeated one by one": at * self.input.size // self.size,
            "the whole vector is repeated": at % self.input.size,
        }
        if self.operator == "SpaceToDepth":
            swapped = self.stepped.swapaxes(0, 1)
            others = {"rows and columns of a block are exchanged": swapped}
        elif self.operator == "DepthToSpace":
            block, is_crd = self.numbers
            other_mode = ORDERS[self.operator](numbered, block, 1 - is_crd)
            others = {
                "rows and columns of a block are exchanged": self.stepped.swapaxes(2, 4),
                "channels have the order of the other mode": other_mode,
            }
        for cause, places in others.items():
            if not np.array_equal(places.reshape(-1), self.places.reshape(-1)):
                yield FaultModel(cause, f"the order of {self.operator}", inputs[0][:, places.reshape(-1)])


def _numbered(shape: Sequence[int]) -> Places:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def _repeats(node: Node, source: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the repetitions of Tile, or the sizes of Expand, without the first, and the shape of one vector."""
    node.attributes({})
    what, rank = ("repeats" if node.operator == "Tile" else "shape"), 1 + len(source.shape)
    stated = node.constant(1, what, [INT64]).tolist()
    sizes_stated = [1] * (rank - len(stated)) + stated if what == "shape" else stated
    fits = len(sizes_stated) == rank and sizes_stated[0] == 1 and min(sizes_stated) >= 1
    numbers = tuple(sizes_stated[1:])
    pairs = list(zip(source.shape, numbers, strict=False))
    if what == "shape":
        fits = fits and all(size == number or 1 in (size, number) for size, number in pairs)
    if not fits:
        sizes = ", ".join(map(str, source.shape))
        raise node.refusal(
            f"{what} is {stated}, the input has shape (vectors, {sizes})",
            f"{rank} numbers of 1 or more, the first of which, that of the vectors, is 1",
        )
    if what == "repeats":
        return numbers, tuple(size * number for size, number in pairs)
    return numbers, tuple(max(pair) for pair in pairs)


def _block(node: Node, source: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the size of a block, for DepthToSpace also 1 if the mode is CRD, and the shape of one vector."""
    deep = node.operator == "DepthToSpace"
    attributes = node.attributes({"blocksize": 0} | ({"mode": b"DCR"} if deep else {}))
    block, mode = attributes["blocksize"], attributes.get("mode", b"")
    if mode not in (b"DCR", b"CRD", b""):
        raise node.refusal(f"mode is {mode.decode(errors='replace')!r}", "DCR or CRD")
    match (deep, *source.shape):
        case (True, channels, height, width) if block >= 1 and channels % block**2 == 0:
            return (block, int(mode == b"CRD")), (channels // block**2, height * block, width * block)
        case (False, channels, height, width) if block >= 1 and height % block == width % block == 0:
            return (block,), (channels * block**2, height // block, width // block)
    sizes = ", ".join(map(str, source.shape))
    divisible = "channels that are a multiple of blocksize^2" if deep else "height and width multiples of blocksize"
    raise node.refusal(
        f"blocksize is {block}, the input has shape (vectors, {sizes})",
        f"images (channels, height, width), {divisible}",
    )


def _tiled(x: Places, *repeats: int) -> Places:
    pairs = [(1, size) for size in x.shape]
    whole = [size for pair in zip(repeats, x.shape, strict=True) for size in pair]
    return np.broadcast_to(x.reshape([size for pair in pairs for size in pair]), whole)


def _expanded(x: Places, *shape: int) -> Places:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))


def _spread(x: Places, block: int, is_crd: int) -> Places:
    depth, sizes = x.shape[0] // block**2, x.shape[1:]
    if is_crd:
        return x.reshape(depth, block, block, *sizes).transpose(0, 3, 1, 4, 2)
    return x.reshape(block, block, depth, *sizes).transpose(2, 3, 0, 4, 1)


def _gathered(x: Places, block: int) -> Places:
    channels, height, width = x.shape
    return x.reshape(channels, height // block, block, width // block, block).transpose(2, 4, 0, 1, 3)


ORDERS: Mapping[str, Callable[..., Places]] = {
    "Tile": _tiled,
    "Expand": _expanded,
    "DepthToSpace": _spread,
    "SpaceToDepth": _gathered,
}
"""The places of the output in the input, with an axis for each along which they have steps."""

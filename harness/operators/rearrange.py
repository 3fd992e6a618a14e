"""Tile, Expand, DepthToSpace and SpaceToDepth (ONNX), any type: values of a vector, repeated or in another order.

Tile             y[i, ...] = x[i % size, ...]                                 along each axis
Expand           y[i, ...] = x[i, ...]                                        x[0, ...] along an axis of size 1
DepthToSpace     y[c, h * b + i, w * b + j] = x[(i * b + j) * C + c, h, w]    x[(c * b + i) * b + j, h, w] in mode CRD
SpaceToDepth     y[(i * b + j) * C + c, h, w] = x[c, h * b + i, w * b + j]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places
from harness.operators.rules import Rules
from harness.operators.rules_of_others import RULES
from harness.operators.tensor import INT64
from harness.operators.text import moving


@dataclass(frozen=True, eq=False)
class Rearrange(Move):
    """The values in an order of `ORDERS`."""

    ONNX = (("", "Tile"), ("", "Expand"), ("", "DepthToSpace"), ("", "SpaceToDepth"))
    text = Move.text.but(
        "y = x, repeated along axes (Tile, Expand), or with blocks of rows and columns as channels",
        ("x", "sizes"),
        moving("rearrange_axes", 104, "ONNX Tile, Expand, DepthToSpace, SpaceToDepth: repeats, or blocks."),
    )
    counts: ClassVar = {"Tile": (2, 2), "Expand": (2, 2)}

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of the axes."""
        RULES[node.proto.op_type](node)

    @classmethod
    def ordered(cls, node: Node, x: Places) -> Order:
        """Return the values in their order, by constant sizes that keep the first axis."""
        repeats = node.operator in ("Tile", "Expand")
        numbers, shape = (_repeats if repeats else _block)(node, x.shape)
        steps, wrong = ORDERS[node.operator](x, *numbers), dict[str, Places]()
        if node.operator == "DepthToSpace":
            wrong["channels have the order of the other mode"] = ORDERS[node.operator](x, numbers[0], 1 - numbers[1])
        if not repeats:
            rows, columns = (2, 4) if node.operator == "DepthToSpace" else (0, 1)
            wrong["rows and columns of a block are exchanged"] = steps.swapaxes(rows, columns)
        return Order(steps.reshape(shape), steps, wrong=wrong)


def _repeats(node: Node, x_shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the repetitions of Tile, or the sizes of Expand, without the first, and the shape of one vector."""
    node.attributes({})
    what, rank = ("repeats" if node.operator == "Tile" else "shape"), 1 + len(x_shape)
    stated = node.constant(1, what, [INT64]).tolist()
    sizes_stated = [1] * (rank - len(stated)) + stated if what == "shape" else stated
    fits = len(sizes_stated) == rank and sizes_stated[0] == 1 and min(sizes_stated) >= 1
    numbers = tuple(sizes_stated[1:])
    pairs = list(zip(x_shape, numbers, strict=False))
    if what == "shape":
        fits = fits and all(size == number or 1 in (size, number) for size, number in pairs)
    if not fits:
        sizes = ", ".join(map(str, x_shape))
        raise node.refusal(
            f"{what} is {stated}, the input has shape (vectors, {sizes})",
            f"{rank} numbers of 1 or more, the first of which, that of the vectors, is 1",
        )
    if what == "repeats":
        return numbers, tuple(size * number for size, number in pairs)
    return numbers, tuple(max(pair) for pair in pairs)


def _block(node: Node, x_shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the size of a block, for DepthToSpace also 1 if the mode is CRD, and the shape of one vector."""
    deep = node.operator == "DepthToSpace"
    attributes = node.attributes({"blocksize": 0} | ({"mode": b"DCR"} if deep else {}))
    block, mode = attributes["blocksize"], attributes.get("mode", b"")
    if mode not in (b"DCR", b"CRD", b""):
        raise node.refusal(f"mode is {mode.decode(errors='replace')!r}", "DCR or CRD")
    match (deep, *x_shape):
        case (True, channels, height, width) if block >= 1 and channels % block**2 == 0:
            return (block, int(mode == b"CRD")), (channels // block**2, height * block, width * block)
        case (False, channels, height, width) if block >= 1 and height % block == width % block == 0:
            return (block,), (channels * block**2, height // block, width // block)
    sizes = ", ".join(map(str, x_shape))
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

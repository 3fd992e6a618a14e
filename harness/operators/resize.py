"""Resize (ONNX), codes or float32: the nearest values at the coordinates of resampling.py.

y = x at the integer nearest to the coordinate, within the image; nearest_mode decides halves.  Linear: resize_linear.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer
from harness.operators.fault_models import Single
from harness.operators.float_errors import Errors
from harness.operators.move import Move
from harness.operators.node import Node
from harness.operators.order import Order, Places, numbered
from harness.operators.resampling import Resampling
from harness.operators.resize_linear import LINEAR, ResizeLinear
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import Tensor
from harness.operators.text import moving


@dataclass(frozen=True, eq=False)
class Resize(Move):
    """The nearest values, by a table unless all have as many copies along an axis."""

    ONNX = (("", "Resize"),)
    errors = Ability(lambda layer: Errors(layer, rising=True, exact=True, linear=layer.linear))
    text = Move.text.but(
        f"y = x at the nearest place, or linear: {ResizeLinear.text.formula}",
        ResizeLinear.text.roles,
        (
            *moving("resize_nearest", 105, "ONNX Resize, nearest: values of the input, repeated or left out."),
            LINEAR,
        ),
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes, as they are given or by scales, which are rounded down."""
        node.same_type(node.x, node.y).equals(node.x.rank, node.y.rank)

        def scaled(rank: int, factors: Array, *, are_sizes: bool) -> None:
            if not len(factors):  # an empty input counts as none
                return
            axes = [node.axis(axis, rank) for axis in node.attribute("axes", range(rank))]
            node.require(len(factors) == len(axes), f"{len(factors)} scales or sizes for {len(axes)} axes")
            kept = {*range(rank)} - {*axes}
            node.each_equal((node.y.size(axis), node.x.size(axis)) for axis in kept)
            for axis, factor in zip(axes, factors, strict=True):
                if are_sizes:
                    node.equals(node.y.size(axis), Size.of(factor))
                else:
                    node.given(node.x.size(axis)).then(lambda size, axis=axis, factor=factor: scale(axis, size, factor))

        def scale(axis: int, size: Size, factor: Any) -> None:
            if size.constant is not None:
                node.equals(node.y.size(axis), math.floor(size.constant * np.float32(factor)))
            elif float(factor).is_integer():
                node.equals(node.y.size(axis), size * int(factor))

        stretched = node.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
        if scales := node.has(2 if node.opset > 10 else 1):
            node.given(node.x.rank, scales.value).then(lambda rank, each: scaled(rank, each, are_sizes=False))
        if stretched and (sizes := node.has(3)):
            node.given(node.x.rank, sizes.value).then(lambda rank, each: scaled(rank, each, are_sizes=True))

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node with constant scales or sizes."""
        resampling = Resampling.read(node)
        if resampling.linear:
            return ResizeLinear.of(node, resampling)
        source = resampling.source
        places = numbered(source.shape)
        for axis, (size, at) in enumerate(zip(source.shape, resampling.coordinates, strict=True)):
            if resampling.shape[axis] != size or resampling.scales[axis] != 1:
                places = places.take(np.clip(_nearest(at, resampling.nearest_mode), 0, size - 1), axis)
        return cls.in_order(node, [source], Order(places, _copies(places, source)))

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:  # noqa: ARG002 - as of the base
        """Return None: every bit must agree; linear values have the tolerance of ResizeLinear."""
        return None


def _nearest(at: Single, mode: str) -> npt.NDArray[np.int64]:
    """Return the nearest integers; a sum with 0.5 could round up to the next one, so distances are compared."""
    below = np.floor(at)
    distance = at - below
    up = {
        "floor": np.zeros(len(at), np.bool_),
        "ceil": distance > 0,
        "round_prefer_ceil": distance >= np.float32(0.5),
        "round_prefer_floor": distance > np.float32(0.5),
    }
    found: npt.NDArray[np.int64] = (below + up[mode]).astype(np.int64)
    return found


def _copies(places: Places, source: Tensor) -> Places | None:
    """Return the places with two axes for each, the values of the input and their copies; None if others have more."""
    repeated = numbered(source.shape)
    factors = [after // before for after, before in zip(places.shape, source.shape, strict=True)]
    for axis, factor in enumerate(factors):
        repeated = repeated.repeat(factor, axis)
    pairs = zip(source.shape, factors, strict=True)
    return places.reshape([size for pair in pairs for size in pair]) if np.array_equal(repeated, places) else None

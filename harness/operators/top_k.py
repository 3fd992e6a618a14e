"""TopK (ONNX) with a constant k: the k largest or smallest values along an axis in their order, and their places.

The rank of a value is the number of values before it: the larger ones, and the equal ones at places before its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Constants, fields
from harness.operators.exact.expression import Expression, equal, literal, select
from harness.operators.exact.stages import Axis, Source, Stage, fold, narrowed
from harness.operators.float_errors import Perturbed
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.selection import Selection, fragment
from harness.operators.sizes import Size
from harness.operators.tensor import FLOAT32, INT32, INT64, INTEGERS
from harness.operators.text import Text

Sizes = tuple[int, int, int]
FIRST_FRAGMENT = 270
ARGUMENTS = {
    "x": "float32 or integers (vectors, outer * j * inner)",
    "places": "int32 (1, j): 0 to j - 1",
    "axes": "int32 (1, 4): outer, j, inner, k",
    "largest": "integer: 0 for the smallest values",
}


def definition(shape: Sizes, k: int, dtype: np.dtype[Any], *, largest: bool, is_index: bool) -> Stage:
    """Return the definition along the second of three axes: the ranks, then the value or the place of each rank."""
    o, j, i, h, r = (Axis(name, size) for name, size in zip("ojihr", (*shape, shape[1], k), strict=True))
    x, places = Source("x", (o, j, i), dtype), Source("places", (j,), INT32, is_constant=True)

    def count(n: Expression) -> Expression:
        other, own = x[o, h, i], x[o, j, i]
        is_beyond = other > own if largest else other < own
        is_before = is_beyond | (equal(other, own) & (places[h] < places[j]))
        return select(is_before, n + 1, n)

    rank = fold("n", (o, j, i), (h,), literal(0, INT32), count)
    value = places[j] if is_index else x[o, j, i]
    y = fold("p" if is_index else "y", (o, r, i), (j,), literal(0, value.dtype),
             lambda y: select(equal(rank[o, j, i], places[r]), value, y))  # fmt: skip
    return narrowed(y, INT64) if is_index else y


def _fragment(*, is_index: bool) -> Any:
    name = "top_k_places" if is_index else "top_k"
    example = definition((2, 2, 2), 2, FLOAT32, largest=True, is_index=is_index)
    return fragment(name, FIRST_FRAGMENT + is_index, example, ARGUMENTS)


@dataclass(frozen=True, eq=False)
class TopK(Selection):
    """The values of the first k ranks along the second of three axes, or their places if `is_index`."""

    ONNX = (("", "TopK"),)
    text = Text(
        "y = the k largest or smallest values along an axis in their order, or their places; equal ones by their place",
        ("X", "K"),
        (_fragment(is_index=False), _fragment(is_index=True)),
        chosen=lambda layer: int(layer.is_index),
        facts_of=lambda layer: {"k": layer.k, "largest": layer.largest},
        summary_of=lambda layer: (f"{layer.k} of {layer.places}",),
    )

    sizes: Sizes
    k: int
    largest: bool
    is_index: bool

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the axis gets the size k."""
        values, indices = node.y, node.output(1)
        node.same_type(node.x, values).is_type(indices, np.int64).same_shape(values, indices)
        node.equals(node.x.rank, values.rank)

        def sizes(rank: int) -> None:
            chosen = node.axis(node.attribute("axis", -1), rank)
            for axis in {*range(rank)} - {chosen}:
                node.equals(node.x.size(axis), values.size(axis))
            node.parameter("k", 1).then(lambda count: node.equals(values.size(chosen), Size.of(count.ravel()[0])))

        node.given(node.x.rank).then(sizes)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read one output of a node along an axis of a vector; values that are not sorted may have any order."""
        node.require_inputs(2, 2, any_outputs=True)
        source, k = node.activation(0, [FLOAT32, *INTEGERS]), int(node.single(1, "k", [INT64]))
        attributes = node.attributes({"axis": -1, "largest": 1, "sorted": 1})
        axis, shape = attributes["axis"], (0, *source.shape)
        if not -len(shape) <= axis < len(shape) or axis % len(shape) == 0:
            raise node.refusal(f"axis is {axis}", f"axes 1 to {len(shape) - 1}: the values of one vector")
        if not 1 <= k <= shape[axis]:
            raise node.refusal(f"k is {k}", f"1 to {shape[axis]}, the places of the axis")
        before, after = shape[1 : axis % len(shape)], shape[axis % len(shape) + 1 :]
        is_index = node.position == 1
        bound = math.inf if is_index else source.bound
        written = fields(node, [source], (*before, k, *after), INT64 if is_index else source.dtype, bound,
                         negative_zero=not is_index and source.negative_zero)  # fmt: skip
        sizes = math.prod(before), shape[axis], math.prod(after)
        return cls(**written, sizes=sizes, k=k, largest=bool(attributes["largest"]), is_index=is_index)

    @property
    def places(self) -> int:
        """The number of places among which the layer chooses."""
        return self.sizes[1]

    def definition(self) -> Stage:
        """Return the definition for the shape of the input."""
        return definition(self.sizes, self.k, self.input.dtype, largest=self.largest, is_index=self.is_index)

    def numbers(self) -> dict[str, Array]:
        """Return the numbers of the places."""
        return {"places": np.arange(self.places, dtype=np.int32)}

    def constants(self) -> Constants:
        """Return the numbers of the places, the sizes, and which values are chosen."""
        return {**self.numbers(), "axes": np.array([*self.sizes, self.k], np.int32), "largest": self.largest}

    def distance(self, at: Perturbed) -> Array:
        """Return the largest error of the values: the value of a rank changes no more; infinity for places."""
        if self.is_index:
            return super().distance(at)
        outer, count, inner = self.sizes
        largest: Array = at.errors[0].reshape(-1, outer, count, inner).max(axis=2, keepdims=True)
        return largest.repeat(self.k, axis=2).reshape(at.output.shape)

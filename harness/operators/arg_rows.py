"""ArgMax and ArgMin (ONNX) along any axis of a vector, -> int64: the first of equal values, or the last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, fields
from harness.operators.exact.expression import Expression, equal, larger, literal, select, smaller
from harness.operators.exact.stages import Axis, Source, Stage, fold, narrowed, place
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
from harness.operators.node import Node
from harness.operators.selection import Selection, exact_errors, fragment
from harness.operators.tensor import CODES, FLOAT32, INT32, INT64, integer_limits
from harness.operators.text import Text

Sizes = tuple[int, int, int]
TYPES = (FLOAT32, *CODES, INT32, INT64)
FIRST_FRAGMENT = 250
ARGUMENTS = {
    "x": "float32 or integers (vectors, outer * k * inner)",
    "places": "int32 (1, k): 0 to k - 1",
    "axes": "int32 (1, 3): outer, k, inner",
    "largest": "integer: 0 for the smallest values",
    "select_last_index": "integer: 1 for the last of equal values",
}


def definition(shape: Sizes, dtype: np.dtype[Any] = FLOAT32, *, largest: bool = True, last: bool = False) -> Stage:
    """Return the definition along the second of three axes: the extreme value, then its place."""
    o, k, i = (Axis(name, size) for name, size in zip("oki", shape, strict=True))
    x, places = Source("x", (o, k, i), dtype), Source("places", (k,), INT32, is_constant=True)
    end: float = -math.inf if largest else math.inf
    if dtype != FLOAT32:
        end = integer_limits(dtype)[int(not largest)]
    choose = larger if largest else smaller
    m = fold("m", (o, i), (k,), literal(end, dtype), lambda m: choose(x[o, k, i], m))
    at = place(k) if last else place(k) * -1 + (k.size - 1)  # the last one that is equal stays

    def step(n: Expression) -> Expression:
        return select(equal(x[o, at, i], m[o, i]), places[at], n)

    return narrowed(fold("n", (o, i), (k,), literal(0, INT32), step), INT64)


@dataclass(frozen=True, eq=False)
class ArgRows(Selection):
    """The places of the extreme values along the second of three axes."""

    ONNX: ClassVar[tuple[tuple[str, str], ...]] = ()  # ArgExtremum reads its nodes
    errors = Ability[Errors](lambda layer: replace(exact_errors(layer), bounds=layer.output_bounds))
    text = Text(
        "y = the place of the largest or the smallest value along an axis; of equal values the first, or the last",
        ("data",),
        (fragment("ArgRows", FIRST_FRAGMENT, definition((2, 2, 2)), ARGUMENTS),),
        facts_of=lambda layer: {"of_equal_values": "the last" if layer.last else "the first"},
        summary_of=lambda layer: (f"of equal values the {'last' if layer.last else 'first'}",),
    )

    sizes: Sizes
    largest: bool
    last: bool

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node along an axis of a vector."""
        node.require_inputs(1, 1)
        source = node.activation(0, TYPES)
        attributes = node.attributes({"axis": 0, "keepdims": 1, "select_last_index": 0})
        axis, shape = attributes["axis"], (0, *source.shape)
        if not -len(shape) <= axis < len(shape) or axis % len(shape) == 0:
            raise node.refusal(f"axis is {axis}", f"axes 1 to {len(shape) - 1}: the values of one vector")
        before, after = shape[1 : axis % len(shape)], shape[axis % len(shape) + 1 :]
        left = (*before, *(1,) * bool(attributes["keepdims"]), *after) or (1,)
        sizes = math.prod(before), shape[axis], math.prod(after)
        largest, last = node.operator == "ArgMax", bool(attributes["select_last_index"])
        return cls(**fields(node, [source], left, INT64), sizes=sizes, largest=largest, last=last)

    @property
    def places(self) -> int:
        """The number of places among which the layer chooses."""
        return self.sizes[1]

    def definition(self) -> Stage:
        """Return the definition for the shape of the input."""
        return definition(self.sizes, self.input.dtype, largest=self.largest, last=self.last)

    def numbers(self) -> dict[str, Array]:
        """Return the numbers of the places."""
        return {"places": np.arange(self.places, dtype=np.int32)}

    def constants(self) -> Constants:
        """Return the numbers of the places, the sizes, and which value is chosen."""
        chosen = {"largest": self.largest, "select_last_index": self.last}
        return {**self.numbers(), "axes": np.array(self.sizes, np.int32), **chosen}

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the mutants but for another one of equal extreme values, which has the same places."""
        for model in super().fault_models(*inputs):
            if not (model.cause.startswith("in m:") and model.cause.endswith("equality")):
                yield model

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:  # noqa: ARG002 - all are possible
        """Return the first and the last place."""
        return np.zeros((1, self.size), np.int64), np.full((1, self.size), self.places - 1, np.int64)

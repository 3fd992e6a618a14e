"""Softmax (ONNX), float32, along one axis; before opset 13 along this axis and all after it, as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, fields
from harness.operators.elementary import Exp
from harness.operators.exact.expression import larger
from harness.operators.exact.fragments import EXPONENTIAL
from harness.operators.exact.functions import exponential
from harness.operators.exact.stages import Source, Stage, array, fold, formula, program
from harness.operators.float_errors import UNIT_ROUNDOFF, Perturbed, gamma
from harness.operators.node import Node
from harness.operators.rows import EXAMPLE, Axes, Rows
from harness.operators.rules import Rules
from harness.operators.staged import errors_of
from harness.operators.tensor import FLOAT32, Tensor
from harness.operators.text import Fragment

SINGLE_AXIS_OPSET = 13
"""The first opset whose axis is a single one; earlier ones normalise over the axis and all after it."""
FLUSHED = 2.0**-125
"""Largest difference of ONNX Runtime where exponentials or results are subnormal."""

FRAGMENT = Fragment(
    "softmax_float32",
    88,
    """\
# ONNX Softmax of rows of `length` values: the sum is one of IEEE float32 in the order of the columns.
fragment softmax_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    length: integer,
    type: string)
-> (y: tensor<scalar>)
{
    rows = reshape(x, shape = [0, -1, length]);
    e = exponential(rows - max_reduce(rows, axes = [2]));
    y = reshape(e / sum_reduce(e, axes = [2]), shape = [0, -1]);
}
""",
    (EXPONENTIAL,),
)
OF_AXIS = Fragment(
    "softmax_axis_float32",
    89,
    """\
# ONNX Softmax along an axis of `length` values that are `inner` values apart, in the operations of softmax_float32.
fragment softmax_axis_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    length: integer,
    inner: integer,
    type: string)
-> (y: tensor<scalar>);
""",
)


def exponentials(x: Source, kept: Axes, over: Axes) -> tuple[Stage, Stage, Stage]:
    """Return the largest value m of each row, e = exp(x - m), and the sum of e in the order of the row."""
    m = fold("m", kept, over, -np.inf, lambda m: larger(x[x.axes], m))
    e = array("e", x.axes, exponential(x[x.axes] - m[kept]))
    return m, e, fold("s", kept, over, 0, lambda s: s + e[x.axes])


def definition(x: Source, kept: Axes, over: Axes) -> Stage:
    """Return exp(x - max(x)) / the sum of exp(x - max(x))."""
    _, e, s = exponentials(x, kept, over)
    return array("y", x.axes, e[x.axes] / s[kept])


@dataclass(frozen=True, eq=False)
class Softmax(Rows):
    """y = e / s, where e is exp(x - m), m the largest value of a row and s the sum of e."""

    ONNX = (("", "Softmax"),)
    errors = Ability(lambda layer: replace(errors_of(layer), least=layer.least_output))
    least_output = 0.0
    text = Rows.text.but(
        "\n".join(formula(program(definition(*EXAMPLE)))),
        ("x",),
        (FRAGMENT, OF_AXIS),
        chosen=lambda layer: layer.inner > 1,
        facts_of=lambda layer: dict(layer.constants()),
        summary_of=lambda layer: (f"{layer.size // layer.count} x {layer.count}",),
        operations_of=lambda layer: 5 * layer.size,
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that the axis exists."""
        state_axis(node)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node along an axis other than that of the vectors."""
        source, axes = normalised_axes(node)
        return cls(**fields(node, [source], source.shape, FLOAT32, 1.0), axes=tuple(axes))

    @property
    def inner(self) -> int:
        """The distance of the values of a row."""
        return math.prod(self.input.shape[self.axes[-1] + 1 :])

    def constants(self) -> Constants:
        """Return the number of values of a row, and their distance if they are not adjacent."""
        return {"length": self.count} | ({"inner": self.inner} if self.inner > 1 else {})

    def numbers(self) -> dict[str, Any]:
        """Return no constants of the definition."""
        return {}

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:  # noqa: ARG002 - as in the base class
        """Return the bound of another order of the sum and another exp, float64 (vectors, size).

        Both sums are within gamma = n u / (1 - n u) of the exact sum of their exponentials, and these are within
        `Exp.largest_ulp` ulp, 2 u each, of each other; three more roundings are those of a reciprocal and a product.
        """
        relative = 2 * gamma(self.count) + (4 * Exp.largest_ulp + 3) * UNIT_ROUNDOFF
        bound: Array = 1.01 * relative * output.astype(np.float64) + FLUSHED
        return bound

    def distance(self, at: Perturbed) -> Array:
        """Return the change of the exact quotient and the rounding errors of both.

        All z = x - max(x), with their roundings, change by at most d, so that y changes by the factor exp(2 d) or less,
        as does 1 - y, the sum of the others; z below -128 is not seen.  No y is above 1.
        """
        rows, axes = (len(at.output), *self.input.shape), tuple(axis + 1 for axis in self.axes)
        x, error = (part.astype(np.float64).reshape(rows) for part in (at.values[0], at.errors[0]))
        z = np.minimum(x.max(axis=axes, keepdims=True) - x, 128).max(axis=axes, keepdims=True)
        d = error.max(axis=axes, keepdims=True)
        factor = np.expm1(4 * (d + UNIT_ROUNDOFF * (z + d)))
        rounding = self.tolerance(at.values, at.output)
        near = np.minimum(np.abs(at.output), np.abs(1 - at.output.astype(np.float64))) + rounding
        largest = np.broadcast_to(np.where(np.isfinite(d), 1, np.inf), rows).reshape(near.shape)
        change = np.minimum(near * np.broadcast_to(factor, rows).reshape(near.shape), largest)
        bound: Array = change + self.tolerance(at.values, np.minimum(at.output + change, 1)) + rounding
        return bound

    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition."""
        return definition(x, kept, over)


def state_axis(node: Rules) -> None:
    """State, for Softmax and LogSoftmax, that type and shape stay, and that the axis exists."""
    node.same(node.x, node.y)
    axis = node.attribute("axis", -1 if node.opset >= SINGLE_AXIS_OPSET else 1)
    node.given(node.x.rank).then(lambda rank: node.axis(axis, rank))


def normalised_axes(node: Node) -> tuple[Tensor, range]:
    """Return the input of Softmax or LogSoftmax, and the axes of a vector whose values are a row.

    Raises RequestError for the axis of the vectors, and for one that does not exist.
    """
    node.require_inputs(1, 1)
    is_coerced = node.opset < SINGLE_AXIS_OPSET
    axis = node.attributes({"axis": 1 if is_coerced else -1})["axis"]
    source = node.activation(0, [FLOAT32])
    rank = 1 + len(source.shape)
    if not -rank <= axis < rank or axis % rank == 0:
        raise node.refusal(f"axis is {axis}", f"axes 1 to {rank - 1}: the values of one vector")
    first = axis % rank - 1
    return source, range(first, rank - 1 if is_coerced else first + 1)

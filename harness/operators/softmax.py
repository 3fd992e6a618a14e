"""Softmax (ONNX), float32, along one axis; before opset 13 along this axis and all after it, as one.

m = max(x);  e[n] = exp(x[n] - m), by the definition of exponential;  s = ((e[0] + e[1]) + e[2]) + ...
y[n] = e[n] / s                            each operation is rounded to float32, half to even
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.contracted import CONTRACTED, contracted
from harness.operators.exact.evaluation import numpy_function
from harness.operators.exact.fragments import EXPONENTIAL
from harness.operators.exact.functions import exponential
from harness.operators.exp import Exp
from harness.operators.fault_models import FaultModel, Single, through_float16
from harness.operators.float_errors import UNIT_ROUNDOFF, Perturbed, gamma
from harness.operators.float_samples import of_exponents
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    mixed,
    samples,
)
from harness.operators.rules import Rules
from harness.operators.sum_orders import OrderedSum
from harness.operators.tensor import FLOAT32, LARGEST, Tensor
from harness.operators.text import Fragment

SINGLE_AXIS_OPSET = 13
"""The first opset whose axis is a single one; earlier ones normalise over the axis and all after it."""
ORDER = "exponentials of x - max(x), summed in the order of the columns, then a quotient"
EXP = numpy_function(exponential)
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


def ordered_sum(e: Single) -> Single:
    """Return the sum of the last axis from the first value on, float32 (..., 1)."""
    total = e[..., :1].copy()
    for column in range(1, e.shape[-1]):
        total += e[..., column : column + 1]
    return total


@dataclass(frozen=True, eq=False)
class Softmax(Layer):
    """y[n] = exp(x[n] - max(x)) / sum(exp(x - max(x))), in rows of `length` values that are `inner` values apart."""

    ONNX = (("", "Softmax"),)
    least_output = 0.0
    elementwise = False
    operations_of_value = 5
    fused, fused_inputs = ("Softmax", "QLinearSoftmax"), 1
    formula = """\
e[n] = exp(x[n] - max(x))                                      in float32, by the definition of exponential
y[n] = e[n] / (((e[0] + e[1]) + e[2]) + ...)                   in float32, along one axis"""
    roles = ("x",)
    fragments = (FRAGMENT, OF_AXIS)

    length: int
    inner: int

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that the axis exists."""
        state_axis(node)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node along an axis other than that of the vectors."""
        source, axes = normalised_axes(node)
        length, inner = (math.prod(part) for part in (source.shape[axes.start : axes.stop], source.shape[axes.stop :]))
        return cls(**fields(node, [source], source.shape, FLOAT32, 1.0), length=length, inner=inner)

    @property
    def fragment(self) -> Fragment:
        """The operation for adjacent values, or for those of an axis."""
        return self.fragments[self.inner > 1]

    @property
    def rows(self) -> int:
        """The number of rows of a vector."""
        return self.size // self.length

    def prepare(self) -> Evaluate:
        """Return the function, whose float32 operations are numpy's."""
        return self._computed

    def _computed(self, x: Single, exp: Callable[[Single], Single] = EXP) -> Single:
        e = self._exponentials(x, exp)
        with np.errstate(under="ignore", invalid="ignore"):
            return self._flat(e / ordered_sum(e))

    def _flat(self, rows: Array) -> Array:
        """Return the values of rows, (vectors, rows, length), at their places, (vectors, size)."""
        return rows.reshape(len(rows), -1, self.inner, self.length).swapaxes(2, 3).reshape(len(rows), -1)

    def _rows(self, x: Array) -> Array:
        """Return the inverse of `_flat`."""
        return x.reshape(len(x), -1, self.length, self.inner).swapaxes(2, 3).reshape(len(x), -1, self.length)

    def _exponentials(self, x: Single, exp: Callable[[Single], Single]) -> Single:
        """Return exp(x - max(x)), float32 (vectors, rows, length)."""
        rows = self._rows(x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return exp(rows - rows.max(axis=2, keepdims=True))

    def constants(self) -> Constants:
        """Return the number of values of a row, and their distance if they are not adjacent."""
        return {"length": self.length} | ({"inner": self.inner} if self.inner > 1 else {})

    def summary(self) -> tuple[str, ...]:
        """Return the rows."""
        return (f"{self.rows} x {self.length}",)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:  # noqa: ARG002 - as in the base class
        """Return the bound of another order of the sum and another exp, float64 (vectors, size).

        Both sums are within gamma = n u / (1 - n u) of the exact sum of their exponentials, and these are within
        `Exp.largest_ulp` ulp, 2 u each, of each other; three more roundings are those of a reciprocal and a product.
        """
        relative = 2 * gamma(self.length) + (4 * Exp.largest_ulp + 3) * UNIT_ROUNDOFF
        return 1.01 * relative * output.astype(np.float64) + FLUSHED

    def distance(self, at: Perturbed) -> Array:
        """Return the change of the exact quotient and the rounding errors of both.

        All z = x - max(x), with their roundings, change by at most d, so that y changes by the factor exp(2 d) or less,
        as does 1 - y, the sum of the others; z below -128 is not seen.  No y is above 1.
        """
        x, error = (self._rows(each.astype(np.float64)) for each in (at.values[0], at.errors[0]))
        z = np.minimum(x.max(axis=2, keepdims=True) - x, 128)
        d = error.max(axis=2, keepdims=True)
        d = 2 * (d + UNIT_ROUNDOFF * (z.max(axis=2, keepdims=True) + d))
        rounding = self.tolerance(at.values, at.output)
        near = np.minimum(np.abs(at.output), np.abs(1 - at.output.astype(np.float64))) + rounding
        change = near * np.expm1(2 * self._flat(np.broadcast_to(d, x.shape)))
        change = np.where(self._flat(np.broadcast_to(np.isfinite(d), x.shape)), np.minimum(change, 1), np.inf)
        return change + self.tolerance(at.values, np.minimum(at.output + change, 1)) + rounding

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where input and output are no NaN."""
        return ~(np.isnan(inputs[0]) | np.isnan(expected))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - sampled
        """Yield values near each other and far apart, the largest in every column; not every vector can be tried."""
        count = VECTORS + 3 * samples(self.size) + self.size
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "exponentials are summed in the order of the columns and divided, rounded as IEEE 754 says",
            f"{count:,} vectors: values near each other and far apart, the largest in every column; {MIXED}; "
            "not complete",
            count * self.size,
            Outputs(self._vectors, self.prepare()),
            complete=False,
        )
        yield from of_exponents(self)

    def _vectors(self) -> list[Array]:
        rng, shape = np.random.default_rng(0), (samples(self.size), self.size)
        bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32).view(np.float32)
        far = np.where(np.isfinite(bits), bits, np.float32(1))
        one_large = np.where(np.eye(self.size, dtype=np.bool_), np.float32(3), np.float32(-2))
        few = np.array([0, -0.0, 1, -1, 87, -87, 104, LARGEST, -LARGEST], np.float32)
        near, wide = (rng.normal(0, scale, shape).astype(np.float32) for scale in (1, 30))
        return [near, wide, far, one_large, mixed(few, self.size)]

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption about the roundings."""
        yield (
            "Softmax rounds each operation of its formula to float32, as IEEE 754 requires, in the order of the "
            "formula: vectors were tried, not every one."
        )

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of exponentials."""
        e = self._exponentials(inputs[0], EXP)
        return OrderedSum(np.moveaxis(e, 2, 0), lambda sums: self._flat(e / sums[..., None]))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders of the sum, other quotients, and other exponentials."""
        [x] = inputs
        yield from self.sum_faults(x)
        with np.errstate(all="ignore"):
            e = self._exponentials(x, EXP)
            s = ordered_sum(e)
            unshifted = EXP(x).reshape(e.shape)
            outputs = {
                "the last column is left out of the sum": e / ordered_sum(e[..., :-1] if self.length > 1 else e),
                "multiplication by 1 / sum instead of division": e * (np.float32(1) / s),
                "the largest value is not subtracted": unshifted / ordered_sum(unshifted),
                "the quotient is left out": e,
            }
            for cause, output in outputs.items():
                yield FaultModel(cause, ORDER, self._flat(output))
            exponentials: dict[str, Callable[[Single], Single]] = {
                "the exponentials are rounded correctly": lambda d: np.exp(d.astype(np.float64)).astype(np.float32),
                "the base is 2": lambda d: np.exp2(d.astype(np.float64)).astype(np.float32),
                CONTRACTED: lambda d: contracted(EXP, d),
            }
            for cause, exp in exponentials.items():
                yield FaultModel(cause, ORDER, self._computed(x, exp))
            yield FaultModel("the result is rounded to float16", "to float32", through_float16(self._computed(x)))


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

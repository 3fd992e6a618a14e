"""Reductions (ONNX), float32 or integers, over axes of a vector, row by row in the order of the axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Layer, fields
from harness.operators.exact.expression import Expression, converted, larger, literal, smaller, square_root
from harness.operators.exact.functions import exponential, logarithm
from harness.operators.exact.modular import wide
from harness.operators.exact.stages import Source, Stage, array, fold, narrowed
from harness.operators.float_errors import Errors, gamma
from harness.operators.node import Node
from harness.operators.rows import EXAMPLE, Axes, Rows, views
from harness.operators.rules import Rules
from harness.operators.staged import OfIntegers, described, errors_of
from harness.operators.tensor import CODES, FLOAT32, INT32, INT64, LARGEST, UINT32, UINT64, integer_limits

COUNT = "float32 (1, 1): the number of values"
Definition: TypeAlias = Callable[[Source, Axes, Axes], Stage]


def itself(x: Expression) -> Expression:
    """Return the value."""
    return x


def square(x: Expression) -> Expression:
    """Return the product with itself."""
    return x * x


def total(term: Callable[[Expression], Expression], name: str = "s") -> Definition:
    """Return the definition of a sum of terms from 0 on."""

    def definition(x: Source, kept: Axes, over: Axes) -> Stage:
        zero = literal(0, wide(x.dtype))
        return narrowed(fold(name, kept, over, zero, lambda s: s + term(converted(x[x.axes], zero.dtype))), x.dtype)

    return definition


def _extremum(first: float, choose: Callable[..., Expression]) -> Definition:
    """Return the definition of the largest or the smallest value, of equal ones the first."""

    def definition(x: Source, kept: Axes, over: Axes) -> Stage:
        end = first if x.dtype == FLOAT32 else integer_limits(x.dtype)[int(first > 0)]
        return fold("m", kept, over, literal(end, x.dtype), lambda m: choose(x[x.axes], m))

    return definition


def _mean(x: Source, kept: Axes, over: Axes) -> Stage:
    s = total(itself)(x, kept, over)
    return array("y", kept, s[kept] / Source("count", (), is_constant=True)[()])


def _norm(x: Source, kept: Axes, over: Axes) -> Stage:
    s = total(square)(x, kept, over)
    return array("y", kept, square_root(s[kept]))


def _product(x: Source, kept: Axes, over: Axes) -> Stage:
    one = literal(1, wide(x.dtype))
    name = "y" if one.dtype == x.dtype else "p"  # the result of integers is another stage
    return narrowed(fold(name, kept, over, one, lambda y: y * converted(x[x.axes], one.dtype)), x.dtype)


def _log_sum_exp(x: Source, kept: Axes, over: Axes) -> Stage:
    m = _extremum(-np.inf, larger)(x, kept, over)
    s = fold("s", kept, over, 0, lambda s: s + exponential(x[x.axes] - m[kept]))
    return array("y", kept, m[kept] + logarithm(s[kept]))


class Kind(NamedTuple):
    """A reduction: its definition, and the largest magnitudes of results and of partial ones without roundings."""

    definition: Definition
    bound: Callable[[int, Any], float]
    partial: Callable[[int, Any], float] = lambda *_: 0.0
    has_negative_zero: bool = False
    is_rising: bool = False

    def largest(self, count: int, bound: float) -> float:
        """Return the bound of the results of `count` values of up to `bound`; infinite where one can overflow."""
        with np.errstate(over="ignore"):
            magnitudes = (float(limit(count, np.float64(bound))) for limit in (self.bound, self.partial))
            result, most = ((magnitude + 2.0**-20) * (1 + gamma(count + 8)) for magnitude in magnitudes)
        return result if max(result, most) <= LARGEST else math.inf


def _same(_: int, bound: float) -> float:
    return bound


def _sum_of(count: int, bound: float) -> float:
    return count * bound


def _sum_of_squares(count: int, bound: float) -> float:
    return count * bound * bound


def _power(count: int, bound: Any) -> float:
    return float(np.maximum(bound, 1.0) ** count)


KINDS = {
    "ReduceSum": Kind(total(itself), _sum_of, is_rising=True),
    "ReduceMean": Kind(_mean, _same, _sum_of, has_negative_zero=True, is_rising=True),
    "ReduceMax": Kind(_extremum(-np.inf, larger), _same, has_negative_zero=True, is_rising=True),
    "ReduceMin": Kind(_extremum(np.inf, smaller), _same, has_negative_zero=True, is_rising=True),
    "ReduceProd": Kind(_product, _power, has_negative_zero=True),
    "ReduceL1": Kind(total(abs), _sum_of),
    "ReduceL2": Kind(_norm, lambda count, bound: math.sqrt(count) * bound, _sum_of_squares),
    "ReduceSumSquare": Kind(total(square), _sum_of_squares),
    "ReduceLogSumExp": Kind(_log_sum_exp, lambda count, bound: bound + math.log(count), has_negative_zero=True),
}
DESCRIBED = {
    name: described(name, kind.definition(*EXAMPLE), {"count": COUNT} if name == "ReduceMean" else {})
    for name, kind in KINDS.items()
}
LONG = (INT32, UINT32, INT64, UINT64)
DOUBLE = 1 << 53
"""Below it double precision has every integer."""
OF_INTEGERS = {
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceSumSquare"), LONG),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), (*CODES, *LONG)),
}
"""The types of integers that ONNX has of a reduction."""
CHOOSING = ("ReduceMax", "ReduceMin")
"""The operators that round nothing, so that their bound is that of the input."""
LINEAR = ("ReduceSum", "ReduceMean")


@dataclass(frozen=True, eq=False)
class Reduce(Rows):
    """One value of those along the axes."""

    ONNX = tuple(("", name) for name in KINDS)
    errors = Ability(
        lambda layer: replace(errors_of(layer), rising=KINDS[layer.operator].is_rising, linear=layer.linear)
    )
    text = Rows.text.but(
        lambda operator: DESCRIBED[operator]["formula"],
        ("x", "axes"),
        tuple(fragment for each in DESCRIBED.values() for fragment in each["fragments"]),
        chosen=lambda layer: [*KINDS].index(layer.operator),
        facts_of=lambda layer: {"count": np.array([layer.count], np.float32)} if layer.operator == "ReduceMean" else {},
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that axes get the size 1, or vanish."""
        node.same_type(node.x, node.y)
        keeps_all = bool(node.attribute("noop_with_empty_axes", 0))
        node.reduces(node.parameter("axes", 1, ()), keep=bool(node.attribute("keepdims", 1)), keeps_all=keeps_all)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node with constant axes, the vectors not among them."""
        node.require_inputs(1, 2)
        attributes = node.attributes({"axes": [], "keepdims": 1, "noop_with_empty_axes": 0})
        source = node.activation(0, [FLOAT32, *OF_INTEGERS.get(node.operator, ())])
        rank = 1 + len(source.shape)
        stated = node.constant(1, "axes", [INT64]).tolist() if node.has(1) else attributes["axes"]
        axes = sorted({axis % rank for axis in stated if -rank <= axis < rank})
        if not axes or len(axes) != len(stated) or axes[0] == 0:
            raise node.refusal(f"axes is {stated}", f"some of the axes 1 to {rank - 1}: the values of one vector")
        sizes = [1 if axis + 1 in axes else size for axis, size in enumerate(source.shape)]
        shape = tuple(size for axis, size in enumerate(sizes) if attributes["keepdims"] or axis + 1 not in axes)
        if not shape:
            raise node.refusal("it leaves no axis but the vectors", "keepdims 1")
        places = tuple(axis - 1 for axis in axes)
        if source.dtype != FLOAT32:
            return IntegerReduce(**fields(node, [source], shape, source.dtype), axes=places)
        count, kind = math.prod(source.shape[axis - 1] for axis in axes), KINDS[node.operator]
        is_choice = node.operator in CHOOSING
        bound = source.bound if is_choice else kind.largest(count, source.bound)
        negative_zero = kind.has_negative_zero and (source.negative_zero or not is_choice)
        written = fields(node, [source], shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, axes=places)

    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition of the operator."""
        return KINDS[self.operator].definition(x, kept, over)

    def linear(self, rows: Sequence[Array]) -> Array | None:
        """Return sums or means of the changes; None for other operators."""
        if self.operator not in LINEAR:
            return None
        changes = rows[0].reshape(len(rows[0]), *self.input.shape)
        sums: Array = changes.sum(axis=tuple(axis + 1 for axis in self.axes)).reshape(len(changes), -1)
        return sums / (self.count if self.operator == "ReduceMean" else 1)


DESCRIBED_INTEGERS = {
    name: described(name, KINDS[name].definition(*views((2, 2), (1,), INT32)), {}, "integers") for name in OF_INTEGERS
}


@dataclass(frozen=True, eq=False)
class IntegerReduce(OfIntegers, Reduce):
    """One value of the integers along the axes, modulo 2^n.

    ONNX Runtime 1.31 adds and multiplies in double precision, and limits the result to the type.
    """

    ONNX = ()
    errors = Ability[Errors](
        lambda layer: Errors(layer, rising=layer.operator in CHOOSING, exact=layer.operator in CHOOSING)
    )
    text = Rows.text.but(
        lambda operator: DESCRIBED_INTEGERS[operator]["formula"],
        ("x", "axes"),
        tuple(fragment for each in DESCRIBED_INTEGERS.values() for fragment in each["fragments"]),
        chosen=lambda layer: [*OF_INTEGERS].index(layer.operator),
    )

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:
        """Return infinity where ONNX Runtime can leave the exact integers, else 0; None if every bit must agree."""
        if self.operator in CHOOSING:
            return None
        x = np.abs(inputs[0].astype(np.float64)).reshape(len(output), *self.input.shape)
        axes = tuple(axis + 1 for axis in self.axes)
        if self.operator == "ReduceProd":
            largest = np.maximum(x, 1).prod(axes)
        else:
            largest = (x if self.operator == "ReduceSum" else x * x).sum(axes)
        limit = min(DOUBLE, integer_limits(self.dtype)[1])
        return np.where(largest.reshape(output.shape) < limit, 0.0, np.inf)

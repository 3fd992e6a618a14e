"""Operators that are defined by one expression of one float32 value; all else is derived from the definition.

y[n] = value(x[n])                         by the operations of the expression, each rounded half to even
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Ability, Evaluate, Layer, fields
from harness.operators.contracted import CONTRACTED, contracted
from harness.operators.counters import Stimuli
from harness.operators.elements import Operand, evaluation, real_evaluation
from harness.operators.exact import floats, mutations, onnx_functions, printing
from harness.operators.exact.evaluation import is_integral
from harness.operators.exact.expression import (
    ARITHMETIC,
    COMPARISONS,
    Expression,
    argument,
    calls,
    expanded,
    ordered,
    required_float,
)
from harness.operators.exact.fragments import FUNCTIONS
from harness.operators.exact.integers import IntegerEvaluation
from harness.operators.exact.ranges import Interval, interval
from harness.operators.fault_models import FaultModel, Real, Single, through_float16, toward_zero
from harness.operators.float_errors import Errors, Perturbed
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    SPREAD_VALUES,
    VECTORS,
    Extent,
    Numbers,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    mixed,
)
from harness.operators.region import UNIFORM
from harness.operators.rules import Rules
from harness.operators.softfloat import INFINITY_BITS
from harness.operators.sweeps import NEGATIVE, Sweep
from harness.operators.tensor import FLOAT32, LARGEST, Tensor
from harness.operators.text import Fragment, Text

LEAST_NORMAL = float(np.finfo(np.float32).tiny)
ORDER = "every operation is rounded to float32, in the order of the specification"
ROUNDED = (*ARITHMETIC, "square_root", "call")
FRAGMENT_ORDER = 120
"""Behind those of the functions that definitions call."""


class Range(NamedTuple):
    """The largest |value| of an output, and whether a value can be -0."""

    bound: float
    negative_zero: bool


def errors_of(layer: Pointwise) -> Errors:
    """Return the errors of a definition, by its interval."""
    return Errors(
        layer, specified=layer.specified, bounds=layer.output_bounds, distance=layer.distance, least=layer.least_output
    )


@dataclass(frozen=True, eq=False)
class Pointwise(Layer):
    """A layer with a value of one float32; an operator states `value`, and `defaults` if it has attributes.

    ONNX Runtime gives the same bits, unless `largest_ulp` or `largest_difference` state how far it may be away: a
    distance that was measured, with a margin (tests/campaigns/functions/test_definitions.py).
    """

    text = Text(
        roles=("x",),
        summary_of=lambda layer: tuple(f"{name} {text.floats(number)}" for name, number in layer.constants().items()),
    )
    division = Ability(UNIFORM)
    stimuli = Ability(lambda layer: Stimuli(boundaries=layer.boundaries, representable=lambda: layer.interval))
    defaults: ClassVar[Mapping[str, float]] = {}
    """The attributes, which must be finite, with the values that ONNX gives them."""
    least: ClassVar[float] = -math.inf
    """The least number for which the function is defined; nodes that can read a lower one are refused."""
    errors = Ability[Errors](errors_of)
    least_output: ClassVar[float] = -math.inf
    """A number that no value is below, in every rounding, where the interval of the definition loses it."""
    interval: ClassVar[tuple[float, float]] = (-10.0, 10.0)
    """Inputs that reach all outputs but those in the limit."""
    places: ClassVar[tuple[float, ...]] = ()
    """Inputs at which the formula changes, besides 0."""
    value: ClassVar[Callable[..., Expression]]
    """The definition: from the expressions of x and of the attributes to that of the output."""
    definition: ClassVar[Expression]
    """The expression that `value` returns for arguments x and the attributes."""
    largest_ulp: ClassVar[float] = 0
    largest_difference: ClassVar[float] = 0
    factors: ClassVar[tuple[str, ...]] = ()
    """The attributes with whose magnitudes `largest_difference` grows; it is measured for 1."""
    alternatives: ClassVar[Mapping[str, Callable[..., Expression]]] = {}
    """Other definitions with the arguments of `value`, by the fault in words: what no mutant of `value` is."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "value"):  # a family of operators
            return
        x = argument("x")
        cls.definition = required_float(cls.value(x, **{name: argument(name) for name in cls.defaults}), cls.__name__)
        cls.places = cls.places or tuple(sorted(set(_places(cls.definition))))
        *before, last = (
            f"{name} = {text}" for name, text in printing.statements(cls.definition, "y[n]", {id(x): "x[n]"})
        )
        standard = "".join(f"; {name} is {value:g} if not given" for name, value in cls.defaults.items())
        formula = "\n".join([*before, f"{last:62} in float32{standard}"])
        cls.text = cls.text.but(formula, fragments=(cls._fragment(),))

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto | None:  # noqa: ARG003 - of the interface
        """Return the function of the definition, for an operator that ONNX Runtime does not have."""
        return onnx_functions.derived(cls.ONNX, cls.definition, ["x"], cls.defaults, opset)

    @classmethod
    def incomplete(cls) -> str:
        """Return whether an attribute has no default, or no field."""
        of_class, of_base = ({field.name for field in dataclasses.fields(kind)} for kind in (cls, Pointwise))
        own = of_class - of_base
        if own != {*cls.defaults}:
            return f"has the fields {sorted(own)} and defaults of {sorted(cls.defaults)}: give each attribute both"
        return onnx_functions.missing(cls.as_function, 1)

    @classmethod
    def short_name(cls) -> str:
        """Return the name of the operator in texts: hard_swish."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def _fragment(cls) -> Fragment:
        name = f"{cls.short_name()}_float32"
        comment = f"ONNX {cls.__name__}: IEEE float32 operations in this order."
        attributes = dict.fromkeys(cls.defaults, "scalar")
        names = [function.name for function in calls(cls.definition)]
        names += [printing.NAMES.get(node.operation, "") for node in ordered(cls.definition)]
        used = tuple(FUNCTIONS[name] for name in dict.fromkeys(names) if name in FUNCTIONS)
        return Fragment(name, FRAGMENT_ORDER, printing.nnef(cls.definition, name, attributes, comment), used)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:
        """Return the bounds of the definition's interval; refuse the node if a finite value can become NaN."""
        low, high = node.range(source) if cls.least > -math.inf else (-source.bound, source.bound)
        bounds = cls._bounds(np.float32(low), np.float32(high), numbers)
        if cls._bounds(np.float32(max(low, -LARGEST)), np.float32(min(high, LARGEST)), numbers).nan.any():
            stated = "".join(f", and {name} {number:g}" for name, number in numbers.items())
            raise node.refusal(
                f"its result can be NaN for values of {source.name!r}, which are between {low:g} and {high:g}{stated}",
                f"an input with other bounds: Clip it{', or other attributes' if numbers else ''}"
                if cls.least == -math.inf
                else f"an input of at least {cls.least:g}: Clip it, or take its Relu or Abs",
            )
        bound = float(max(abs(bounds.low[0]), abs(bounds.high[0])))
        return Range(bound if bound <= LARGEST else math.inf, bool(bounds.minus_zero[0]))

    @classmethod
    def _bounds(cls, low: np.float32, high: np.float32, numbers: Mapping[str, np.float32]) -> Interval:
        return cls._interval(np.atleast_1d(low), np.atleast_1d(high), numbers)

    @classmethod
    def _interval(cls, low: Array, high: Array, numbers: Mapping[str, Any]) -> Interval:
        attributes = {name: np.full(low.shape, number, np.float32) for name, number in numbers.items()}
        arguments = {
            name: Interval.between(number, number, minus_zero=(number == 0) & np.signbit(number))
            for name, number in attributes.items()
        }
        return interval(cls.definition, {"x": Interval.between(low, high)} | arguments)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay."""
        node.same(node.x, node.y)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node of float32 values of any shape."""
        node.require_inputs(1, 1)
        numbers: dict[str, Any] = {name: np.float32(value) for name, value in node.attributes(cls.defaults).items()}
        source = node.activation(0, [FLOAT32])
        for name, number in numbers.items():
            if not np.isfinite(number):
                raise node.refusal(f"{name} is {number}", "a finite number")
        bound, negative_zero = cls.range_of(node, source, numbers)
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, **numbers)

    def prepare(self) -> Evaluate:
        """Return the function, whose float32 operations are numpy's."""
        return self.function

    def constants(self) -> Mapping[str, np.float32]:
        """Return the attributes."""
        return {name: getattr(self, name) for name in self.defaults}

    def boundaries(self) -> tuple[Array, Array]:
        """Return 0 and the places at which the formula changes, with their neighbours; nothing is quantised."""
        keys = floats.ordered(np.array([0, *self.places], np.float32))
        return floats.from_ordered(np.unique(keys[:, None] + np.arange(-1, 2))), np.empty(0, np.float32)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where input and output are no NaN."""
        return ~(np.isnan(inputs[0]) | np.isnan(expected))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield all floats or numbers of all magnitudes, and the independence of columns."""
        numbers = self._numbers()
        if extent.all_floats:
            infinite = np.array([np.inf, -np.inf], np.float32)
            count = INFINITY_BITS + (not np.isnan(self.function(infinite)).any())
            signs = {"positive": 0} if self.least >= 0 else {"positive": 0, "negative": NEGATIVE}
            for sign, start in signs.items():
                sweep = _shared_sweep(start, count, self.size)
                yield Obligation(
                    ProofStep.OTHERS,
                    StageKind.COMPUTE,
                    f"every {sign} float32 becomes the number of the specification",
                    f"all {count:,} bit patterns pass through the deployed code; all outputs are compared",
                    sweep.cases,
                    Numbers(sweep, lambda bits: self.function(bits.astype(np.uint32).view(np.float32))),
                )
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "numbers become those of the specification, in every column",
            f"{len(numbers):,} numbers of all magnitudes, among them those where the formula changes, pass through "
            f"every column; {MIXED}{'' if extent.all_floats else '; not complete'}",
            (len(numbers) + VECTORS) * self.size,
            Outputs(
                lambda: [np.repeat(numbers[:, None], self.size, axis=1), mixed(numbers, self.size)], self.prepare()
            ),
            complete=extent.all_floats,
        )

    def _numbers(self) -> Single:
        """Return inputs whose outputs are no NaN: around the places, of all magnitudes, and special ones."""
        patterns = np.linspace(0, (1 << 32) - 1, max(SPREAD_VALUES // self.size, 1024)).astype(np.uint32)
        within = np.linspace(*self.interval, max(SPREAD_VALUES // self.size, 1024), dtype=np.float32)
        special = np.array([0, -0.0, LARGEST, -LARGEST, np.inf, -np.inf], np.float32)
        numbers: Single = np.concatenate([self.boundaries()[0], within, patterns.view(np.float32), special])
        specified: Single = numbers[~np.isnan(numbers) & ~np.isnan(self.function(numbers))]
        return specified

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that operations are rounded as IEEE 754 requires."""
        yield (
            f"{type(self).__name__} rounds each operation of its formula to float32, as IEEE 754 requires, in the "
            "order of the formula: unless all floats were asked for, numbers of all magnitudes were tried."
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other functions, contracted operations, and results in other formats."""
        [x] = inputs
        with np.errstate(all="ignore"):
            yield from self.wrong_functions(x)
            y = self.function(x)
            yield FaultModel(CONTRACTED, ORDER, contracted(self.function, x))
            flushed = np.where(np.abs(y) < np.float32(LEAST_NORMAL), y * np.float32(0), y)
            yield FaultModel("a subnormal result is flushed to zero", "it is kept", flushed)
            small = np.where(np.abs(x) < np.float32(LEAST_NORMAL), x * np.float32(0), x)
            yield FaultModel("a subnormal input is read as zero", "it is kept", self.function(small))
            yield FaultModel("the result is rounded to float16", "to float32", through_float16(y))

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands of the definition: x and the attributes."""
        ones = (1,) * len(self.output.shape)
        attributes = ((name, np.atleast_1d(number)) for name, number in self.constants().items())
        return (Operand("x", self.output.shape), *(Operand(name, ones, one, name) for name, one in attributes))

    def function(self, x: Single) -> Single:
        """Return the value of the definition."""
        return self._evaluated(self.definition, x)

    def in_integers(self, inputs: Sequence[Array]) -> Array:
        """Return the values of the definition."""
        return IntegerEvaluation(self.definition)({"x": inputs[0], **self.constants()})

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the ends of the definition's interval."""
        bounds = self._interval(low[0], high[0], self.constants())
        return np.where(bounds.nan, -np.float32(np.inf), bounds.low), np.where(
            bounds.nan, np.float32(np.inf), bounds.high
        )

    def distance(self, at: Perturbed) -> Array:
        """Return the distance of the output from the ends of the interval for inputs within `at`, with tolerances."""
        low, high = at.ends()
        bounds = self._interval(np.maximum(low, np.float32(self.least)), high, self.constants())
        output = at.output.astype(np.float64)
        with np.errstate(invalid="ignore"):
            distance = np.maximum(bounds.high - output, output - bounds.low)
        # A tolerance grows with |y|, and is that of inputs below the place from which it is 0.
        allowed = (self.tolerance([low], end) for end in (bounds.low, bounds.high))
        distance = distance + np.maximum.reduce([np.zeros(low.shape), *(one for one in allowed if one is not None)])
        return np.where(bounds.nan | np.isnan(distance) | np.isinf(at.errors[0]), np.inf, distance)

    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield alternatives and mutants of the definition, wrong attributes, and other roundings."""
        right = "; ".join(f"{name} = {text}" for name, text in printing.statements(self.definition))
        for cause, wrong in _faults(type(self)):
            yield FaultModel(cause, right, self._evaluated(wrong, x))
        for cause, numbers in self._wrong_attributes():
            yield FaultModel(cause, right, evaluation(self.definition)({"x": x, **numbers}))
        yield from self._wrong_roundings(x)

    def _wrong_attributes(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        numbers: dict[str, Any] = dict(self.constants())
        if not numbers:
            return
        swapped = {name: number.byteswap() for name, number in numbers.items()}
        yield f"the bytes of {' and '.join(numbers)} are in the other order", swapped
        defaults = {name: np.float32(number) for name, number in self.defaults.items()}
        for name in (name for name, number in numbers.items() if number != defaults[name]):
            yield f"{name} is the default", numbers | {name: defaults[name]}
        if len(numbers) > 1:
            opposite = dict(zip(numbers, reversed(numbers.values()), strict=True))
            yield f"{' and '.join(numbers)} are exchanged", opposite

    def _wrong_roundings(self, x: Single) -> Iterator[FaultModel]:
        """Yield the result of double precision, rounded once, and truncated."""
        steps = [node for node in ordered(self.definition) if node.operation in ROUNDED]
        if not steps or is_integral(self.definition):
            return
        real = real_evaluation(self.definition)({"x": x.astype(np.float64), **self.constants()})
        with np.errstate(all="ignore"):
            if len(steps) > 1:
                once = real.astype(np.float32)
                yield FaultModel("it is computed in double precision, and rounded once", ORDER, once)
            yield FaultModel("the result is truncated toward zero", "it is rounded half to even", toward_zero(real))

    def _evaluated(self, definition: Expression, x: Single) -> Single:
        arguments: dict[str, Any] = {"x": x, **self.constants()}
        return evaluation(definition)(arguments)


@dataclass(frozen=True, eq=False)
class Approximated(Pointwise):
    """A function that ONNX fixes as a real number only, so that ONNX Runtime has other roundings."""

    errors = Ability[Errors](lambda layer: replace(errors_of(layer), tangent=layer.tangent))
    same_from: ClassVar[float] = math.inf
    """The input from which ONNX Runtime has the same bits."""
    curvature: ClassVar[float] = math.inf
    """The largest magnitude of the second derivative, if `slope` is known."""

    def slope(self, y: Real) -> Real:
        """Return the derivative where the function has the value y."""
        return np.full(y.shape, np.nan)

    def tangent(self, at: Perturbed, rows: Sequence[Array], rest: Sequence[Array]) -> tuple[Array, Array] | None:
        """Return the tangent, and the distance of the function from it: at most half of its curvature times e^2.

        Both results have errors within the tolerance, and the slope, by the rounded output, one of less than 1e-6.
        """
        if not np.isfinite(self.curvature):
            return None
        slope, [error], (_, allowed) = self.slope(at.output.astype(np.float64)), at.errors, self.errors.between_ends(at)
        return slope * rows[0], slope * rest[0] + (self.curvature / 2 * error + 1e-6) * error + 2 * allowed

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:
        """Return the largest difference of ONNX Runtime, float64 (vectors, size)."""
        difference = self.largest_difference * math.prod(abs(float(getattr(self, name))) for name in self.factors)
        return np.where(inputs[0] >= self.same_from, 0, self.largest_ulp * ulp_of(output) + difference)


def refuse_zero_times_infinity(node: Node, source: Tensor, alpha: np.float32) -> None:
    """Refuse a factor `alpha` of 0 for an input that can be infinite."""
    if alpha == 0 and np.isinf(source.bound):
        raise node.refusal(
            f"its result can be NaN: {source.name!r} can be infinite and alpha is 0",
            "another alpha, or Clip its input",
        )


@functools.cache
def _faults(kind: type[Pointwise]) -> tuple[tuple[str, Expression], ...]:
    """Return the alternatives and the mutants of an operator, once."""
    x, attributes = argument("x"), {name: argument(name) for name in kind.defaults}
    alternatives = ((cause, other(x, **attributes)) for cause, other in kind.alternatives.items())
    return (*alternatives, *mutations.mutants(kind.definition))


def _places(root: Expression) -> Iterator[float]:
    """Yield the numbers with which a definition compares its argument, and their negations where it takes |x|."""
    for node in ordered(expanded(root)):
        if node.operation not in COMPARISONS or node.operands[0].dtype != np.float32:
            continue
        first, second = node.operands
        if second.value is not None and np.isfinite(float(second.value)):
            yield float(second.value)
            if first.operation == "absolute":
                yield -float(second.value)


def ulp_of(y: Single) -> Real:
    """Return the distance from each float32 to the next one away from 0, float64; that of infinity is 0."""
    magnitude = np.maximum(np.abs(y.astype(np.float64)), LEAST_NORMAL)
    return np.where(np.isinf(y), 0, 2.0 ** (np.frexp(magnitude)[1] - 24.0))


def _shared_sweep(start: int, count: int, columns: int) -> Sweep:
    """Return `count` integers from `start` on, shared among the columns; none continues past the last integer."""
    each = -(-count // columns)
    starts = start + np.minimum(np.arange(columns, dtype=np.int64) * each, count - each)
    return Sweep(starts, np.full(columns, each, np.int64))

"""Operators that are defined by one expression of several values at one place, with broadcasting.

y[n] = value(a[n], b[n], ...)              by the operations of the expression, each rounded half to even
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Ability, Constants, Evaluate, Layer
from harness.operators.contracted import CONTRACTED, contracted
from harness.operators.exact import mutations, printing
from harness.operators.exact.errors import Inexact, inexact, linear
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import ARITHMETIC, FLOAT32, Expression, argument, ordered
from harness.operators.exact.integers import IntegerEvaluation
from harness.operators.exact.ranges import Interval, interval
from harness.operators.fault_models import LITTLE_ENDIAN, FaultModel, Single, through_float16, toward_zero
from harness.operators.float_errors import Errors, Perturbed, gamma
from harness.operators.float_samples import of_samples
from harness.operators.obligations import Extent, Obligation
from harness.operators.region import WAYS, Division
from harness.operators.rules import Rules
from harness.operators.tensor import LARGEST, Tensor
from harness.operators.text import Text

LEAST_NORMAL = np.finfo(np.float32).tiny
ORDER = "each operation is rounded to float32, half to even, in the order of the definition"
SLACK = 1 + 2.0**-40
"""More than the roundings of bounds in float64."""
Terms = tuple[npt.NDArray[Any] | None, ...]


class Operand(NamedTuple):
    """A value of a definition: its name there, its shape with the axes of the output, and what it is if constant.

    Constants are part of the table `role` of the layer, from `begin` on.
    """

    name: str
    shape: tuple[int, ...]
    values: Array | None = None
    role: str = ""
    begin: int = 0


def tables(operands: Sequence[Operand]) -> dict[str, Array]:
    """Return the values of the constant operands, flat, by role."""
    values: dict[str, Array] = {}
    for operand in operands:
        if operand.values is not None:
            own = operand.values.reshape(-1)
            values[operand.role] = np.append(values[operand.role], own) if operand.role in values else own
    return values


class Bounds(NamedTuple):
    """The largest |value| of an output, whether a value can be -0, and whether one can be NaN."""

    bound: float
    negative_zero: bool
    can_be_nan: bool


def divided(layer: Elements) -> Division:
    """Return the division into channels or rows of operands of one shape; none with a constant of several values."""
    alike = all(values is None or np.size(values) == 1 for values in layer.fixed)
    return Division(layer, WAYS if alike else (), uniform=True)


def _flat(values: Array | None) -> Array | None:
    """Return an operand that can be constant, flat; None for an activation."""
    return None if values is None else values.reshape(-1)


def errors_of(layer: Elements) -> Errors:
    """Return the errors of a definition; the bounds of codes are those of their type."""
    bounds = layer.output_bounds if layer.dtype == FLOAT32 else None
    return Errors(
        layer, specified=layer.specified, bounds=bounds, linear=layer.linear, change=layer.change,
        rounding=layer.rounding,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Elements(Layer):
    """A layer whose values depend on one value of each operand: an activation, or a constant for all vectors.

    An operator states `value`.  Constants are fields, None for an activation, with at most the axes of the output.
    """

    errors = Ability[Errors](errors_of)
    text = Text(
        facts_of=lambda layer: {role: _flat(getattr(layer, role)) for role in layer.constant_roles},
        summary_of=lambda layer: tuple(
            f"{role} {text.floats(values)}" for role, values in layer.text.facts().items() if values is not None
        ),
    )
    value: ClassVar[Callable[..., Expression]]
    """The definition: a static method from the expressions of the operands to that of the output."""
    names: ClassVar[tuple[str, ...]]
    """The arguments of `value`."""
    constant_roles: ClassVar[tuple[str, ...]] = ()
    """The fields that are constants, those of the last operands."""
    takes_infinities: ClassVar[bool] = False
    """True if an operand can be infinite; a NaN of infinite operands has no specified bits."""
    alternatives: ClassVar[Mapping[str, Callable[..., Expression]]] = {}
    """Other definitions of float32 with the arguments of `value`, by the fault in words: for mutants a better name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "value") and hasattr(cls, "names") and not cls.text.formula:
            names = {id(x): f"{x.name}[n]" for x in ordered(cls.defined()) if x.operation == "argument"}
            lines = [f"{name} = {line}" for name, line in printing.statements(cls.defined(), "y[n]", names)]
            lines[-1] = f"{lines[-1]:62} in float32; a constant serves every vector"
            cls.text = cls.text.but("\n".join(lines))

    @classmethod
    @functools.cache
    def defined(cls, names: tuple[str, ...] = (), dtype: np.dtype[Any] = FLOAT32) -> Expression:
        """Return the expression that `value` returns for arguments of a type."""
        return cls.value(*(argument(name, dtype) for name in names or cls.names))

    @property
    def definition(self) -> Expression:
        """The definition for the layer's operands and type."""
        return self.defined(tuple(operand.name for operand in self.operands), self.input.dtype)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(*node.given_inputs, node.y).broadcast(node.y, node.given_inputs)

    @property
    def fixed(self) -> Terms:
        """The constant operands, None for each activation."""
        constants = [getattr(self, role) for role in self.constant_roles]
        return (*[None] * (len(self.names) - len(constants)), *constants)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in the order of the definition."""
        shapes = broadcast.shapes(self.inputs, self.fixed)
        roles = [*[""] * (len(shapes) - len(self.constant_roles)), *self.constant_roles]
        operands = zip(self.names, shapes, self.fixed, roles, strict=True)
        return tuple(Operand(name, shape, values, role) for name, shape, values, role in operands)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the operands, with the number of axes of the output."""
        return [operand.shape for operand in self.operands]

    @property
    def broadcasts(self) -> bool:
        """True if some value of an operand is used for several values of the output."""
        return any(math.prod(shape) != self.size for shape in self.shapes)

    def constants(self) -> Constants:
        """Return the constants, flat, then the sizes of all operands if the fragment has them."""
        constants = {role: values for role, values in self.text.facts().items() if values is not None}
        has_axes = "    axes: tensor<integer>," in self.text.fragment.text
        return constants | ({"axes": np.array(self.shapes, np.int32)} if has_axes else {})

    def arguments(self, values: Sequence[Array], fixed: Sequence[Array | None] | None = None) -> dict[str, Array]:
        """Return the values of all operands by name, (n or 1, *shape); other constants than those of the layer."""
        arrays = broadcast.operands(self.inputs, self.fixed if fixed is None else fixed, values)
        return dict(zip((operand.name for operand in self.operands), arrays, strict=True))

    def prepare(self) -> Evaluate:
        """Return the function of the definition, whose float32 operations are numpy's."""
        return lambda *values: self._computed(self.definition, self.arguments(values))

    def in_integers(self, inputs: Sequence[Array]) -> Array:
        """Return the values of the definition."""
        shape = (len(inputs[0]), *self.output.shape)
        return IntegerEvaluation(self.definition).broadcast(self.arguments(inputs), shape).reshape(shape[0], -1)

    def _computed(self, definition: Expression, arguments: Mapping[str, Array]) -> Array:
        count = max(map(len, arguments.values()))
        return evaluation(definition).broadcast(arguments, (count, *self.output.shape)).reshape(count, -1)

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the ends of the definition's interval; both operands of a square are one."""
        sources = iter(self.sources)
        inputs: dict[str, Interval] = {}
        ends = zip(self.operands, self.arguments(low).values(), self.arguments(high).values(), strict=True)
        bounds = {}
        for operand, *pair in ends:
            whole = Interval.between(*(np.broadcast_to(end, (1, *self.output.shape)) for end in pair))
            bounds[operand.name] = whole if operand.values is not None else inputs.setdefault(next(sources), whole)
        result = interval(self.definition, bounds)
        least = np.where(result.nan, -np.float32(np.inf), result.low).reshape(1, -1)
        return least, np.where(result.nan, np.float32(np.inf), result.high).reshape(1, -1)

    def _inexact(self, values: Sequence[Array], errors: Sequence[Array]) -> dict[str, Inexact]:
        none = [None if term is None else np.zeros(term.shape) for term in self.fixed]
        pairs = zip(self.arguments(values).items(), self.arguments(errors, none).values(), strict=True)
        return {name: Inexact(value, error) for (name, value), error in pairs}

    def errors_within(self, values: Sequence[Array], errors: Sequence[Array], *, is_rounded: bool = True) -> Array:
        """Return how far results for inputs within errors can be from the specified ones, float64 (vectors, size).

        Without `is_rounded`, these are exact results.
        """
        with np.errstate(all="ignore"):
            error = inexact(self.definition, self._inexact(values, errors), is_rounded=is_rounded).error
        shape = (len(values[0]), *self.output.shape)
        return np.broadcast_to(error, shape).reshape(shape[0], -1).astype(np.float64)

    def change(self, at: Perturbed) -> Array:
        """Return the change of the exact result."""
        return self.errors_within(at.values, at.errors, is_rounded=False)

    def rounding(self, at: Perturbed) -> Array:
        """Return the roundings of the definition, and those of operands in a sum before."""
        total, change = self.errors_within(at.values, at.errors), self.change(at)
        rounded = np.where(np.isinf(total), np.inf, np.maximum(total * SLACK - change, 0))
        return rounded + (gamma(at.roundings) * self.summed(at) if at.roundings else 0)

    def summed(self, at: Perturbed) -> Array:
        """Return the magnitudes of the terms that ONNX Runtime may add to a sum before, (vectors, size); 0 without.

        It may begin that sum with another term, which then passes all of its roundings.
        """
        operations = {node.operation for node in ordered(self.definition) if node.operands}
        return self.magnitudes(at) if operations <= {"add", "subtract"} else np.zeros(())

    def magnitudes(self, at: Perturbed) -> Array:
        """Return the sum of the magnitudes of all operands within errors, float64 (vectors, size)."""
        terms = self._inexact(at.values, at.errors).values()
        total = sum((np.abs(term.value.astype(np.float64)) + term.error for term in terms), np.zeros(()))
        return np.broadcast_to(total, (len(at.output), *self.output.shape)).reshape(at.output.shape)

    def linear(self, rows: Sequence[Array]) -> Array | None:
        """Return the changes of a definition that is linear in the activations."""
        arguments = self.arguments(rows)
        changes = {operand.name: arguments[operand.name] for operand in self.operands if operand.values is None}
        result = linear(self.definition, changes, arguments)
        shape = (len(rows[0]), *self.output.shape)
        return None if result is None else np.broadcast_to(result, shape).reshape(shape[0], -1)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, ORDER)

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption about other operands than those of the samples."""
        yield (
            f"{self.operator} rounds each operation to float32, as IEEE 754 requires, in the order of its definition: "
            "random and special numbers were tried."
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders, alternatives and mutants of the definition, wrong constants, and other roundings."""
        arguments, definition = self.arguments(inputs), self.definition
        yield from self.sum_order.faults(*inputs)
        right = "; ".join(f"{name} = {line}" for name, line in printing.statements(definition))
        names = tuple(operand.name for operand in self.operands)
        for cause, wrong in _faults(type(self), definition, names, self.input.dtype):
            yield FaultModel(cause, right, self._computed(wrong, arguments))
        for cause, constants in self._wrong_constants():
            stated = LITTLE_ENDIAN if "bytes" in cause else right
            yield FaultModel(cause, stated, self._computed(definition, {**arguments, **constants}))
        if any(node.operation in ARITHMETIC and node.dtype == FLOAT32 for node in ordered(definition)):
            yield from self._wrong_roundings(arguments)

    def _wrong_constants(self) -> Iterator[tuple[str, dict[str, Array]]]:
        """Yield constants in another order of bytes, and of values that are repeated along axes."""
        fixed = {operand.name: operand.values.reshape(1, *operand.shape)
                 for operand in self.operands if operand.values is not None}  # fmt: skip
        for name, values in fixed.items():
            if values.dtype.itemsize > 1:
                yield f"the bytes of {name} are in the other order", {name: values.byteswap()}
            if values.size > 1 and len(np.unique(values.view(f"V{values.itemsize}"))) > 1:
                first = np.broadcast_to(values.reshape(-1)[0], values.shape)
                yield f"the first value of {name} is taken for all", {name: first}
                yield f"the values of {name} are in the opposite order", {name: np.flip(values)}

    def _wrong_roundings(self, arguments: Mapping[str, Array]) -> Iterator[FaultModel]:
        definition = self.definition
        y = self._computed(definition, arguments)
        exact = {name: value.astype(np.float64) for name, value in arguments.items()}
        shape = (len(y), *self.output.shape)
        with np.errstate(all="ignore"):
            real = real_evaluation(definition).broadcast(exact, shape).reshape(len(y), -1)
            yield FaultModel("the result is truncated toward zero", "it is rounded half to even", toward_zero(real))
            if sum(node.operation in ARITHMETIC for node in ordered(definition)) > 1:
                once = real.astype(np.float32)
                yield FaultModel("it is computed in double precision, and rounded once", ORDER, once)
            if is_contractible(definition):
                fused = contracted(functools.partial(self._contracted, tuple(arguments)), *arguments.values())
                yield FaultModel(CONTRACTED, ORDER, fused)
            flushed = np.where(np.abs(y) < LEAST_NORMAL, y * np.float32(0), y)
            yield FaultModel("a subnormal result is flushed to zero", "it is kept", flushed)
            yield FaultModel("the result is rounded to float16", "to float32", through_float16(y))

    def _contracted(self, names: Sequence[str], *values: Single) -> Array:
        return self._computed(self.definition, dict(zip(names, values, strict=True)))


@functools.cache
def _faults(
    kind: type[Elements], definition: Expression, names: tuple[str, ...], dtype: np.dtype[Any]
) -> tuple[tuple[str, Expression], ...]:
    """Return the alternatives and the mutants of a definition, once."""
    arguments = [argument(name, dtype) for name in names]
    mutants = tuple(mutations.mutants(definition))
    if dtype != FLOAT32:  # the smaller or larger one of equal codes is either
        return tuple((cause, wrong) for cause, wrong in mutants if not cause.endswith("equality"))
    if not kind.alternatives:
        return mutants
    alternatives = {cause: other(*arguments) for cause, other in kind.alternatives.items()}
    known = {printing.inline(other) for other in alternatives.values()}
    return (*alternatives.items(), *(mutant for mutant in mutants if printing.inline(mutant[1]) not in known))


@functools.lru_cache(maxsize=4096)
def evaluation(definition: Expression) -> Evaluation:
    """Return the prepared definition: a layer is evaluated for each chunk of vectors."""
    return Evaluation(definition)


@functools.cache
def real_evaluation(definition: Expression) -> Evaluation:
    """Return the prepared definition in double precision."""
    return Evaluation(definition, is_real=True)


def is_contractible(definition: Expression) -> bool:
    """Return whether a sum takes a product."""
    sums = [node for node in ordered(definition) if node.operation in {"add", "subtract"}]
    return any(operand.operation == "multiply" for node in sums for operand in node.operands)


def bounds_of(definition: Expression, names: Sequence[str], sources: Sequence[Tensor], fixed: Terms) -> Bounds:
    """Return the bounds of a definition for all values of the activations and the constants."""
    tensors, inputs = iter(sources), dict[str, Interval]()
    shape = np.broadcast_shapes((1,), *(term.shape for term in fixed if term is not None))
    arguments = {}
    for name, term in zip(names, fixed, strict=True):
        if term is None:
            tensor = next(tensors)
            ends = (np.full(shape, end, np.float32) for end in (-tensor.bound, tensor.bound))
            arguments[name] = inputs.setdefault(tensor.name, Interval.between(*ends, minus_zero=tensor.negative_zero))
        else:
            values = np.broadcast_to(term, shape).astype(np.float32)
            arguments[name] = Interval.between(values, values, minus_zero=(values == 0) & np.signbit(values))
    result = interval(definition, arguments)
    bound = float(np.maximum(np.abs(result.low), np.abs(result.high)).max())
    return Bounds(bound if bound <= LARGEST else math.inf, bool(result.minus_zero.any()), bool(result.nan.any()))

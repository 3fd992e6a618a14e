"""Base classes of operators on codes: an output is a function of one code, or of two, at its place, or of a float32.

Such a function has 256 or 65,536 inputs.  `unrounded` holds the float32 that each of them is rounded from, computed in
integer arithmetic; the specification looks outputs up, and a proof enumerates all inputs.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, text
from harness.operators.base import Ability, Constants, Evaluate, Layer
from harness.operators.code_sums import Rounded
from harness.operators.counters import Counter, FindTies, LayerCoverage, RoundingCounter, Stimuli
from harness.operators.elements import Operand, evaluation, real_evaluation
from harness.operators.exact import CACHED_LAYERS, bits_of, from_ordered, mutations, printing, smallest
from harness.operators.exact.expression import (
    FLOAT32,
    INT8,
    INT32,
    UINT8,
    Expression,
    argument,
    code,
    integer,
    literal,
    number,
    ordered,
    substituted,
)
from harness.operators.exact.integers import IntegerEvaluation, code_of
from harness.operators.fault_models import Codes, FaultModel, Single, other_zero_points, wrong_roundings
from harness.operators.float_errors import Errors
from harness.operators.node import Node
from harness.operators.obligations import all_codes
from harness.operators.region import UNIFORM
from harness.operators.softfloat import Integers
from harness.operators.text import Text


class Affine(NamedTuple):
    """The quantisation of an activation: a code stands for scale * (code - zero_point)."""

    scale: np.float32
    zero_point: int

    @classmethod
    def read(cls, node: Node, position: int, of: str, dtype: np.dtype[Any]) -> Affine:
        """Read the scale at `position` and the zero point after it, which is 0 if it is not given."""
        zero_point = node.single(position + 1, f"zero point of {of}", [dtype]) if node.has(position + 1) else 0
        return cls(node.scale(position, f"scale of {of}"), int(zero_point))

    def differences(self, dtype: np.dtype[Any]) -> Single:
        """Return code - zero_point for all codes, which float32 holds exactly."""
        return (all_codes(dtype).astype(np.int64) - self.zero_point).astype(np.float32)

    def dequantised(self, dtype: np.dtype[Any]) -> Single:
        """Return float32(scale * (code - zero_point)) for all codes."""
        bits = softfloat.product(bits_of(self.differences(dtype)), bits_of(np.atleast_1d(self.scale)))
        return bits.view(np.float32)

    def divided(self, values: Single) -> Single:
        """Return float32(value / scale)."""
        return softfloat.quotient(bits_of(values), bits_of(np.atleast_1d(self.scale))).view(np.float32)


def rounded(v: Single, zero_point: int, dtype: np.dtype[Any]) -> Array:
    """Return saturate(round_half_even(v) + zero_point), by integer arithmetic."""
    return code_of(bits_of(v), zero_point, dtype).astype(dtype)


def rounded_classes(v: Single, codes: Codes) -> Single:
    """Return one of the numbers for each way to be rounded: to which integer, exactly half way or not."""
    clamped = np.clip(v, np.float32(codes.low - codes.zero_point - 1), np.float32(codes.high - codes.zero_point + 1))
    halves = np.where(clamped - np.floor(clamped) == 0.5, clamped, np.rint(clamped))
    _, first = np.unique(halves, return_index=True)
    return v.reshape(-1)[first]


class _Counter(Counter):
    """Counter of the float32 that are rounded; reachable is what all codes of the inputs give."""

    def __init__(self, layer: CodeFunction) -> None:
        self._layer = layer
        self._met, self._all = (RoundingCounter(layer.output, layer.added_zero_point) for _ in range(2))
        for row in layer.reachable():
            self._all.add(row[None])
        self.reachable = self._all

    def add(self, *values: Array) -> None:
        self._met.add(self._layer.rounded_from(*values[:-1]))

    def result(self) -> LayerCoverage:
        return self._met.result_of(self._all)


@dataclass(frozen=True, eq=False)
class CodeFunction(Layer):
    """A layer whose outputs are rounded from float32 that depend on the codes at the same place alone."""

    stimuli = Ability(lambda layer: Stimuli(lambda _: _Counter(layer), layer.find_ties))
    rounded = Ability(lambda layer: Rounded(layer.y.zero_point, before=layer.before_rounding, check=layer.check_table))

    @property
    @abstractmethod
    def added_zero_point(self) -> int:
        """The number that is added after the rounding."""

    @abstractmethod
    def compute(self) -> Single:
        """Return the float32 that are rounded, for all codes of each operand: (256,) or (256, 256)."""

    @abstractmethod
    def places(self, *inputs: Array) -> npt.NDArray[np.integer[Any]]:
        """Return the places of the inputs' codes, (vectors, size), in flat tables."""

    @abstractmethod
    def reachable(self) -> Iterator[Single]:
        """Yield rows (N,) of float32 that are rounded, so that together they contain all classes of them."""

    @abstractmethod
    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield the operator's own faults, each with a table in place of an output."""

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def unrounded(self) -> Single:
        """Return the float32 that are rounded, computed once."""
        return self.compute()

    def rounded_from(self, *inputs: Array) -> Single:
        """Return the float32 that each output is rounded from."""
        return self.unrounded().take(self.places(*inputs))

    def table(self) -> Array:
        """Return the outputs for all codes of each operand."""
        return rounded(self.unrounded(), self.added_zero_point, self.dtype)

    @abstractmethod
    def table_in_float32(self) -> Array:
        """Return the same as `table`, by this machine's floating point, for a target that deploys the table."""

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare the outputs for all codes, of any 8-bit type."""
        found = table.view(self.dtype)
        expected = self.table_in_float32()
        if found.shape != expected.shape:
            return 0, f"the table has shape {found.shape}, not {expected.shape}"
        for at in np.argwhere(found != expected):
            place = tuple(at.tolist())
            return (
                found.size,
                f"the codes at {place} become {found[place]} by the table, {expected[place]} by the formula",
            )
        return found.size, ""

    def prepare(self) -> Evaluate:
        """Return the function that looks outputs up."""
        table = self.table()
        return lambda *inputs: table.take(self.places(*inputs))

    def find_ties(self) -> FindTies:
        """Find float32 half way between two values."""
        evaluate, limits, v = self.prepare(), np.iinfo(self.dtype), self.unrounded()
        low, high = limits.min - self.added_zero_point, limits.max - self.added_zero_point
        with np.errstate(invalid="ignore"):  # infinity is no tie
            ties = (v - np.floor(v) == 0.5) & (v > low) & (v < high)
        return lambda *inputs: (evaluate(*inputs), ties.take(self.places(*inputs)))

    def before_rounding(self, *inputs: Array) -> Single:
        """Return the float32 that each output is rounded from, clamped."""
        return self.codes.clamp(self.rounded_from(*inputs))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong roundings, and the operator's own faults."""
        places = self.places(*inputs)
        with np.errstate(all="ignore"):
            for model in (*wrong_roundings(self.unrounded().reshape(-1), self.codes), *self.wrong_tables()):
                yield model._replace(output=model.output.take(places))

    @property
    def codes(self) -> Codes:
        """The codes that float32 are rounded to."""
        return Codes(self.added_zero_point, self.dtype)


class Quantised(NamedTuple):
    """The arguments of a definition for an operand, or for the output, of which there is no code; int32 but scales."""

    code: Expression
    scale: Expression
    zero_point: Expression

    @property
    def dequantised(self) -> Expression:
        """The number for which the code stands."""
        return self.scale * number(self.code - self.zero_point)


@dataclass(frozen=True, eq=False)
class DefinedCodes(CodeFunction):
    """A function of codes that an operator defines by `value`: the float32 that is rounded.

    Its arguments are Quantised: each operand, then y, of which the fields of these names have the numbers; and further
    fields, the `attributes`.
    """

    operand_names: ClassVar[tuple[str, ...]]
    attributes: ClassVar[tuple[str, ...]] = ()
    adds_zero_point: ClassVar[bool] = False
    """True if the zero point of y is added to the rounded number, not in the definition."""
    value: ClassVar[Callable[..., Expression]]
    alternatives: ClassVar[Mapping[str, Callable[..., Expression]]] = {}
    """Other definitions with the arguments of `value`, by the fault in words."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "value"):
            *lines, last = (f"{name} = {line}" for name, line in printing.statements(cls.defined(UINT8)))
            cls.text = cls.text.but("\n".join([*lines, f"{last:62} in float32, to uint8 or int8"]))

    @classmethod
    def coded(cls, value: Callable[..., Expression], dtype: np.dtype[Any], *, is_late: bool = False) -> Expression:
        """Return the code of a value of operands of a type; a late zero point of y is added after the rounding only."""
        arguments = [
            Quantised(integer(argument(name, dtype)), argument(f"{name}_scale"), _zero_point(name))
            for name in (*cls.operand_names, "y")
        ]
        if is_late:
            arguments[-1] = arguments[-1]._replace(zero_point=literal(0, INT32))
        zero_point = _zero_point("y") if is_late or cls.adds_zero_point else 0
        return code(value(*arguments, *map(argument, cls.attributes)), zero_point, dtype)

    @classmethod
    @functools.cache
    def defined(cls, dtype: np.dtype[Any]) -> Expression:
        """Return the definition for codes of a type."""
        return cls.coded(cls.value, dtype)

    @classmethod
    @functools.cache
    def reduced(cls, dtype: np.dtype[Any]) -> tuple[Expression, Mapping[str, Expression]]:
        """Return the definition with arguments in the place of named values that depend on no code, and these."""
        root = cls.defined(dtype)
        constants = {x.name: x for x in ordered(root) if x.name and x.operands and not _names(x) & {*cls.operand_names}}
        arguments = {id(value): argument(name, value.dtype) for name, value in constants.items()}
        return substituted(root, arguments), constants

    @property
    def definition(self) -> Expression:
        """The definition for the type of the layer, of its codes and its `numbers`."""
        return self.reduced(self.dtype)[0]

    @property
    def parameters_of_value(self) -> dict[str, Any]:
        """The arguments that are no codes: float32, and int32 zero points."""
        values = {name: getattr(self, name) for name in self.attributes}
        for name in (*self.operand_names, "y"):
            scale, zero_point = getattr(self, name)
            values |= {f"{name}_scale": scale, f"{name}_zero_point": np.int32(zero_point)}
        return values

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def numbers(self) -> Mapping[str, Any]:
        """Return the named values of the definition that depend on no code, then the parameters beside them."""
        root, constants = self.reduced(self.dtype)
        parameters = self.parameters_of_value
        single = {name: np.atleast_1d(value) for name, value in parameters.items()}
        numbers = {name: IntegerEvaluation(value)(single)[0] for name, value in constants.items()}
        return numbers | {name: value for name, value in parameters.items() if name in _names(root)}

    @property
    def _arguments(self) -> dict[str, Any]:
        """All codes, an axis for each operand, and all numbers."""
        grid = np.ix_(*[all_codes(self.dtype)] * len(self.operand_names))
        return {**dict(zip(self.operand_names, grid, strict=True)), **self.parameters_of_value, **self.numbers()}

    @property
    def added_zero_point(self) -> int:
        """The number that is added after the rounding."""
        return int(self.parameters_of_value["y_zero_point"]) if self.adds_zero_point else 0

    def compute(self) -> Single:
        """Return the value of the definition for all codes."""
        arguments = {name: np.atleast_1d(value) for name, value in self._arguments.items()}
        return IntegerEvaluation(self.definition.operands[0])(arguments)

    def table_in_float32(self) -> Array:
        """Return the value of the whole definition."""
        table: Array = evaluation(self.defined(self.dtype)).at_once(self._arguments)
        return table

    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield wrong zero points, alternatives and mutants of the definition, and double precision."""
        arguments, right = self._arguments, printing.inline(self.definition)
        shape = self.unrounded().shape
        known: set[bytes] = set()
        for cause, wrong, changed in (*self._wrong_zero_points(), *_faults(type(self), self.dtype)):
            table = np.broadcast_to(evaluation(wrong).at_once(arguments | changed), shape)
            if cause.endswith(MUTANT) and table.tobytes() in known:
                continue  # it has another name already
            known.add(table.tobytes())
            yield FaultModel(cause.removesuffix(MUTANT), right, table)
        exact = {name: np.asarray(value, np.float64) for name, value in arguments.items()}
        table = real_evaluation(self.defined(self.dtype)).at_once(exact)
        yield FaultModel("it is computed in double precision", right, np.broadcast_to(table, shape))

    def _wrong_zero_points(self) -> Iterator[tuple[str, Expression, dict[str, Any]]]:
        definition, zero_points = self.defined(self.dtype), self.parameters_of_value
        for name in self.operand_names if self.adds_zero_point else (*self.operand_names, "y"):
            role = f"{name}_zero_point"
            for other in other_zero_points(int(zero_points[role])):
                cause = f"the zero point of {name} is {other or 'left out'}"
                yield cause, definition, {role: np.int32(other)}


@dataclass(frozen=True, eq=False)
class Conversion(Layer):
    """A layer between float32 and codes of one scale and zero point, which states its `definition`."""

    errors = Ability(partial(Errors, rising=True, piecewise_monotone=True))
    text = Text(
        roles=("x", "scale", "zero_point"),
        facts_of=lambda layer: {"scale": layer.scale, "zero_point": layer.zero_point},
        summary_of=lambda layer: (text.floats(layer.scale), str(layer.zero_point)),
    )
    division = Ability(UNIFORM)

    scale: np.float32
    zero_point: int

    definition: ClassVar[Any]
    """The definition of x, scale and zero_point."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands of the definition."""
        ones = (1,) * len(self.output.shape)
        constants = zip(self.text.facts(), self.numbers.values(), ("scale", "zero"), strict=True)
        # Not zero_point: layer dense_output would have the same table as dense, which is a QGemm.
        return (Operand("x", self.output.shape), *(Operand(name, ones, one, role) for name, one, role in constants))

    @property
    def numbers(self) -> dict[str, Array]:
        """Scale and zero point, of one value each."""
        return {"scale": np.atleast_1d(self.scale), "zero_point": np.array([self.zero_point], np.int32)}

    def in_integers(self, inputs: Sequence[Array]) -> Array:
        """Return the values of the definition."""
        return IntegerEvaluation(self.definition)({"x": inputs[0], **self.numbers})

    def constants(self) -> Constants:
        """Return the same."""
        return self.text.facts()


def thresholds_of(root: Expression, name: str, numbers: Mapping[str, Array]) -> Integers:
    """Return the least float32 that gives each code above the least, as `ordered` int64 (..., 255).

    The code rises with the argument `name`; the others, `numbers`, can be (..., 1).
    """
    limits, evaluate = np.iinfo(root.dtype), IntegerEvaluation(root)
    codes = np.arange(limits.min + 1, limits.max + 1)
    shape = np.broadcast_shapes(codes.shape, *(number.shape for number in numbers.values()))

    def reached(keys: Integers) -> npt.NDArray[np.bool_]:
        return evaluate({name: from_ordered(keys), **numbers}) >= codes

    # The range ends at infinity, which reaches every value and needs no evaluation.
    infinity = np.full(shape, softfloat.INFINITY_BITS)
    return smallest(reached, 1 - infinity, infinity)


MUTANT = " (mutant)"


def _zero_point(name: str) -> Expression:
    return argument(f"{name}_zero_point", INT32)


def _names(root: Expression) -> set[str]:
    return {x.name for x in ordered(root) if x.operation == "argument"}


@functools.cache
def _faults(kind: type[DefinedCodes], dtype: np.dtype[Any]) -> tuple[tuple[str, Expression, dict[str, Any]], ...]:
    """Return the alternatives and the mutants of a definition, once."""
    faults = {cause: kind.coded(other, dtype) for cause, other in kind.alternatives.items()}
    if not kind.adds_zero_point:
        faults["the zero point is added after rounding"] = kind.coded(kind.value, dtype, is_late=True)
    root = kind.reduced(dtype)[0]
    for cause, wrong in mutations.mutants(root.operands[0]):
        faults[f"{cause}{MUTANT}"] = replace(root, operands=(wrong, *root.operands[1:]))
    return tuple((cause, wrong, {}) for cause, wrong in faults.items())


def in_nnef(root: Expression) -> str:
    """Return the statements of a definition in NNEF, where codes are numbers and a product is rounded before a sum."""
    replaced: dict[int, Expression] = {}
    for x in ordered(root):
        operands = [replaced[id(operand)] for operand in x.operands]
        if x.operation in {"integer", "number"}:
            replaced[id(x)] = replace(operands[0], name=x.name or operands[0].name)
        elif x.operation == "fused":
            replaced[id(x)] = replace(operands[0] * operands[1] + operands[2], name=x.name)
        elif x.operation == "argument" and x.dtype == INT32:
            replaced[id(x)] = argument(f"scalar({x.name})")
        else:
            dtype = FLOAT32 if x.dtype in {INT8, UINT8, INT32} else x.dtype
            replaced[id(x)] = replace(x, operands=tuple(operands), dtype=dtype)
    v, zero_point = replaced[id(root.operands[0])], root.operands[1]
    *lines, last = printing.statements(v)
    added = "" if zero_point.value == 0 else f" + scalar({zero_point.name})"
    lines.append(("code", f"round_half_even({last[1]}){added}"))
    return (
        "".join(f"    {name} = {line};\n" for name, line in lines) + "    y = clamp(code, scalar(low), scalar(high));\n"
    )

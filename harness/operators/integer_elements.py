"""Operators on integers of one type, with broadcasting: the definitions of Add, Max, Mod and others, modulo 2^n.

y[n] = value(a[n], b[n], ...)              operations of n bits; a quotient by 0 is 0, other quotients are toward zero
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from harness.core.arrays import Array
from harness.operators import broadcast
from harness.operators.base import Ability, Constants, fields
from harness.operators.counters import Stimuli
from harness.operators.elements import Terms, evaluation
from harness.operators.exact import mutations, printing
from harness.operators.exact.expression import Expression, argument
from harness.operators.exact.modular import modular
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import Errors
from harness.operators.fold import MOST_OPERANDS, Listed, fragments, names_of
from harness.operators.integer_samples import of_values, special_integers
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, every_code
from harness.operators.rules import Rules
from harness.operators.tensor import CODES, INT64, INTEGERS, integer_limits
from harness.operators.text import span

Options = tuple[tuple[str, int], ...]
"""Attributes with their values, as arguments of a definition."""


NAMES = (
    "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Sign", "Relu", "Clip", "Max", "Min", "BitShift", "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "BitwiseNot",
)  # fmt: skip
"""The operators of integers; the definition is `value` of the operator's class."""
OPERANDS = {"Neg": 1, "Abs": 1, "Sign": 1, "Relu": 1, "BitwiseNot": 1, "Clip": 3}
"""The numbers of operands other than two."""
OPTIONS = {"Mod": ("fmod",), "BitShift": ("left",)}
RISING = ("Relu", "Clip", "Max", "Min")
WRAPS = ("Add", "Sub", "Mul", "Neg", "Abs")
"""Operators whose results can leave the type."""
OF_A_SIGN = ("Div", "Mod", "Max", "Min", "Sign", "Relu", "Abs")
"""Operators whose bits depend on the sign of the type."""
EXAMPLES = {"BitShift": np.dtype(np.uint8)}
FIRST_ORDER = 210
TEXTS = {
    name: fragments(
        f"{name.lower()}_of_integers",
        FIRST_ORDER + number,
        f"ONNX {name} of integers, modulo 2^n.",
        "".join(f"    {option}: integer,\n" for option in OPTIONS.get(name, ())),
    )
    for number, name in enumerate(NAMES)
}


@functools.cache
def definition_of(operator: str, dtype: np.dtype[Any], operands: int, options: Options = ()) -> Expression:
    """Return the definition of an operator for so many operands of a type."""
    from harness.operators import by_onnx_name

    kind: Any = by_onnx_name()["", operator]
    return cast("Expression", kind.value(*(argument(name, dtype) for name in names_of(operands)), **dict(options)))


@functools.cache
def modular_definition(operator: str, dtype: np.dtype[Any], operands: int, options: Options = ()) -> Expression:
    """Return the same by operations that emitters have."""
    return modular(definition_of(operator, dtype, operands, options))


def reads_integers(node: Node, dtypes: Sequence[np.dtype[Any]] = INTEGERS) -> bool:
    """Return whether the first activation of a node has one of these types."""
    tensors = [node.activations[name] for name in node.inputs if name in node.activations]
    return bool(tensors) and tensors[0].dtype in dtypes


def formula(operator: str) -> str:
    """Return the definition of an operator, as text."""
    dtype = EXAMPLES.get(operator, INT64)
    options = tuple((name, 1) for name in OPTIONS.get(operator, ()))
    root = definition_of(operator, dtype, OPERANDS.get(operator, 2), options)
    stated = "".join(f", {name} 1" for name, _ in options)
    return f"y = {printing.inline(root)}, of {dtype}{stated}"


@dataclass(frozen=True, eq=False)
class IntegerElements(Listed):
    """A value of an operator's definition for the integers at each place."""

    ONNX: ClassVar[tuple[tuple[str, str], ...]] = ()
    text = Listed.text.but(
        formula,
        (),
        tuple(fragment for pair in TEXTS.values() for fragment in pair),
        chosen=lambda layer: 2 * NAMES.index(layer.operator) + any(term is not None for term in layer.terms),
        summary_of=lambda layer: tuple(span(term) for term in layer.terms if term is not None),
    )
    errors = Ability[Errors](
        lambda layer: Errors(layer, rising=layer.operator in RISING, change=layer.change, rounding=layer.no_rounding)
    )
    stimuli = Ability[Stimuli](lambda layer: Stimuli(representable=layer.representable))
    verb = "computes with"
    types: ClassVar[Sequence[np.dtype[Any]]] = INTEGERS

    options: Options = ()

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(*node.given_inputs, node.y).broadcast(node.y, node.given_inputs)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of operands of one type whose shapes fit, one of them an activation."""
        count = OPERANDS.get(node.operator, 2)
        node.require_inputs(1 if node.operator in RISING else count, MOST_OPERANDS)
        options = cls.options_of(node)
        sources = broadcast.activations(node, cls.verb, (), cls.types)
        return cls.of_operands(node, sources, cls.constants_of(node, sources), options)

    @classmethod
    def options_of(cls, node: Node) -> Options:
        """Return the attributes as arguments of the definition; refuse others."""
        node.attributes({})
        return ()

    @classmethod
    def constants_of(cls, node: Node, sources: Sequence[Any]) -> Terms:
        """Return the constant operands."""
        terms = list[Array | None]()
        for position, name in enumerate(node.inputs):
            is_constant, role = name in node.constants, cls.text.role(position)
            read = (
                broadcast.constant(node, position, sources, role, takes_infinities=cls.takes_infinities)
                if is_constant
                else None
            )
            terms.append(read)
        return tuple(terms)

    @classmethod
    def of_operands(cls, node: Node, sources: Sequence[Any], terms: Terms, options: Options = ()) -> Self:
        """Return the layer of a node with these operands."""
        if len(kinds := {str(source.dtype) for source in sources}) > 1:
            raise node.refusal(f"reads {' and '.join(sorted(kinds))}", "operands of one type; Cast them")
        shape = broadcast.output_shape(broadcast.shapes(sources, terms))
        return cls(**fields(node, sources, shape, sources[0].dtype), terms=terms, options=options)

    def representable(self) -> tuple[float, float] | None:
        """Return the bounds of a Clip and one more on either side; None for other operators."""
        bounds = [term for term in self.terms if term is not None]
        if self.operator != "Clip" or len(bounds) != len(self.terms) - 1:
            return None
        least, greatest = integer_limits(self.input.dtype)
        low, high = (int(bound.item()) for bound in bounds)
        return max(low - 1, least), min(high + 1, greatest)

    @property
    def stated(self) -> Expression:
        """The definition as it is written."""
        return definition_of(self.operator, self.input.dtype, len(self.terms), self.options)

    @property
    def definition(self) -> Expression:
        """The definition by operations that emitters have."""
        return modular_definition(self.operator, self.input.dtype, len(self.terms), self.options)

    def constants(self) -> Constants:
        """Return the constant operands, the sizes of all, and the attributes."""
        return {**super().constants(), **dict(self.options)}

    def no_rounding(self, at: Any) -> Array:
        """Return 0: integers are not rounded."""
        return np.zeros(at.output.shape)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - of integers
        """Yield all codes of a function of one code, else special values and random bits."""
        if len(self.terms) == 1 and self.dtype in CODES:
            yield every_code(self.size, self.size, self.dtype, self.prepare())
            return
        special = special_integers(self.dtype)
        yield of_values(self, "integers give the specified bits, at the ends of their type too", special)

    def assumptions(self) -> Iterator[str]:
        """Yield that the values are samples."""
        yield f"{self.operator} computes with integers modulo 2^n: random and special values were tried."

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the mutants of the definition, wrong constants, another sign of the type, and results that saturate."""
        arguments, right = self.arguments(inputs), f"y = {printing.inline(self.stated)}"
        for cause, wrong in self.wrong_definitions():
            yield FaultModel(cause, right, self._computed(wrong, arguments))
        for cause, constants in self._wrong_constants():
            yield FaultModel(cause, right, self._computed(self.stated, {**arguments, **constants}))
        if self.operator in OF_A_SIGN:
            other = np.dtype(self.dtype.str.translate(str.maketrans("iu", "ui")))
            root = definition_of(self.operator, other, len(self.terms), self.options)
            misread = {name: values.view(other) for name, values in arguments.items()}
            yield FaultModel(f"integers are read as {other}", right, self._computed(root, misread).view(self.dtype))
        if self.operator in WRAPS and self.dtype.itemsize <= 2 and not (self.operator == "Abs" and self._is_unsigned):
            exact = {name: values.astype(INT64) for name, values in arguments.items()}
            result = self._computed(definition_of(self.operator, INT64, len(self.terms), self.options), exact)
            within = result.clip(*integer_limits(self.dtype)).astype(self.dtype)
            yield FaultModel("the result is limited to the type", "it is modulo 2^n", within)

    def wrong_definitions(self) -> Iterator[tuple[str, Expression]]:
        """Yield faults in words with definitions that have them; the larger one of equal integers is either."""
        return (pair for pair in mutations.mutants(self.stated) if not pair[0].endswith("equality"))

    @property
    def _is_unsigned(self) -> bool:
        return self.dtype.kind == "u"

    def _computed(self, definition: Expression, arguments: Mapping[str, Array]) -> Array:
        count = max(map(len, arguments.values()))
        return evaluation(definition).broadcast(arguments, (count, *self.output.shape)).reshape(count, -1)

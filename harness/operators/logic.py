"""Comparisons, And, Or, Xor, Not (ONNX), Where and Select, with broadcasting.

y[n] = value(a[n], b[n], ...)              nothing is rounded

All inputs of a layer have one type, so that ONNX's Where, whose condition is a bool, is no layer: an import writes the
Where of the project's domain, whose condition is above 0, behind a Cast (model/importer/logic.py); of other types than
float32 it writes Select, whose condition is not 0.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import fields
from harness.operators.elements import bounds_of
from harness.operators.exact import printing
from harness.operators.exact.expression import Expression, argument, equal, select
from harness.operators.float_samples import of_samples
from harness.operators.fold import Listed, fragments, names_of
from harness.operators.integer_samples import of_values, special_integers
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.rules import Rules
from harness.operators.tensor import BOOL, FLOAT32, INTEGERS
from harness.operators.text import span

Definition = Callable[..., Expression]
OF_BOOLS: Mapping[str, Definition] = {
    "Not": lambda a: a ^ True,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "Equal": equal,
    "Select": select,
}
OF_NUMBERS: Mapping[str, Definition] = {
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Equal": equal,
}
OF_FLOATS: Mapping[str, Definition] = {**OF_NUMBERS, "Where": lambda a, b, c: select(a > 0, b, c)}
OF_INTEGERS: Mapping[str, Definition] = {**OF_NUMBERS, "Select": lambda a, b, c: select(equal(a, 0), c, b)}
DEFINITIONS: Mapping[np.dtype[Any], Mapping[str, Definition]] = {
    FLOAT32: OF_FLOATS,
    BOOL: OF_BOOLS,
    **dict.fromkeys(INTEGERS, OF_INTEGERS),
}
"""The definitions by the type of the operands."""
NUMBERS: Mapping[np.dtype[Any], Array] = {
    FLOAT32: np.array([-2, -1, -0.0, 0, 1, 2], np.float32),
    BOOL: np.array([False, True]),
    **{kind: special_integers(kind) for kind in INTEGERS},
}
"""Values of operands that reach both results of every condition."""
NAMES = tuple(dict.fromkeys([*OF_FLOATS, "Cast", *OF_BOOLS]))
FRAGMENTS = {
    name: fragments(f"{name.lower()}_of_operands", order, f"ONNX {name}: a bool is 1, true, or 0, false.")
    for order, name in enumerate(NAMES, 140)
}


def operands_of(operator: str) -> tuple[str, ...]:
    """Return the names of the operands of an operator."""
    definition = {**OF_FLOATS, **OF_BOOLS}[operator]
    return names_of(len(inspect.signature(definition).parameters))


@functools.cache
def definition_of(operator: str, dtype: np.dtype[Any]) -> Expression:
    """Return the definition of an operator for operands of a type."""
    return DEFINITIONS[dtype][operator](*(argument(name, dtype) for name in operands_of(operator)))


def types_of(operator: str) -> list[np.dtype[Any]]:
    """Return the types of operands that an operator reads."""
    return [kind for kind in DEFINITIONS if operator in DEFINITIONS[kind]]


def _summary(layer: Logic) -> tuple[str, ...]:
    """Return the constant operands; of bools how many are true."""
    if layer.input.dtype == FLOAT32:
        return Listed.text.summary_of(layer)
    of_type = (lambda term: f"{term.sum()} of {term.size} true") if layer.input.dtype == BOOL else span
    return tuple(of_type(term) for term in layer.terms if term is not None)


def formula(operator: str) -> str:
    """Return the definitions of an operator, each with the types that it is of."""
    kinds: dict[str, list[str]] = {}
    for kind in types_of(operator):
        kinds.setdefault(printing.inline(definition_of(operator, kind)), []).append(str(kind))
    return "; ".join(f"y = {text}, of {', '.join(names)}" for text, names in kinds.items())


@dataclass(frozen=True, eq=False)
class Logic(Listed):
    """A value of `DEFINITIONS` for the operands at each place."""

    ONNX = tuple(("", name) for name in FRAGMENTS if name not in {"Cast", "Where", "Select"})
    text = Listed.text.but(
        formula,
        ("a", "b", "c"),
        tuple(fragment for pair in FRAGMENTS.values() for fragment in pair),
        chosen=lambda layer: 2 * NAMES.index(layer.operator) + any(term is not None for term in layer.terms),
        summary_of=_summary,
    )
    verb = "compares"
    takes_infinities = True

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the types, and that shapes are broadcast."""
        node.broadcast(node.y, node.given_inputs)
        node.same_type(*node.given_inputs).is_type(node.y, np.bool_)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of operands of one type whose shapes fit, one of them an activation."""
        names = operands_of(node.operator)
        node.require_inputs(len(names), len(names))
        sources, terms, shape = cls.read_operands(node, types_of(node.operator))
        if len(kinds := {str(source.dtype) for source in sources}) > 1:
            raise node.refusal(f"reads {' and '.join(sorted(kinds))}", "operands of one type; import the network")
        definition = definition_of(node.operator, sources[0].dtype)
        bound = 1.0 if definition.dtype == BOOL else math.inf
        written = fields(node, sources, shape, definition.dtype, bound)
        if node.operator == "Where":
            bounds = bounds_of(definition, names, sources, terms)
            written = fields(node, sources, shape, FLOAT32, bounds.bound, negative_zero=bounds.negative_zero)
        return cls(**written, terms=terms)

    @property
    def definition(self) -> Expression:
        """The definition for the operator and the type of its operands."""
        return definition_of(self.operator, self.input.dtype)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples, and values that reach both results of every condition in every column."""
        statement, dtype = "operands are compared and chosen as specified", self.input.dtype
        if dtype == FLOAT32:
            yield from of_samples(self, statement)
        yield of_values(self, f"{statement}, where some are equal, true or false", NUMBERS[dtype])

    def assumptions(self) -> Iterator[str]:
        """Yield that comparisons are samples."""
        yield f"{self.operator} only compares and chooses: random and special values were tried."


WHERE = """\
    zero = Constant <value_float = 0.0> ()
    is_true = Greater (a, zero)
    y = Where (is_true, b, c)
"""


@dataclass(frozen=True, eq=False)
class Where(Logic):
    """A choice between two values; ONNX Runtime gives 0 in the place of -0."""

    ONNX = ((onnx_function.DOMAIN, "Where"),)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(*node.given_inputs, node.y).broadcast(node.y, node.given_inputs)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return 0: zeros of either sign are right."""
        return np.zeros(output.shape)

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto:  # noqa: ARG003 - of the base
        """Return the ONNX function."""
        return onnx_function.function("Where", ["a", "b", "c"], WHERE, opset)


SELECT = """\
    is_true = Cast <to = 9> (a)
    y = Where (is_true, b, c)
"""


@dataclass(frozen=True, eq=False)
class Select(Logic):
    """A choice between two values that are no float32, by a condition of their type."""

    ONNX = ((onnx_function.DOMAIN, "Select"),)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(*node.given_inputs, node.y).broadcast(node.y, node.given_inputs)

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto:  # noqa: ARG003 - of the base
        """Return the ONNX function."""
        return onnx_function.function("Select", ["a", "b", "c"], SELECT, opset)

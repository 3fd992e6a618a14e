"""Comparisons, And, Or, Xor, Not, Cast (ONNX) and Where, with broadcasting.

y[n] = value(a[n], b[n], ...)              nothing is rounded

All inputs of a layer have one type, so that ONNX's Where, whose condition is a bool, is no layer: an import writes the
Where of the project's domain, whose condition is above 0, behind a Cast (model/importer/logic.py).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import onnx_function
from harness.operators.base import Layer, fields
from harness.operators.elements import bounds_of
from harness.operators.exact import printing
from harness.operators.exact.expression import Expression, argument, equal, select
from harness.operators.fault_models import FaultModel
from harness.operators.float_samples import of_samples
from harness.operators.fold import Listed, fragments, names_of
from harness.operators.node import Node, element_type
from harness.operators.obligations import Extent, Obligation, Outputs, ProofStep, StageKind, samples
from harness.operators.order import unmoved
from harness.operators.rename import Rename
from harness.operators.rules import Rules
from harness.operators.sum_orders import side_by_side
from harness.operators.tensor import BOOL, FLOAT32

Definition = Callable[..., Expression]
OF_BOOLS: Mapping[str, Definition] = {
    "Not": lambda a: a ^ True,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "Equal": equal,
    "Cast": lambda a: select(a, 1, 0),
}
OF_FLOATS: Mapping[str, Definition] = {
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Equal": equal,
    "Cast": lambda a: equal(a, 0) ^ True,
    "Where": lambda a, b, c: select(a > 0, b, c),
}
DEFINITIONS: Mapping[np.dtype[Any], Mapping[str, Definition]] = {FLOAT32: OF_FLOATS, BOOL: OF_BOOLS}
"""The definitions by the type of the operands."""
NUMBERS: Mapping[np.dtype[Any], Array] = {
    FLOAT32: np.array([-2, -1, -0.0, 0, 1, 2], np.float32),
    BOOL: np.array([False, True]),
}
"""Values of operands that reach both results of every condition."""
FRAGMENTS = {
    name: fragments(f"{name.lower()}_of_operands", order, f"ONNX {name}: a bool is 1, true, or 0, false.")
    for order, name in enumerate(dict.fromkeys([*OF_FLOATS, *OF_BOOLS]), 140)
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
    return tuple(f"{term.sum()} of {term.size} true" for term in layer.terms if term is not None)


@dataclass(frozen=True, eq=False)
class Logic(Listed):
    """A value of `DEFINITIONS` for the operands at each place."""

    ONNX = tuple(("", name) for name in FRAGMENTS if name not in {"Cast", "Where"})
    text = Listed.text.but(
        lambda operator: "; ".join(
            f"y = {printing.inline(definition_of(operator, kind))}, of {kind}" for kind in types_of(operator)
        ),
        ("a", "b", "c"),
        tuple(fragment for pair in FRAGMENTS.values() for fragment in pair),
        chosen=lambda layer: 2 * [*FRAGMENTS].index(layer.operator) + any(term is not None for term in layer.terms),
        summary_of=_summary,
    )
    verb = "compares"

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
        written = fields(node, sources, shape, definition.dtype, 1.0)
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
        size, expected = sum(tensor.size for tensor in self.inputs), side_by_side(self)
        count = samples(size)
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            f"{statement}, where some are equal, true or false",
            f"{count:,} vectors of the values {', '.join(f'{number:g}' for number in NUMBERS[dtype])}; not complete",
            count * self.size,
            Outputs(lambda: [np.random.default_rng(0).choice(NUMBERS[dtype], (count, size))], expected),
            complete=False,
        )

    def assumptions(self) -> Iterator[str]:
        """Yield that comparisons are samples."""
        yield f"{self.operator} only compares and chooses: random and special values were tried."


@dataclass(frozen=True, eq=False)
class Cast(Logic):
    """A value of the other type: true is 1, and what is not 0, NaN too, is true."""

    ONNX = (("", "Cast"),)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the shape stays, and the type."""
        node.is_type(node.y, node.attribute("to", 0)).same_shape(node.x, node.y)

    @classmethod
    def read(cls, node: Node) -> Layer:  # type: ignore[override]
        """Read a node from one of the types to the other, or to that of its input, which changes nothing."""
        number = node.attributes({"to": 0, "saturate": 1, "round_mode": b"up"})["to"]
        kinds = {onnx.TensorProto.FLOAT: FLOAT32, onnx.TensorProto.BOOL: BOOL}
        source = node.activation(0, [*DEFINITIONS])
        if number not in kinds:
            raise node.refusal(f"casts {source.dtype} to {element_type(number)}", "float32 or bool to one of these")
        if kinds[number] == source.dtype:
            written = fields(node, [source], source.shape, source.dtype, source.bound)
            return Rename(**{**written, "output": replace(source, name=node.output)}, order=unmoved(source.shape))
        return cls(**fields(node, [source], source.shape, kinds[number], 1.0), terms=(None,))

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return those of a bool, which are 0 and 1 as float32, too."""
        return self.prepare()(*low), self.prepare()(*high)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the mutants but for another sign, which changes no bool."""
        return (model for model in super().fault_models(*inputs) if not model.cause.startswith("the sign of"))


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

"""Base class of operators that combine any number of float32 operands from left to right, with broadcasting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from harness.operators import broadcast, text
from harness.operators.base import fields
from harness.operators.elements import Elements, Operand, Terms, bounds_of
from harness.operators.exact import printing
from harness.operators.exact.expression import ARITHMETIC, Expression, argument, named
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment

MOST_OPERANDS = 64


@dataclass(frozen=True, eq=False)
class Fold(Elements):
    """y = f(... f(f(A, B), C) ..., Z) for each value; `terms` has the constant operands, None for an activation.

    An operator states `combine`, and `finish` if it does more.
    """

    side_by_side = True
    elementwise = False
    combine: ClassVar[Any]
    """A static method from the expressions of the value so far and of the next operand to that of both."""
    verb: ClassVar[str]
    order: ClassVar[int]
    """The place of the fragments in a file."""
    comment: ClassVar[str]

    terms: Terms

    def __init_subclass__(cls, **options: Any) -> None:
        y, x, count = (argument(name) for name in ("y", "x", "count"))
        step, last = cls.combine(y, x), printing.inline(cls.finish(y, count))
        end = f", then y = {last}" if last != "y" else ""
        line = f"y = A, then y = {printing.inline(step)} for each further operand x{end}"
        cls.formula = f"{line:71} in float32{', each operation rounded' if step.operation in ARITHMETIC else ''}"
        cls.fragments = tuple(_fragment(cls, has_constants) for has_constants in (False, True))
        super().__init_subclass__(**options)

    @staticmethod
    def finish(result: Expression, count: Expression | int) -> Expression:  # noqa: ARG004 - operators override it
        """Return the output from the expression of all operands and their number."""
        return result

    @classmethod
    def value(cls, *operands: Expression) -> Expression:
        """Return the definition."""
        result = operands[0]
        for number, operand in enumerate(operands[1:], 2):
            result = named(f"y_{number}", cls.combine(result, operand))
        return cls.finish(result, len(operands))

    @classmethod
    def role(cls, position: int) -> str:
        """Return the name of an operand by its position."""
        return f"operand {position + 1}"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of fitting shapes, one of them an activation."""
        node.require_inputs(1, MOST_OPERANDS)
        node.attributes({})
        sources = broadcast.activations(node, cls.verb)
        terms = tuple(
            broadcast.constant(node, position, sources, cls.role(position)) if name in node.constants else None
            for position, name in enumerate(node.inputs)
        )
        names = _names(len(terms))
        bounds = bounds_of(cls.defined(names), names, sources, terms)
        shape = broadcast.output_shape(broadcast.shapes(sources, terms))
        written = fields(node, sources, shape, FLOAT32, bounds.bound, negative_zero=bounds.negative_zero)
        return cls(**written, terms=terms)

    @property
    def fixed(self) -> Terms:
        """The constant operands."""
        return self.terms

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands; constants are one after the other in one table."""
        operands, begin = [], 0
        named = zip(_names(len(self.terms)), broadcast.shapes(self.inputs, self.terms), self.terms, strict=True)
        for name, shape, values in named:
            operands.append(Operand(name, shape, values, "terms", begin))
            begin += 0 if values is None else values.size
        return tuple(operands)

    def facts(self) -> dict[str, Any]:
        """Return the constant operands, one after the other, if there are any."""
        constants = [term.reshape(-1) for term in self.terms if term is not None]
        return {"terms": np.concatenate(constants)} if constants else {}

    def summary(self) -> tuple[str, ...]:
        """Return the constant operands."""
        return tuple(text.floats(term) for term in self.terms if term is not None)

    @property
    def fragment(self) -> Fragment:
        """The operation of activations, or also of constants."""
        return self.fragments[any(term is not None for term in self.terms)]


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"operand_{position + 1}" for position in range(count))


def _fragment(kind: type[Fold], has_constants: bool) -> Fragment:
    """Return the NNEF operation of activations, or of activations and constants."""
    name = f"{kind.__name__.lower()}_float32{'_constants' if has_constants else ''}"
    terms = "    terms: tensor<scalar>,                  # the constants, one after the other, (1, N)\n"
    return Fragment(
        name,
        kind.order,
        f"""\
# {kind.comment}
fragment {name}(
    x: tensor<scalar>,                      # all operands that are activations, side by side
{terms if has_constants else ""}    axes: tensor<integer>,                  # int32 (operands, axes): the sizes of each
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )

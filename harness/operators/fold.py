"""Base classes of operators of any number of operands with broadcasting, and of those that combine them in order."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Ability, Layer, fields
from harness.operators.elements import Elements, Operand, Terms, bounds_of, errors_of, tables
from harness.operators.exact import onnx_functions, printing
from harness.operators.exact.expression import ARITHMETIC, Expression, argument, calls, named, required_float
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, LARGEST, Tensor
from harness.operators.text import Fragment
from harness.operators.traits import Trait

MOST_OPERANDS = 64
JOINT_ORDER = 160
"""Behind the fragments of all operators of harness."""


@dataclass(frozen=True, eq=False)
class Listed(Elements):
    """A layer of operands of one kind, none of which has a name; `terms` has the constant ones, None for activations.

    The second of its fragments is that of constants.
    """

    text = Elements.text.but(
        side_by_side=True,
        role_of=lambda position: f"operand {position + 1}",
        facts_of=lambda layer: tables(layer.operands),
        chosen=lambda layer: any(term is not None for term in layer.terms),
        summary_of=lambda layer: tuple(text.floats(term) for term in layer.terms if term is not None),
    )
    traits = Trait.NONE
    verb: ClassVar[str]

    terms: Terms

    @classmethod
    def read_operands(cls, node: Node, dtypes: Sequence[np.dtype[Any]]) -> tuple[list[Tensor], Terms, tuple[int, ...]]:
        """Return the activations, the constant operands and the shape of the output; refuse attributes."""
        node.require_inputs(1, MOST_OPERANDS)
        node.attributes({})
        sources = broadcast.activations(node, cls.verb, (), dtypes)
        terms = cls.constants_of(node, sources)
        return sources, terms, broadcast.output_shape(broadcast.shapes(sources, terms))

    @classmethod
    def constants_of(cls, node: Node, sources: Sequence[Tensor]) -> Terms:
        """Return the constant operands, None for each activation."""
        return tuple(
            broadcast.constant(node, position, sources, cls.text.role(position), takes_infinities=cls.takes_infinities)
            if name in node.constants
            else None
            for position, name in enumerate(node.inputs)
        )

    @property
    def fixed(self) -> Terms:
        """The constant operands."""
        return self.terms

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands; constants are one after the other in one table."""
        operands, begin = [], 0
        own = zip(names_of(len(self.terms)), broadcast.shapes(self.inputs, self.terms), self.terms, strict=True)
        for name, shape, values in own:
            operands.append(Operand(name, shape, values, "terms", begin))
            begin += 0 if values is None else values.size
        return tuple(operands)


@dataclass(frozen=True, eq=False)
class Joint(Listed):
    """y[n] = value(a[n], b[n], ...) of float32 operands; an operator states `value` alone.

    ONNX Runtime gives the same bits, unless the definition calls a function: then it is within the error bound.
    """

    errors = Ability(lambda layer: replace(errors_of(layer), exact=not any(calls(layer.definition))))
    verb = "computes with"

    def __init_subclass__(cls, **options: Any) -> None:
        cls.names = tuple(inspect.signature(cls.value).parameters)
        title = f"{cls.__name__}: IEEE float32 operations in this order."
        own = fragments(f"{cls.__name__.lower()}_float32", JOINT_ORDER, title)
        cls.text = cls.text.but(roles=cls.names, fragments=own)
        super().__init_subclass__(**options)
        required_float(cls.defined(), cls.__name__)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of fitting shapes, one of them an activation; refuse it if finite values can give a NaN."""
        node.require_inputs(len(cls.names), len(cls.names))
        sources, terms, shape = cls.read_operands(node, [FLOAT32])
        finite = [replace(source, bound=min(source.bound, LARGEST)) for source in sources]
        if bounds_of(cls.defined(), cls.names, finite, terms).can_be_nan:
            ends = ", ".join(f"{source.name!r} within {source.bound:g}" for source in finite)
            raise node.refusal(f"its result can be NaN for values of {ends}", "inputs with other bounds: Clip them")
        bounds = bounds_of(cls.defined(), cls.names, sources, terms)
        written = fields(node, sources, shape, FLOAT32, bounds.bound, negative_zero=bounds.negative_zero)
        return cls(**written, terms=terms)

    @classmethod
    def as_function(cls, inputs: int, opset: int) -> onnx.FunctionProto | None:  # noqa: ARG003 - of the interface
        """Return the function of the definition, for an operator that ONNX Runtime does not have."""
        return onnx_functions.derived(cls.ONNX, cls.defined(), cls.names, {}, opset)

    @classmethod
    def incomplete(cls) -> str:
        """Return whether ONNX has no operators for the definition."""
        return onnx_functions.missing(cls.as_function, len(cls.names))

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:  # noqa: ARG002 - of the interface
        """Return the error bound of a definition with calls, for ONNX Runtime's functions."""
        none = [np.zeros(values.shape) for values in inputs]
        return self.errors_within(inputs, none) if self.errors.has_tolerance else None


@dataclass(frozen=True, eq=False)
class Fold(Listed):
    """y = f(... f(f(A, B), C) ..., Z) for each value.

    An operator states `combine`, and `finish` if it does more.
    """

    combine: ClassVar[Any]
    """A static method from the expressions of the value so far and of the next operand to that of both."""
    order: ClassVar[int]
    """The place of the fragments in a file."""
    comment: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        y, x, count = (argument(name) for name in ("y", "x", "count"))
        step, last = cls.combine(y, x), printing.inline(cls.finish(y, count))
        end = f", then y = {last}" if last != "y" else ""
        line = f"y = A, then y = {printing.inline(step)} for each further operand x{end}"
        formula = f"{line:71} in float32{', each operation rounded' if step.operation in ARITHMETIC else ''}"
        own = fragments(f"{cls.__name__.lower()}_float32", cls.order, cls.comment)
        cls.text = cls.text.but(formula, fragments=own)
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
    def read(cls, node: Node) -> Layer:
        """Read a node of fitting shapes, one of them an activation."""
        sources, terms, shape = cls.read_operands(node, [FLOAT32])
        names = names_of(len(terms))
        bounds = bounds_of(cls.defined(names), names, sources, terms)
        written = fields(node, sources, shape, FLOAT32, bounds.bound, negative_zero=bounds.negative_zero)
        return cls(**written, terms=terms)


def names_of(count: int) -> tuple[str, ...]:
    """Return the names of so many operands in definitions."""
    return tuple(f"operand_{position + 1}" for position in range(count))


def fragments(name: str, order: int, comment: str, options: str = "") -> tuple[Fragment, ...]:
    """Return the NNEF operations of activations, and of activations and constants; `options` are more parameters."""
    which = "which N columns of its layer: the first, and the first behind them"
    terms = "    terms: tensor<scalar>,                  # the constants, one after the other, (1, N)\n"
    return tuple(
        Fragment(
            own_name,
            order,
            f"""\
# {comment}
fragment {own_name}(
    x: tensor<scalar>,                      # all operands that are activations, side by side
{constants}    axes: tensor<integer>,                  # int32 (operands, axes): the sizes of each
{options}    columns: integer[],                     # {which}
    type: string)
-> (y: tensor<scalar>);
""",
        )
        for own_name, constants in ((name, ""), (f"{name}_constants", terms))
    )

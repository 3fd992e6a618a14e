"""Base class of operators that combine any number of float32 operands from left to right, with broadcasting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Constants, Evaluate, Layer
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.rules import Rules
from harness.operators.tensor import Tensor
from harness.operators.text import Fragment

MOST_OPERANDS = 64
Terms = tuple[npt.NDArray[np.float32] | None, ...]


@dataclass(frozen=True, eq=False)
class Fold(Layer):
    """y = f(... f(f(A, B), C) ..., Z) for each value; `terms` has the constant operands, None for an activation."""

    rising = True
    side_by_side = True
    elementwise = False
    statement: ClassVar[str]
    """The property that a proof shows."""

    terms: Terms

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State one type, and that shapes are broadcast."""
        node.same_type(*node.given_inputs, node.y).broadcast(node.y, node.given_inputs)

    @abstractmethod
    def combine(self, first: Array, second: Array) -> Array:
        """Return f(first, second) of float32 values."""

    @classmethod
    def role(cls, position: int) -> str:
        """Return the name of an operand by its position."""
        return f"operand {position + 1}"

    def constants(self) -> Constants:
        """Return the constant operands, one after the other, if there are any, then the sizes of all operands."""
        found = [term.reshape(-1) for term in self.terms if term is not None]
        terms = {"terms": np.concatenate(found)} if found else {}
        return {**terms, "axes": np.array(self.shapes, np.int32)}

    def facts(self) -> dict[str, Any]:
        """Return the constant operands."""
        return {role: values for role, values in self.constants().items() if role != "axes"}

    def summary(self) -> tuple[str, ...]:
        """Return the constant operands."""
        return tuple(text.floats(term) for term in self.terms if term is not None)

    @property
    def fragment(self) -> Fragment:
        """The operation of activations, or also of constants."""
        return self.fragments[any(term is not None for term in self.terms)]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the operands, with the number of axes of the output."""
        return broadcast.shapes(self.inputs, self.terms)

    def operands(self, values: Sequence[Array], terms: Sequence[Array | None] | None = None) -> list[Array]:
        """Return all operands of the values of the inputs, (n, size) each; other `terms` than those of the layer."""
        found = broadcast.operands(self.inputs, self.terms if terms is None else terms, values)
        shape = (len(values[0]), *self.output.shape)
        return [np.broadcast_to(operand, shape).reshape(len(values[0]), -1) for operand in found]

    def without_constants(self, values: Sequence[Array]) -> Array:
        """Return all operands, (operands, n, size); 0 for constants."""
        none = [None if term is None else np.zeros(term.shape) for term in self.terms]
        return np.stack(self.operands(values, none))

    def prepare(self) -> Evaluate:
        """Return the function that combines with NumPy's operations, each of which IEEE 754 determines."""

        def evaluate(*values: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                return reduce(self.combine, self.operands(values)).astype(np.float32, copy=False)

        return evaluate

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, self.statement)


def read(node: Node, verb: str) -> tuple[list[Tensor], Terms, tuple[int, ...]]:
    """Return the activations, the operands that are constant, and the shape of the output."""
    node.require_inputs(1, MOST_OPERANDS)
    node.attributes({})
    sources = broadcast.activations(node, verb)
    terms = tuple(
        broadcast.constant(node, position, sources, f"operand {position + 1}") if name in node.constants else None
        for position, name in enumerate(node.inputs)
    )
    return sources, terms, broadcast.output_shape(broadcast.shapes(sources, terms))


def largest(sources: Sequence[Tensor], terms: Terms) -> list[float]:
    """Return the largest magnitude of each operand."""
    tensors = iter(sources)
    return [next(tensors).bound if term is None else float(np.abs(term).max()) for term in terms]


def negative_zeros(sources: Sequence[Tensor], terms: Terms) -> list[bool]:
    """Return for each operand whether a value can be -0."""
    tensors = iter(sources)
    return [
        next(tensors).negative_zero if term is None else bool((np.signbit(term) & (term == 0)).any()) for term in terms
    ]


def fragments(name: str, order: int, comment: str) -> tuple[Fragment, Fragment]:
    """Return the NNEF operations of activations, and of activations and constants."""
    terms = "    terms: tensor<scalar>,                  # the constants, one after the other, (1, N)\n"
    texts = (
        f"""\
# {comment}
fragment {each}(
    x: tensor<scalar>,                      # all operands that are activations, side by side
{constants}    axes: tensor<integer>,                  # int32 (operands, axes): the sizes of each
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
"""
        for each, constants in ((name, ""), (f"{name}_constants", terms))
    )
    first, second = texts
    return Fragment(name, order, first), Fragment(f"{name}_constants", order, second)

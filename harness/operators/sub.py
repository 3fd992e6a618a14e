"""Sub (ONNX), float32: the difference of two activations, or of an activation and a constant, in either order.

y[n] = a[n] - b[n]                         one IEEE 754 subtraction, rounded half to even
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, terms, text
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.exact import bits_of
from harness.operators.node import Node
from harness.operators.obligations import Obligation
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment


def _fragment(name: str, order: int, second: str, formula: str) -> Fragment:
    text = f"""\
# ONNX Sub: one IEEE float32 operation.
fragment {name}(
    a: tensor<scalar>,                      # float32 (vectors, N)
    b: tensor<scalar>,                      # {second}
    type: string)
-> (y: tensor<scalar>)
{{
    y = {formula};
}}
"""
    return Fragment(name, order, text)


SUB = _fragment("sub_float32", 72, "float32 (vectors, N), or a constant (1, N)", "a - b")
SUB_FROM = _fragment("sub_from_float32", 73, "a constant (1, N), from which a is subtracted", "b - a")


@dataclass(frozen=True, eq=False)
class Sub(Layer):
    """y[n] = a[n] - b[n]; the constant `minuend` or `subtrahend`, float32 (N,), takes the place of a or b.

    Both terms and the difference are finite for every input: a difference that could overflow is refused.
    """

    ONNX = (("", "Sub"),)
    formula = f"{'y[n] = A[n] - B[n]':62} in float32; a constant serves every vector"
    roles = ("A", "B")
    parameters = (0, 1)
    fragments = (SUB, SUB_FROM)

    minuend: npt.NDArray[np.float32] | None
    subtrahend: npt.NDArray[np.float32] | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have the same shape, or one of which is a constant."""
        sources = terms.activations(node, "subtracts")
        constant = terms.constant(node, sources[0], "constant term") if len(sources) == 1 else None
        bound = terms.bound_of_sum(node, sources, constant, "difference")
        minuend, subtrahend = (constant, None) if node.inputs[0] in node.constants else (None, constant)
        terms.require_kept_zero(node, sources[0], subtrahend, -0.0)
        first = sources[0].negative_zero if minuend is None else terms.includes(minuend, -0.0)
        negative_zero = first and (subtrahend is None or terms.includes(subtrahend, 0.0))
        written = fields(node, sources, sources[0].shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, minuend=minuend, subtrahend=subtrahend)

    @property
    def transparent(self) -> bool:
        """Whether ONNX Runtime may leave it out because it subtracts 0."""
        return self.subtrahend is not None and not self.subtrahend.any()

    @property
    def fragment(self) -> Fragment:
        """The operation by which of the terms is constant."""
        return SUB if self.minuend is None else SUB_FROM

    def constants(self) -> Constants:
        """Return the constant term."""
        return {role: term for role, term in self.facts().items() if term is not None}

    def facts(self) -> dict[str, Any]:
        """Return both terms, None for an activation."""
        return {"minuend": self.minuend, "subtrahend": self.subtrahend}

    def summary(self) -> tuple[str, ...]:
        """Return the terms."""
        a, b = (
            name if term is None else text.floats(term) for name, term in zip("AB", self.facts().values(), strict=True)
        )
        return (f"{a} - {b}",)

    def obligations(self, *, all_floats: bool, random_vectors: int) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield pairs of terms at which roundings differ; their 2^64 pairs cannot be enumerated."""
        constant = next(iter(self.constants().values()), None)
        near = None if constant is None else -np.asarray(constant, np.float32)
        return terms.obligations(self, near, "differences are rounded to float32 as IEEE 754 says")

    def assumptions(self) -> Iterator[str]:
        """Yield that differences are rounded as IEEE 754 requires."""
        yield terms.ASSUMPTION.format("subtraction")

    def prepare(self) -> Evaluate:
        """Return the function that adds in integer arithmetic, with the sign of b inverted."""
        before, after = ([term] if term is not None else [] for term in (self.minuend, self.subtrahend))

        def subtract(*values: Array) -> Array:
            a, b = map(bits_of, (*before, *values, *after))
            return softfloat.add(a, b ^ softfloat.SIGN_BIT).view(np.float32)

        return subtract

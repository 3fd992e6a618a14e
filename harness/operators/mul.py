"""Mul (ONNX), float32: the product of two activations, or of an activation and a constant.

y[n] = a[n] * b[n]                         one IEEE 754 multiplication, rounded half to even; it can be infinite
"""

from __future__ import annotations

import math
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

FRAGMENT = Fragment(
    "mul_float32",
    74,
    """\
# ONNX Mul: one IEEE float32 operation.
fragment mul_float32(
    a: tensor<scalar>,                      # float32 (vectors, N)
    b: tensor<scalar>,                      # float32 (vectors, N), or a constant (1, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = a * b;
}
""",
)


@dataclass(frozen=True, eq=False)
class Mul(Layer):
    """y[n] = a[n] * b[n]; a is the first input, b the second, or the constant `factor`, float32 (N,).

    No product is NaN for any input: an infinity times what can be 0 is refused.
    """

    ONNX = (("", "Mul"),)
    formula = f"{'y[n] = A[n] * B[n]':62} in float32; a constant serves every vector"
    fused = ("product", "QLinearMul")
    roles = ("A", "B")
    parameters = (0, 1)
    fragments = (FRAGMENT,)

    factor: npt.NDArray[np.float32] | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have the same shape, or one of which is a constant."""
        sources = terms.activations(node, "multiplies")
        factor = terms.constant(node, sources[0], "factor") if len(sources) == 1 else None
        for source in sources:
            if math.isinf(source.bound) and (factor is None or not factor.all()):
                raise node.refusal(
                    f"its product can be NaN: {source.name!r} can be infinite and the other factor 0",
                    "finite factors: Clip them, or constants other than 0",
                )
        with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded products too
            largest = np.abs(factor).max() if factor is not None else np.float32(sources[1].bound)
            bound = float(np.float32(sources[0].bound) * largest)
        return cls(**fields(node, sources, sources[0].shape, FLOAT32, bound, negative_zero=True), factor=factor)

    @property
    def transparent(self) -> bool:
        """Whether ONNX Runtime may leave it out because it multiplies by 1."""
        return self.factor is not None and bool((self.factor == 1).all())

    def constants(self) -> Constants:
        """Return the constant factor."""
        return {} if self.factor is None else {"factor": self.factor}

    def facts(self) -> dict[str, Any]:
        """Return the constant factor, None if there is none."""
        return {"factor": self.factor}

    def summary(self) -> tuple[str, ...]:
        """Return the factors."""
        return (f"A * {'B' if self.factor is None else text.floats(self.factor)}",)

    def obligations(self, *, all_floats: bool, random_vectors: int) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield pairs of factors at which roundings differ; their 2^64 pairs cannot be enumerated."""
        return terms.obligations(self, self.factor, "products are rounded to float32 as IEEE 754 says")

    def assumptions(self) -> Iterator[str]:
        """Yield that products are rounded as IEEE 754 requires."""
        yield terms.ASSUMPTION.format("multiplication")

    def prepare(self) -> Evaluate:
        """Return the function that multiplies in integer arithmetic."""
        constants = () if self.factor is None else (self.factor,)

        def multiply(*values: Array) -> Array:
            a, b = map(bits_of, (*values, *constants))
            return softfloat.product(a, b).view(np.float32)

        return multiply

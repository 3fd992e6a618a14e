"""Add (ONNX), float32: the sum of two activations, or of an activation and a constant.

y[n] = a[n] + b[n]                         one IEEE 754 addition, rounded half to even
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, terms, text
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.exact import bits_of
from harness.operators.fault_models import LITTLE_ENDIAN, FaultModel, through_float16, toward_zero
from harness.operators.node import Node
from harness.operators.obligations import Obligation
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "add_float32",
    50,
    """\
# ONNX Add: one IEEE float32 operation.
fragment add_float32(
    a: tensor<scalar>,                      # float32 (vectors, N)
    b: tensor<scalar>,                      # float32 (vectors, N), or a constant (1, N)
    type: string)
-> (y: tensor<scalar>)
{
    y = a + b;
}
""",
)


@dataclass(frozen=True, eq=False)
class Add(Layer):
    """y[n] = a[n] + b[n]; a is the first input, b the second, or the constant `addend`, float32 (N,).

    Both terms and the sum are finite for every input: a sum that could overflow is refused.
    """

    ONNX = (("", "Add"),)
    formula = (
        "y[n] = A[n] + B[n]                                             in float32; a constant serves every vector"
    )
    fused = ("sum", "QLinearAdd")
    roles = ("A", "B")
    parameters = (0, 1)
    fragments = (FRAGMENT,)

    addend: npt.NDArray[np.float32] | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have the same size, or one of which is a constant."""
        sources = terms.activations(node, "adds")
        addend = terms.constant(node, sources[0], "addend") if len(sources) == 1 else None
        bound = terms.bound_of_sum(node, sources, addend, "sum")
        terms.require_kept_zero(node, sources[0], addend, 0.0)
        negative_zero = all(source.negative_zero for source in sources)
        negative_zero = negative_zero and (addend is None or terms.includes(addend, -0.0))
        written = fields(node, sources, sources[0].shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, addend=addend)

    @property
    def transparent(self) -> bool:
        """Whether ONNX Runtime may leave it out because it adds 0."""
        return self.addend is not None and not self.addend.any()

    def constants(self) -> Constants:
        """Return the constant term."""
        return {} if self.addend is None else {"addend": self.addend}

    def facts(self) -> dict[str, Any]:
        """Return the constant term, None if there is none."""
        return {"addend": self.addend}

    def summary(self) -> tuple[str, ...]:
        """Return the terms."""
        return (f"A + {'B' if self.addend is None else text.floats(self.addend)}",)

    def prepare(self) -> Evaluate:
        """Return the function that adds in integer arithmetic."""
        constants = () if self.addend is None else (self.addend,)

        def add(*values: Array) -> Array:
            a, b = map(bits_of, (*values, *constants))
            return softfloat.add(a, b).view(np.float32)

        return add

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the faults of an addition that change its result.

        Two faults are left out.  Terms that were not rounded to float32 before cannot be seen from the rounded terms.
        A double-precision addition of float32 terms, rounded to float32, gives the same result.
        """
        a, b = inputs if self.addend is None else (inputs[0], np.broadcast_to(self.addend, inputs[0].shape))
        right = "a + b, rounded once"
        yield FaultModel("the first term is left out", right, b)
        yield FaultModel("the second term is left out", right, a)
        yield FaultModel("the second term is subtracted instead of added", right, a - b)
        exact = a.astype(np.float64) + b
        yield FaultModel("the sum is truncated toward zero", "rounded half to even", toward_zero(exact))
        total = a + b
        flushed = np.where(np.abs(total) < np.finfo(np.float32).tiny, total * np.float32(0), total)
        yield FaultModel("a subnormal sum is flushed to zero", "it is kept", flushed)
        yield FaultModel("the sum is rounded to float16", right, through_float16(total))
        if self.addend is not None:
            yield FaultModel(
                "the bytes of the constant are in the other order", LITTLE_ENDIAN, a + self.addend.byteswap()
            )

    def obligations(self, *, all_floats: bool, random_vectors: int) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield pairs of terms at which roundings differ; their 2^64 pairs cannot be enumerated."""
        return terms.obligations(self, self.addend, "sums are rounded to float32 as IEEE 754 says")

    def assumptions(self) -> Iterator[str]:
        """Yield that sums are rounded as IEEE 754 requires."""
        yield terms.ASSUMPTION.format("addition")

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where terms and sum are finite, as they are in every network that is read."""
        finite: Array = np.all([np.isfinite(values) for values in (*inputs, expected)], axis=0)
        return finite

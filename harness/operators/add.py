"""Add (ONNX), float32: the sum of two activations, or of an activation and a constant.

y[n] = a[n] + b[n]                         one IEEE 754 addition, rounded half to even
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, terms
from harness.operators.base import fields
from harness.operators.fault_models import LITTLE_ENDIAN, FaultModel, through_float16, toward_zero
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.terms import BinaryLayer, fragment


@dataclass(frozen=True, eq=False)
class Add(BinaryLayer):
    """y[n] = a[n] + b[n]; a is the first input, b the second, or the constant `addend`, float32 (N,).

    Both terms and the sum are finite for every input: a sum that could overflow is refused.
    """

    ONNX = (("", "Add"),)
    formula = (
        "y[n] = A[n] + B[n]                                             in float32; a constant serves every vector"
    )
    fused = ("sum", "QLinearAdd")
    fragments = (fragment("add_float32", 50, "Add", "a + b"),)
    symbol = "+"
    operation = "addition"
    results = "sums"
    combine = staticmethod(softfloat.add)
    constant_roles = ("addend",)

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

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where terms and sum are finite, as they are in every network that is read."""
        finite: Array = np.all([np.isfinite(values) for values in (*inputs, expected)], axis=0)
        return finite

"""Add (ONNX), float32: the sum of two activations, or of an activation and a constant.

y[n] = a[n] + b[n]                         one IEEE 754 addition, rounded half to even
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, terms
from harness.operators.base import fields
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.terms import BinaryLayer, fragment, fragment_of_axes


@dataclass(frozen=True, eq=False)
class Add(BinaryLayer):
    """y[n] = a[n] + b[n]; a is the first input, b the second, or the constant `addend`, float32.

    A sum that overflows is infinite.  Infinite terms of both signs give a NaN, which has no specified bits: the
    reference fails for such an input.
    """

    rising = True
    ONNX = (("", "Add"),)
    formula = (
        "y[n] = A[n] + B[n]                                             in float32; a constant serves every vector"
    )
    fused = ("sum", "QLinearAdd")
    fragments = (fragment("add_float32", 50, "Add", "a + b"), fragment_of_axes("add_float32", 55, "Add"))
    symbol = "+"
    operation = "addition"
    result = "sum"
    apply = np.add
    wrong = MappingProxyType(
        {
            "the first term is left out": lambda _, b: b,
            "the second term is left out": lambda a, _: a,
            "the second term is subtracted instead of added": np.subtract,
        }
    )
    combine = staticmethod(softfloat.add)
    constant_roles = ("addend",)
    takes_infinities = True

    addend: npt.NDArray[np.float32] | None

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        sources = terms.activations(node, "adds")
        addend = terms.constant(node, sources, "addend")
        bound = terms.bound_of_sum(sources, addend)
        terms.require_kept_zero(node, sources[0], addend, 0.0)
        negative_zero = all(source.negative_zero for source in sources)
        negative_zero = negative_zero and (addend is None or terms.includes(addend, -0.0))
        written = fields(node, sources, terms.shape(sources, addend), FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, addend=addend)

    @staticmethod
    def change_of_result(a: Array, b: Array, of_a: Array, of_b: Array) -> Array:  # noqa: ARG004 - of the interface
        """Return the sum of both errors."""
        return of_a + of_b

    @property
    def transparent(self) -> bool:
        """True if it adds 0, so that ONNX Runtime may remove it."""
        return self.addend is not None and not self.addend.any()

"""Mul (ONNX), float32: the product of two activations, or of an activation and a constant.

y[n] = a[n] * b[n]                         one IEEE 754 multiplication, rounded half to even; it can be infinite
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.operators import softfloat, terms
from harness.operators.base import fields
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.terms import BinaryLayer, fragment


@dataclass(frozen=True, eq=False)
class Mul(BinaryLayer):
    """y[n] = a[n] * b[n]; a is the first input, b the second, or the constant `factor`, float32 (N,).

    No product is NaN for any input: an infinity times what can be 0 is refused.
    """

    ONNX = (("", "Mul"),)
    formula = f"{'y[n] = A[n] * B[n]':62} in float32; a constant serves every vector"
    fused = ("product", "QLinearMul")
    fragments = (fragment("mul_float32", 74, "Mul", "a * b"),)
    symbol = "*"
    operation = "multiplication"
    result = "product"
    apply = np.multiply
    wrong = MappingProxyType(
        {"the first factor is left out": lambda _, b: b, "the second factor is left out": lambda a, _: a}
    )
    combine = staticmethod(softfloat.product)
    constant_roles = ("factor",)

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
        """True if it multiplies by 1, so that ONNX Runtime may remove it."""
        return self.factor is not None and bool((self.factor == 1).all())

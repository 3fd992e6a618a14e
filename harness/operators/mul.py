"""Mul (ONNX), float32: the product of two activations, or of an activation and a constant.

y[n] = a[n] * b[n]                         one IEEE 754 multiplication, rounded half to even; it can be infinite
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat, terms
from harness.operators.base import Layer, fields
from harness.operators.div import Div
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32
from harness.operators.terms import BinaryLayer, fragment, fragment_of_axes


@dataclass(frozen=True, eq=False)
class Mul(BinaryLayer):
    """y[n] = a[n] * b[n]; a is the first input, b the second, or the constant `factor`, float32.

    A product that overflows is infinite.  An infinity times 0 gives a NaN, which has no specified bits: the reference
    fails for such an input.
    """

    monotone = True
    ONNX = (("", "Mul"),)
    formula = f"{'y[n] = A[n] * B[n]':62} in float32; a constant serves every vector"
    fused = ("product", "QLinearMul")
    fragments = (fragment("mul_float32", 74, "Mul", "a * b"), fragment_of_axes("mul_float32", 77, "Mul"))
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
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        sources = terms.activations(node, "multiplies")
        factor = terms.constant(node, sources, "factor")
        bounds = [np.float32(source.bound) for source in sources]
        largest = bounds[1] if factor is None else np.abs(factor).max()
        with np.errstate(over="ignore", invalid="ignore"):  # rounding changes no order: rounded products are bounded
            bound = float(np.nan_to_num(bounds[0] * largest, nan=math.inf, posinf=math.inf))
        return cls(
            **fields(node, sources, terms.shape(sources, factor), FLOAT32, bound, negative_zero=True), factor=factor
        )

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return the ends of the products; a square is not negative."""
        least, most = super().output_bounds(low, high)
        if self.factor is None and self.sources[0] == self.sources[1]:
            nearest = np.clip(np.zeros_like(low[0]), low[0], high[0])
            least = nearest * nearest
        return least, most

    def require_unfused(self, node: Node, writer: Callable[[str], Layer | None]) -> None:
        """Refuse a product with 1 / b: ONNX Runtime 1.31 divides by b instead, which rounds once."""
        for source in self.sources:
            other = writer(source)
            if isinstance(other, Div) and other.dividend is not None and (other.dividend == 1).all():
                raise node.refusal(
                    f"multiplies by {other.node!r}, 1 / b: ONNX Runtime would divide by b, with one rounding",
                    "a Div by b",
                )

    @staticmethod
    def change_of_result(a: Array, b: Array, of_a: Array, of_b: Array) -> Array:
        """Return |a| of_b + |b| of_a + of_a of_b."""
        change: Array = np.abs(a) * of_b + np.abs(b) * of_a + of_a * of_b
        return change

    @property
    def transparent(self) -> bool:
        """True if it multiplies by 1, so that ONNX Runtime may remove it."""
        return self.factor is not None and bool((self.factor == 1).all())

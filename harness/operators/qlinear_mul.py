"""QLinearMul (com.microsoft), uint8 or int8: the product of two activations, or of an activation and a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators.code_pairs import CodePairs
from harness.operators.codes import Quantised
from harness.operators.exact.expression import Expression, floor, fused, named, number
from harness.operators.node import Node


def _product(a: Quantised, b: Quantised) -> Expression:
    return number((a.code - a.zero_point) * (b.code - b.zero_point))


def _in_int16(product: Expression) -> Expression:
    return product - floor((product + 0x8000) * 2.0**-16) * 0x10000


@dataclass(frozen=True, eq=False)
class QLinearMul(CodePairs):
    """A product, which is exact, times a multiplier; a constant takes the place of b.

    Measured with ONNX Runtime 1.31.1 on x86-64: no value differs in 2,000 random choices of scales, zero points and
    shapes, most of them with all pairs of codes and ties.
    """

    ONNX = (("com.microsoft", "QLinearMul"),)
    operand_role = "factor"
    named_in_summary = ("multiplier",)
    stem, orders = "qlinear_mul", (51, 52, 121)
    comment = """\
# com.microsoft QLinearMul, uint8 or int8 (type).  multiplier = (a_scale * b_scale) / y_scale, both of them one IEEE
# float32 operation: computed once, and its bits are the constant.  The product of the differences is exact."""
    alternatives = {  # noqa: RUF012
        "the multiplication is fused with the addition of the zero point": lambda a, b, y: fused(
            _product(a, b), a.scale * b.scale / y.scale, number(y.zero_point)
        ),
        "the multiplier is a_scale * (b_scale / y_scale)": lambda a, b, y: (
            _product(a, b) * (a.scale * (b.scale / y.scale)) + number(y.zero_point)
        ),
        "the product is divided by y_scale": lambda a, b, y: (
            _product(a, b) * (a.scale * b.scale) / y.scale + number(y.zero_point)
        ),
        "both inputs are dequantised, multiplied and quantised": lambda a, b, y: (
            a.dequantised * b.dequantised / y.scale + number(y.zero_point)
        ),
        "the product is kept in int16": lambda a, b, y: (
            _in_int16(_product(a, b)) * (a.scale * b.scale / y.scale) + number(y.zero_point)
        ),
    }

    @staticmethod
    def value(a: Quantised, b: Quantised, y: Quantised) -> Expression:
        """Return the definition."""
        multiplier = named("multiplier", a.scale * b.scale / y.scale)
        return named("product", _product(a, b)) * multiplier + number(y.zero_point)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        read = cls.read_fields(node)
        if read["constant_first"]:  # a product is the same in any order
            read |= {"a": read["b"], "b": read["a"], "constant_first": False}
        layer = cls(**read)
        node.normal(np.atleast_1d(layer.numbers()["multiplier"]), "multiplier a_scale * b_scale / y_scale")
        layer.require_int32(node)
        return layer

"""QLinearMul (com.microsoft), uint8 or int8: the product of two activations, or of an activation and a constant.

m = float32(float32(a_scale * b_scale) / y_scale)
v = float32(float32(float32((a - a_zero_point) * (b - b_zero_point)) * m) + y_zero_point)       the first is exact
y = saturate(round_half_even(v))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators import softfloat, text
from harness.operators.base import Constants
from harness.operators.code_pairs import CodePairs, fragment_of_axes, one_activation, two_activations
from harness.operators.counters import VALUES
from harness.operators.exact import bits_of
from harness.operators.fault_models import FaultModel, Single
from harness.operators.node import Node
from harness.operators.text import ROUND_HALF_EVEN, Fragment

PRODUCT = "(a - a_zero_point) * (b - b_zero_point) * m + y_zero_point, two roundings"


def _fragment(name: str, order: int, factors: str, operand: str = "") -> Fragment:
    return Fragment(
        name,
        order,
        f"""\
# com.microsoft QLinearMul, uint8 or int8 (type).  multiplier = (a_scale * b_scale) / y_scale, both of them one IEEE
# float32 operation: computed once, and its bits are the constant.  The product of the differences is exact.
fragment {name}(
    {factors}
    multiplier: scalar,
    a_zero_point: integer, b_zero_point: integer, y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    type: string)
-> (y: tensor<scalar>)
{{{operand}
    product = (a - scalar(a_zero_point)) * (b - scalar(b_zero_point));
    code = round_half_even(product * multiplier + scalar(y_zero_point));
    y = clamp(code, scalar(low), scalar(high));
}}
""",
        (ROUND_HALF_EVEN,),
    )


MUL = _fragment("qlinear_mul", 51, two_activations())
MUL_CONSTANT = _fragment("qlinear_mul_constant", 52, *one_activation("a", "b"))
MUL_AXES = fragment_of_axes(MUL, 121)


@dataclass(frozen=True, eq=False)
class QLinearMul(CodePairs):
    """y = saturate(round_half_even(float32(float32(product * m) + y_zero_point))); a constant takes the place of b.

    Measured with ONNX Runtime 1.31.1 on x86-64: no value differs in 2,000 random choices of scales, zero points and
    shapes, most of them with all pairs of codes and ties.
    """

    ONNX = (("com.microsoft", "QLinearMul"),)
    formula = """\
m = (a_scale * b_scale) / y_scale                              in float32
v = ((A - a_zero_point) * (B - b_zero_point)) * m + y_zero_point        in float32, not fused
y = round_half_even(v)                                         clamped to uint8 or int8"""
    fragments = (MUL, MUL_CONSTANT, MUL_AXES)
    operand_role = "factor"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        read = cls.read_fields(node)
        if read["constant_first"]:  # a product is the same in any order
            read |= {"a": read["b"], "b": read["a"], "constant_first": False}
        layer = cls(**read)
        node.normal(np.atleast_1d(layer.multiplier), "multiplier a_scale * b_scale / y_scale")
        layer.require_int32(node)
        return layer

    @property
    def multiplier(self) -> np.float32:
        """The multiplier m, by integer arithmetic."""
        sa, sb, sy = (bits_of(np.atleast_1d(each.scale)) for each in (self.a, self.b, self.y))
        return np.float32(softfloat.quotient(softfloat.product(sa, sb).astype(np.int64), sy).view(np.float32)[0])

    @property
    def fragment(self) -> Fragment:
        """The operation by whether a factor is constant, or both are activations that are broadcast."""
        if self.broadcasts:
            return MUL_AXES
        return MUL if self.operand is None else MUL_CONSTANT

    def numbers(self) -> Constants:
        """Return the multiplier and the zero points."""
        quantisations = {"a": self.a, "b": self.b, "y": self.y}
        zero_points = {f"{name}_zero_point": each.zero_point for name, each in quantisations.items()}
        return {"multiplier": self.multiplier} | zero_points

    def summary(self) -> tuple[str, ...]:
        """Return the multiplier, then the zero points."""
        zero_points = f"{self.a.zero_point} and {self.b.zero_point} to {self.y.zero_point}"
        return text.floats(self.multiplier), zero_points

    def compute(self) -> Single:
        """Return v for all pairs."""
        a, b = (each.differences(self.dtype) for each in (self.a, self.b))
        products = bits_of(a[:, None] * b)  # below 2^16: exact
        scaled = softfloat.product(products, bits_of(np.atleast_1d(self.multiplier))).astype(np.int64)
        return softfloat.add(scaled, bits_of(np.array([self.y.zero_point], np.float32))).view(np.float32)

    def compute_in_float32(self) -> Single:
        """Return v for all pairs."""
        a, b = (each.differences(self.dtype) for each in (self.a, self.b))
        multiplier = self.a.scale * self.b.scale / self.y.scale
        v: Single = a[:, None] * b * multiplier + np.float32(self.y.zero_point)
        return v

    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield other orders and roundings of the operations, and wrong factors."""
        (a, b), m, zero_point = self.grid(), self.multiplier, np.float32(self.y.zero_point)
        da, db = a - np.float32(self.a.zero_point), b - np.float32(self.b.zero_point)
        sa, sb, sy = self.a.scale, self.b.scale, self.y.scale
        product, everywhere = da * db, np.zeros((VALUES, VALUES), np.float32)
        v = {
            "the multiplication is fused with the addition of the zero point": np.float64(m) * product + zero_point,
            "the multiplier is a_scale * (b_scale / y_scale)": product * (sa * (sb / sy)) + zero_point,
            "the product is divided by y_scale": product * (sa * sb) / sy + zero_point,
            "both inputs are dequantised, multiplied and quantised": (da * sa) * (db * sb) / sy + zero_point,
            "the product is in double precision": (product * np.float64(sa) * np.float64(sb) / np.float64(sy))
            + zero_point,
            "the zero point of a is left out": a * db * m + zero_point,
            "the zero point of b is left out": da * b * m + zero_point,
            "the zero point of y is left out": product * m,
            "the first factor is left out": everywhere + db * m + zero_point,
            "the second factor is left out": everywhere + da * m + zero_point,
        }
        for cause, wrong in v.items():
            yield FaultModel(cause, PRODUCT, self.codes.nearest(wrong.astype(np.float32)))
        late = np.rint((product * m).astype(np.float64)) + float(zero_point)
        yield FaultModel("the zero point is added after rounding", "it is added before", self.codes.clip(late))
        wrapped = product.astype(np.int64).astype(np.int16).astype(np.float32)
        yield FaultModel(
            "the product is kept in int16", "it needs 17 bits", self.codes.nearest(wrapped * m + zero_point)
        )

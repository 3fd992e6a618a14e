"""QLinearAdd (com.microsoft), uint8 or int8: the sum of two activations, or of an activation and a constant.

ra = float32(a_scale / y_scale);  rb = float32(b_scale / y_scale)
c = float32(y_zero_point - fma(ra, a_zero_point, float32(rb * b_zero_point)))
v = fma(ra, a, fma(rb, b, c))                                     each fma rounded once
y = saturate(round_half_even(v))

This is what ONNX Runtime computes on x86-64 with AVX2, where a is the second input if the first alone is repeated
along the last axis, such as one constant number.
On Arm it computes integer products instead, and can give other codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from harness.operators import softfloat, text
from harness.operators.base import Constants
from harness.operators.code_pairs import CodePairs, fragment_of_axes, one_activation, two_activations
from harness.operators.codes import Affine, rounded
from harness.operators.exact import bits_of, fused
from harness.operators.fault_models import FaultModel, Single
from harness.operators.node import Node
from harness.operators.obligations import all_codes
from harness.operators.text import ROUND_HALF_EVEN, Fragment

FUSED = "two fused multiply-adds: ra * a + (rb * b + c)"


def _fragment(name: str, order: int, terms: str, operands: str = "") -> Fragment:
    return Fragment(
        name,
        order,
        f"""\
# com.microsoft QLinearAdd, uint8 or int8 (type).  first_ratio = a_scale / y_scale, second_ratio = b_scale / y_scale,
# fixed = y_zero_point - (first_ratio * a_zero_point + second_ratio * b_zero_point): computed once, and their bits are
# the constants.  A product and the sum that contains it are one operation, a fused multiply-add; an interpreter that
# rounds both can give the next code where the sum is nearly half way between two codes.
fragment {name}(
    {terms}
    first_ratio: scalar, second_ratio: scalar, fixed: scalar,
    low: integer, high: integer,            # the least and the greatest code
    type: string)
-> (y: tensor<scalar>)
{{{operands}
    code = round_half_even(first_ratio * a + (second_ratio * b + fixed));
    y = clamp(code, scalar(low), scalar(high));
}}
""",
        (ROUND_HALF_EVEN,),
    )


ADD = _fragment("qlinear_add", 47, two_activations())
ADD_CONSTANT = _fragment("qlinear_add_constant", 48, *one_activation("a", "b"))
ADD_AXES = fragment_of_axes(ADD, 122)
ADD_TO_CONSTANT = _fragment("qlinear_add_to_constant", 49, *one_activation("b", "a"))


class Numbers(NamedTuple):
    """The constants of the formula."""

    first_ratio: np.float32
    second_ratio: np.float32
    fixed: np.float32


@dataclass(frozen=True, eq=False)
class QLinearAdd(CodePairs):
    """y = saturate(round_half_even(fma(ra, a, fma(rb, b, c)))).

    Measured with ONNX Runtime 1.31.1 on x86-64 with AVX2: no value differs in 2,000 random choices of scales, zero
    points and shapes, most of them with all pairs of codes and ties.  One value per vector is refused if the order of a
    and b matters: ONNX Runtime exchanges them in batches of one vector.
    """

    ONNX = (("com.microsoft", "QLinearAdd"),)
    formula = """\
ra, rb, c = a_scale / y_scale, b_scale / y_scale, y_zero_point - fma(ra, a_zero_point, rb * b_zero_point)
v = fma(ra, A, fma(rb, B, c))                                  in float32; A and B are exchanged
                                                               if A alone is repeated along the last axis
y = round_half_even(v)                                         clamped to uint8 or int8"""
    fragments = (ADD, ADD_CONSTANT, ADD_TO_CONSTANT, ADD_AXES)
    operand_role = "addend"

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        layer = cls(**cls.read_fields(node))
        for ratio, name in zip(layer.ratios, "ab", strict=False):
            node.normal(np.atleast_1d(ratio), f"ratio {name}_scale / y_scale")
        layer.require_int32(node)
        exchanged = _sums(_numbers(layer.b, layer.a, layer.y), layer.dtype).T
        if layer.size == 1 and (rounded(exchanged, 0, layer.dtype) != layer.table()).any():
            raise node.refusal(
                "adds one value per vector, in an order that ONNX Runtime takes from the number of vectors",
                "several values per vector, or other scales",
            )
        return layer

    @property
    def fragment(self) -> Fragment:
        """The operation by which of the terms is constant."""
        if self.operand is None:
            return ADD_AXES if self.broadcasts else ADD
        return ADD_TO_CONSTANT if self.constant_first else ADD_CONSTANT

    @property
    def ratios(self) -> Numbers:
        """The numbers of the formula."""
        return _numbers(self.a, self.b, self.y)

    def numbers(self) -> Constants:
        """Return the ratios of the scales and the sum of all zero points."""
        return self.ratios._asdict()

    def summary(self) -> tuple[str, ...]:
        """Return the ratios, then the zero points."""
        first, second, _ = map(text.floats, self.ratios)
        return f"{first} and {second}", f"{self.a.zero_point} and {self.b.zero_point} to {self.y.zero_point}"

    def compute(self) -> Single:
        """Return v for all pairs."""
        return _sums(self.ratios, self.dtype)

    def compute_in_float32(self) -> Single:
        """Return v for all pairs."""
        (a, b), (ra, rb) = self.grid(), (each.scale / self.y.scale for each in (self.a, self.b))
        za, zb, zero_point = (np.float32(each.zero_point) for each in (self.a, self.b, self.y))
        return fused(ra, a, fused(rb, b, zero_point - fused(ra, za, rb * zb)))

    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield other orders and roundings of the operations, and wrong terms."""
        (a, b), (ra, rb, c) = self.grid(), self.ratios
        za, zb, zero_point = (np.float32(each.zero_point) for each in (self.a, self.b, self.y))
        right, real = self.unrounded(), (a - za) * self.a.scale + (b - zb) * self.b.scale
        v = {
            "the multiply-adds are not fused": ra * a + (rb * b + c),
            "the second term is added last": _fused(rb, b, _fused(ra, a, c)),
            "the terms are added before the constant: (ra * a + rb * b) + c": _fused(ra, a, rb * b) + c,
            "the products are in double precision": np.float64(ra) * a + (np.float64(rb) * b + c),
            "the constant is computed without a fused multiply-add": _fused(
                ra, a, _fused(rb, b, zero_point - (ra * za + rb * zb))
            ),
            "both inputs are dequantised, added and quantised": real / self.y.scale + zero_point,
            "the first term is left out": np.broadcast_to(_fused(rb, b - zb, zero_point), right.shape),
            "the second term is left out": np.broadcast_to(_fused(ra, a - za, zero_point), right.shape),
            "the second term is subtracted": _fused(ra, a, _fused(-rb, b, zero_point - ra * za + rb * zb)),
            "the zero point of a is left out": right + ra * za,
            "the zero point of b is left out": right + rb * zb,
            "the zero point of y is left out": right - zero_point,
        }
        for cause, wrong in v.items():
            yield FaultModel(cause, FUSED, self.codes.nearest(wrong))
        late = np.rint((right - zero_point).astype(np.float64)) + float(zero_point)
        yield FaultModel("the zero point is added after rounding", "it is added before", self.codes.clip(late))
        yield FaultModel("the inputs are exchanged", FUSED, self.table().T)


def _numbers(a: Affine, b: Affine, y: Affine) -> Numbers:
    """Return the numbers of the formula, by integer arithmetic."""
    scales = (bits_of(np.atleast_1d(each.scale)) for each in (a, b, y))
    zero_points = (bits_of(np.array([each.zero_point], np.float32)) for each in (a, b, y))
    (sa, sb, sy), (za, zb, zy) = scales, zero_points
    ra, rb = (softfloat.quotient(scale, sy).astype(np.int64) for scale in (sa, sb))
    both = softfloat.fused(ra, za, softfloat.product(rb, zb).astype(np.int64)).astype(np.int64)
    fixed = softfloat.add(zy, both ^ softfloat.SIGN_BIT)
    return Numbers(*(bits.astype(np.uint32).view(np.float32)[0] for bits in (ra, rb, fixed)))


def _sums(numbers: Numbers, dtype: np.dtype[Any]) -> Single:
    """Return fma(ra, a, fma(rb, b, c)) for all codes a and b, by integer arithmetic."""
    codes = bits_of(all_codes(dtype).astype(np.float32))
    ra, rb, c = (bits_of(np.atleast_1d(number)) for number in numbers)
    second = softfloat.fused(rb, codes, c).astype(np.int64)
    return softfloat.fused(ra, codes[:, None], second[None]).view(np.float32)


def _fused(a: Single | np.float32, b: Single, c: Single | np.float32) -> Single:
    """Return a * b + c nearly as rounded once; the product is exact in float64."""
    return (np.float64(a) * b.astype(np.float64) + c).astype(np.float32)

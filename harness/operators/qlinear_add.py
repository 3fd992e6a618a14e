"""QLinearAdd (com.microsoft), uint8 or int8: the sum of two activations, or of an activation and a constant.

This is what ONNX Runtime computes on x86-64 with AVX2, where a is the second input if the first alone is repeated
along the last axis, such as one constant number.
On Arm it computes integer products instead, and can give other codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from harness.operators.code_pairs import CodePairs
from harness.operators.codes import Quantised
from harness.operators.exact.expression import Expression, fused, literal, named, number
from harness.operators.node import Node


@dataclass(frozen=True, eq=False)
class QLinearAdd(CodePairs):
    """A sum by two fused multiply-adds.

    Measured with ONNX Runtime 1.31.1 on x86-64 with AVX2: no value differs in 2,000 random choices of scales, zero
    points and shapes, most of them with all pairs of codes and ties.  One value per vector is refused if the order of a
    and b matters: ONNX Runtime exchanges them in batches of one vector.
    """

    ONNX = (("com.microsoft", "QLinearAdd"),)
    operand_role = "addend"
    named_in_summary = ("first_ratio", "second_ratio")
    stem, orders = "qlinear_add", (47, 48, 122, 49)
    comment = """\
# com.microsoft QLinearAdd, uint8 or int8 (type).  first_ratio = a_scale / y_scale, second_ratio = b_scale / y_scale,
# fixed = y_zero_point - (first_ratio * a_zero_point + second_ratio * b_zero_point): computed once, and their bits are
# the constants.  A product and the sum that contains it are one operation, a fused multiply-add; an interpreter that
# rounds both can give the next code where the sum is nearly half way between two codes."""
    alternatives = {  # noqa: RUF012
        "the multiply-adds are not fused": lambda a, b, y: QLinearAdd.value(a, b, y, lambda p, q, r: p * q + r),
        "the inputs are exchanged": lambda a, b, y: QLinearAdd.value(
            a._replace(code=b.code), b._replace(code=a.code), y
        ),
        "the second term is added last": lambda a, b, y: QLinearAdd.value(b, a, y),
        "the first term is left out": lambda a, b, y: QLinearAdd.value(a._replace(scale=literal(0)), b, y),
        "the second term is left out": lambda a, b, y: QLinearAdd.value(a, b._replace(scale=literal(0)), y),
        "the second term is subtracted": lambda a, b, y: QLinearAdd.value(a, b._replace(scale=-b.scale), y),
        "both inputs are dequantised, added and quantised": lambda a, b, y: (
            (a.dequantised + b.dequantised) / y.scale + number(y.zero_point)
        ),
    }

    @staticmethod
    def value(a: Quantised, b: Quantised, y: Quantised, multiply_add: Callable[..., Expression] = fused) -> Expression:
        """Return the definition."""
        first_ratio, second_ratio = named("first_ratio", a.scale / y.scale), named("second_ratio", b.scale / y.scale)
        zero_points = multiply_add(first_ratio, number(a.zero_point), second_ratio * number(b.zero_point))
        fixed = named("fixed", number(y.zero_point) - zero_points)
        return multiply_add(first_ratio, number(a.code), multiply_add(second_ratio, number(b.code), fixed))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose inputs have fitting shapes, or one of which is a constant."""
        layer = cls(**cls.read_fields(node))
        for name, ratio in zip("ab", layer.numbers().values(), strict=False):
            node.normal(np.atleast_1d(ratio), f"ratio {name}_scale / y_scale")
        layer.require_int32(node)
        if layer.size == 1 and (layer.table() != replace(layer, a=layer.b, b=layer.a).table().T).any():
            raise node.refusal(
                "adds one value per vector, in an order that ONNX Runtime takes from the number of vectors",
                "several values per vector, or other scales",
            )
        return layer

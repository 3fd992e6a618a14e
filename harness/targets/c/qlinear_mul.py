"""QLinearMul in C."""

from __future__ import annotations

from collections.abc import Callable

from harness.operators.qlinear_mul import QLinearMul
from harness.targets.c.code_pairs import CodePairsLowering


class QLinearMulLowering(CodePairsLowering[QLinearMul]):
    """An integer product, a multiplication and an addition per value (kernels/c/qlinear_mul.h)."""

    operator = QLinearMul
    headers = ("qlinear_mul.h",)
    kernel = "qlinear_mul"

    def value(self, layer: QLinearMul, a: str, b: str, number: Callable[[str], str]) -> str:  # noqa: ARG002 - no fact
        """Return (a - za) * (b - zb) * m + zy."""
        product = f"({a} - ({number('a_zero_point')})) * ({b} - ({number('b_zero_point')}))"
        return f"(float)({product}) * {number('multiplier')} + (float){number('y_zero_point')}"

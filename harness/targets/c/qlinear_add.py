"""QLinearAdd in C."""

from __future__ import annotations

from collections.abc import Callable

from harness.operators.qlinear_add import QLinearAdd
from harness.targets.c.code_pairs import CodePairsLowering


class QLinearAddLowering(CodePairsLowering[QLinearAdd]):
    """Two fused multiply-adds per value (kernels/c/qlinear_add.h)."""

    operator = QLinearAdd
    headers = ("qlinear_add.h",)
    kernel = "qlinear_add"

    def value(self, layer: QLinearAdd, a: str, b: str, number: Callable[[str], str]) -> str:  # noqa: ARG002 - no fact
        """Return fma(ra, a, fma(rb, b, c))."""
        second = f"fused({number('second_ratio')}, (float){b}, {number('fixed')})"
        return f"fused({number('first_ratio')}, (float){a}, {second})"

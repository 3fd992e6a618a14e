"""Div in C."""

from __future__ import annotations

from harness.operators.div import Div
from harness.targets.c.binary import BinaryLowering


class DivLowering(BinaryLowering[Div]):
    """One division per value (kernels/c/div.h)."""

    operator = Div
    headers = ("div.h",)
    kernel = "div_float32"
    symbol = "/"
    first = "dividend"

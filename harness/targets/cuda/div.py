"""Div in CUDA."""

from __future__ import annotations

from harness.operators.div import Div
from harness.targets.cuda.binary import BinaryLowering


class DivLowering(BinaryLowering[Div]):
    """One division per value."""

    operator = Div
    operation = "divide"

"""Shrink (com.example), float32, as that of ONNX: x[n] + bias below -lambd, x[n] - bias above lambd, else 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, select
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Shrink(Pointwise):
    """y[n] = x[n] + bias below -lambd, x[n] - bias above lambd, else 0."""

    ONNX = (("com.example", "Shrink"),)
    defaults = {"bias": 0.0, "lambd": 0.5}  # noqa: RUF012

    bias: np.float32
    lambd: np.float32

    @staticmethod
    def value(x: Expression, bias: Expression, lambd: Expression) -> Expression:
        """Return the definition."""
        return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0))

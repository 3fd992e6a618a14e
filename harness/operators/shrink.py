"""Shrink (ONNX), float32: numbers nearer to zero, and 0 in the place of small ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.operators.exact.expression import Expression, select
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class Shrink(Pointwise):
    """y[n] = x[n] + bias below -lambd, x[n] - bias above lambd, else 0."""

    ONNX = (("", "Shrink"),)
    defaults: ClassVar[Mapping[str, float]] = {"lambd": 0.5, "bias": 0.0}

    lambd: np.float32
    bias: np.float32

    @staticmethod
    def value(x: Expression, lambd: Expression, bias: Expression) -> Expression:
        """Return the definition."""
        return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0))

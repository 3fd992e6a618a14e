"""ThresholdedRelu (ONNX), float32: x[n] if x[n] > alpha, else 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, select
from harness.operators.pointwise import Pointwise


@dataclass(frozen=True, eq=False)
class ThresholdedRelu(Pointwise):
    """y[n] = x[n] if x[n] > alpha, else 0."""

    ONNX = (("", "ThresholdedRelu"),)
    defaults = {"alpha": 1.0}  # noqa: RUF012

    alpha: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression) -> Expression:
        """Return the definition."""
        return select(x > alpha, x, 0)

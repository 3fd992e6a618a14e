"""Elu (ONNX), float32: alpha * (exp(x[n]) - 1) below 0, else x[n]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, select
from harness.operators.exact.functions import exponential, exponential_minus_one
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class Elu(Approximated):
    """y[n] = alpha * (exp(x[n]) - 1) if x[n] < 0, else x[n].

    exp(x) - 1 has no cancellation: a small x keeps its digits, which ONNX Runtime loses.
    """

    ONNX = (("", "Elu"),)
    largest_ulp = 2
    largest_difference = 1.5 * 2.0**-24  # ONNX Runtime computes exp(x), then subtracts 1
    factors = ("alpha",)
    same_from = 0.0
    defaults = {"alpha": 1.0}  # noqa: RUF012
    interval = (-25.0, 10.0)
    places = (-24.0, -17.32868, -0.3465736)
    alternatives = {  # noqa: RUF012
        "negative numbers become 0": lambda x, alpha: select(x < 0, 0, x),  # noqa: ARG005
        "negative numbers are multiplied by alpha": lambda x, alpha: select(x < 0, alpha * x, x),
        "1 is not subtracted": lambda x, alpha: select(x < 0, alpha * exponential(x), x),
        "1 is subtracted from the rounded exp(x)": lambda x, alpha: select(x < 0, alpha * (exponential(x) - 1), x),
    }

    alpha: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression) -> Expression:
        """Return the definition; -0 stays."""
        return select(x < 0, alpha * exponential_minus_one(x), x)

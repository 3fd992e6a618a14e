"""Activations of neural networks (ONNX), float32: functions of one value with steps, and with exp and tanh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, Operand, named, select
from harness.operators.exact.functions import (
    clamped,
    exponential,
    exponential_minus_one,
)
from harness.operators.node import Node
from harness.operators.pointwise import Approximated, Pointwise, Range, refuse_zero_times_infinity
from harness.operators.tensor import Tensor

ALPHA, BETA = np.float32(1 / 6), np.float32(0.5)
"""Those of the HardSigmoid in HardSwish."""


def hard_sigmoid(x: Expression, alpha: Operand, beta: Operand) -> Expression:
    """Return max(0, min(1, alpha * x + beta)); a NaN gives a NaN."""
    v = named("v", x * alpha + beta)
    w = named("w", select(v > 1, 1.0, v))
    return select(w < 0, 0.0, w)


@dataclass(frozen=True, eq=False)
class HardSigmoid(Pointwise):
    """y[n] = max(0, min(1, alpha * x[n] + beta)); ONNX Runtime 1.31 gives the same bits for all inputs."""

    ONNX = (("", "HardSigmoid"),)
    defaults = {"alpha": 0.2, "beta": 0.5}  # noqa: RUF012
    places = (-2.5, 2.5)
    alternatives = {  # noqa: RUF012
        "both bounds are left out": lambda x, alpha, beta: x * alpha + beta,
        "beta is added first: alpha * (x + beta)": lambda x, alpha, beta: hard_sigmoid(x + beta, alpha, 0.0),
    }

    alpha: np.float32
    beta: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression, beta: Expression) -> Expression:
        """Return the definition."""
        return hard_sigmoid(x, alpha, beta)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:
        """Return the derived range; refuse 0 times infinity, and a sum that can be -0."""
        refuse_zero_times_infinity(node, source, numbers["alpha"])
        if numbers["beta"] == 0 and np.signbit(numbers["beta"]):  # the maximum of 0 and -0 can be either
            raise node.refusal("beta is -0.0", "0.0")
        return super().range_of(node, source, numbers)


@dataclass(frozen=True, eq=False)
class HardSwish(Pointwise):
    """y[n] = x[n] * max(0, min(1, x[n] * float32(1 / 6) + 0.5)); ONNX Runtime 1.31 gives the same bits for all inputs.

    A division by 6 gives other bits.
    """

    ONNX = (("", "HardSwish"),)
    places = (-3.0, 3.0)
    alternatives = {  # noqa: RUF012
        "it is (x * min(max(x + 3, 0), 6)) / 6": lambda x: (x * clamped(x + 3, 0.0, 6.0)) / 6,
        "-0 becomes 0": lambda x: x * hard_sigmoid(x, ALPHA, BETA) + 0,
    }

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return x * hard_sigmoid(x, ALPHA, BETA)


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


@dataclass(frozen=True, eq=False)
class Shrink(Pointwise):
    """y[n] = x[n] + bias below -lambd, x[n] - bias above lambd, else 0."""

    ONNX = (("", "Shrink"),)
    defaults = {"lambd": 0.5, "bias": 0.0}  # noqa: RUF012

    lambd: np.float32
    bias: np.float32

    @staticmethod
    def value(x: Expression, lambd: Expression, bias: Expression) -> Expression:
        """Return the definition."""
        return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0))


@dataclass(frozen=True, eq=False)
class Celu(Approximated):
    """y[n] = max(0, x[n]) + min(0, alpha * (exp(x[n] / alpha) - 1))."""

    ONNX = (("", "Celu"),)
    largest_ulp = 4
    largest_difference = 2.0**-23  # 6.0e-8 was measured: ONNX Runtime subtracts 1 from exp(x)
    factors = ("alpha",)
    defaults = {"alpha": 1.0}  # noqa: RUF012

    alpha: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression) -> Expression:
        """Return the definition."""
        return select(x < 0, alpha * exponential_minus_one(select(x > 0, 0, x) / alpha), x)


@dataclass(frozen=True, eq=False)
class Selu(Approximated):
    """y[n] = gamma * x[n] above 0, else gamma * (alpha * (exp(x[n]) - 1))."""

    ONNX = (("", "Selu"),)
    largest_ulp = 4
    largest_difference = 2.0**-22  # 1.4e-7 was measured: ONNX Runtime subtracts 1 from exp(x)
    factors = ("alpha", "gamma")
    defaults = {"alpha": 1.6732632, "gamma": 1.050701}  # noqa: RUF012

    alpha: np.float32
    gamma: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression, gamma: Expression) -> Expression:
        """Return the definition."""
        return select(x > 0, gamma * x, gamma * (alpha * exponential_minus_one(select(x > 0, 0, x))))


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

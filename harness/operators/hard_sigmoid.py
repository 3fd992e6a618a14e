"""HardSigmoid (ONNX), float32: max(0, min(1, alpha * x[n] + beta))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.operators.exact.expression import Expression, Operand, named, select
from harness.operators.node import Node
from harness.operators.pointwise import Pointwise, Range, refuse_zero_times_infinity
from harness.operators.tensor import Tensor


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

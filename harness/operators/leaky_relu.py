"""LeakyRelu (ONNX), float32: alpha * x[n] below 0, else x[n]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability
from harness.operators.exact.expression import Expression, select
from harness.operators.float_errors import Perturbed
from harness.operators.node import Node
from harness.operators.pointwise import LEAST_NORMAL, Pointwise, Range, errors_of, refuse_zero_times_infinity
from harness.operators.tensor import Tensor


def flushed(y: Expression) -> Expression:
    """Return y, but zero of its sign for a subnormal number."""
    return select(abs(y) < LEAST_NORMAL, y * 0, y)


@dataclass(frozen=True, eq=False)
class LeakyRelu(Pointwise):
    """y[n] = alpha * x[n] if x[n] < 0, else x[n]."""

    ONNX = (("", "LeakyRelu"),)
    errors = Ability(lambda layer: replace(errors_of(layer), slopes=layer.slopes_within))
    defaults = {"alpha": float(np.float32(0.01))}  # noqa: RUF012
    interval = (-1.0, 1.0)
    alternatives = {  # noqa: RUF012
        "negative numbers become 0": lambda x, alpha: select(x < 0, 0, x),  # noqa: ARG005
        "a subnormal product is flushed to zero": lambda x, alpha: select(x < 0, flushed(alpha * x), x),
    }

    alpha: np.float32

    @staticmethod
    def value(x: Expression, alpha: Expression) -> Expression:
        """Return the definition; -0 stays."""
        return select(x < 0, alpha * x, x)

    @classmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:
        """Return the derived range; refuse 0 times infinity."""
        refuse_zero_times_infinity(node, source, numbers["alpha"])
        return super().range_of(node, source, numbers)

    def slopes_within(self, at: Perturbed) -> Array:
        """Return 1 above 0 and the factor below."""
        return at.sides(float(self.alpha))

"""QLinearLeakyRelu (com.microsoft), uint8 or int8, with a constant factor `alpha` for negative numbers.

d = float32(x_scale * (x - x_zero_point))
v = float32((d if d >= 0, else float32(alpha * d)) / y_scale)
y = saturate(round_half_even(v) + y_zero_point)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators import softfloat, text
from harness.operators.base import Constants
from harness.operators.exact import bits_of, ordered
from harness.operators.fault_models import FaultModel, Single
from harness.operators.leaky_relu import LeakyRelu
from harness.operators.lookup import Lookup, fragment
from harness.operators.node import Node

SELECTED = "alpha * x below 0, else x"
FRAGMENT = fragment(
    "qlinear_leaky_relu",
    45,
    "QLinearLeakyRelu",
    """\
# d = x_scale * (code - x_zero_point), then v = (alpha * d if d < 0, else d) / y_scale, each of the three one IEEE
# float32 operation; the entry is v, rounded half to even, and y_zero_point, clamped.""",
    "\n    alpha: scalar,",
)


@dataclass(frozen=True, eq=False)
class QLinearLeakyRelu(Lookup):
    """A quantised LeakyRelu; `alpha` is finite.

    Measured with ONNX Runtime 1.31.1 on x86-64: 0 of 1,152,000 entries of tables differ, over 4,500 random choices of
    scales, zero points and alpha; with x_scale / y_scale divided first, 973 differ.
    """

    ONNX = (("com.microsoft", "QLinearLeakyRelu"),)
    formula = """\
d = x_scale * (x - x_zero_point)                               in float32
v = (d if d >= 0, else alpha * d) / y_scale                    in float32; alpha is 0.01 if not given
y = round_half_even(v) + y_zero_point                          clamped to uint8 or int8"""
    fragments = (FRAGMENT,)

    alpha: np.float32

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of codes of any shape."""
        read = cls.read_fields(node)
        alpha = np.float32(node.attributes({"alpha": LeakyRelu.defaults["alpha"]})["alpha"])
        if not np.isfinite(alpha):
            raise node.refusal(f"alpha is {alpha}", "a finite number")
        return cls(**read, alpha=alpha)

    def function(self, values: Single) -> Single:
        """Return numbers below 0 times alpha, others as they are."""
        product = softfloat.product(bits_of(values), bits_of(np.atleast_1d(self.alpha))).view(np.float32)
        return np.where(ordered(values) < 0, product, values)

    def numbers(self) -> Constants:
        """Return the factor."""
        return {"alpha": self.alpha}

    def summary(self) -> tuple[str, ...]:
        """Return both quantisations and the factor."""
        return (*super().summary(), f"alpha {text.floats(self.alpha)}")

    def wrong_functions(self, values: Single) -> Iterator[tuple[str, str, Single]]:
        """Yield wrong comparisons and factors, and other orders of the operations."""
        below, product = values < 0, values * self.alpha
        yield "negative numbers are kept", SELECTED, values
        yield "negative numbers become 0", SELECTED, np.where(below, np.float32(0), values)
        yield "positive numbers are multiplied instead", SELECTED, np.where(below, values, product)
        yield "all numbers are multiplied", SELECTED, product
        yield (
            "alpha is the default",
            SELECTED,
            np.where(below, values * np.float32(LeakyRelu.defaults["alpha"]), values),
        )

    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield those of the base class, and a product with the ratio of the scales."""
        yield from super().wrong_tables()
        differences, ratio = self.x.differences(self.dtype), self.x.scale / self.y.scale
        v = differences * np.where(differences < 0, self.alpha * ratio, ratio)
        cause = "the scales are divided first: x_scale / y_scale"
        yield FaultModel(cause, "x_scale, alpha, division by y_scale, each rounded", self.codes.nearest(v))

"""Clip (ONNX), float32, with constant bounds; a bound that is not given is the largest finite number.

v[n] = low if x[n] < low, else x[n]        the input stays where it equals a bound: -0 is not 0
y[n] = high if v[n] > high, else v[n]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Comparison, Constants, Evaluate, fields
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "clip_float32",
    71,
    """\
# ONNX Clip: two comparisons, which round nothing; x stays where it equals a bound.
fragment clip_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    low: scalar, high: scalar,              # float32
    type: string)
-> (y: tensor<scalar>)
{
    raised = select(x < low, low, x);
    y = select(raised > high, high, raised);
}
""",
)


@dataclass(frozen=True, eq=False)
class Clip(Comparison):
    """The input, or the bound beyond which it is; `low` is at most `high`, and both are finite."""

    ONNX = (("", "Clip"),)
    formula = """\
v[n] = min if x[n] < min, else x[n]                            x stays where it equals a bound, -0 too
y[n] = max if v[n] > max, else v[n]                            without min or max it is -+3.4028235e+38"""
    roles = ("x", "min", "max")
    fragments = (FRAGMENT,)

    low: np.float32
    high: np.float32

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose bounds are constant inputs, or attributes as before opset 11."""
        node.require_inputs(1, 3)
        source = node.activation(0, [FLOAT32])
        attributes = node.attributes({"min": -LARGEST, "max": LARGEST})
        low, high = (_bound(node, position, name, attributes[name]) for position, name in ((1, "min"), (2, "max")))
        if low == 0 and np.signbit(low):  # ONNX Runtime 1.31 merges it with a Relu before, and writes -0 for 0
            raise node.refusal("min is -0.0", "0.0")
        if low > high:
            raise node.refusal(f"min is {low}, above max, {high}", "a min of max or less")
        reached = np.clip(np.array([-source.bound, source.bound], np.float32), low, high)
        bound = float(np.abs(reached).max())
        negative_zero = source.negative_zero or bool(high == 0 and np.signbit(high))
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, low=low, high=high)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield faults of the bounds: missing, exchanged or misread."""
        [x] = inputs
        right = f"{text.floats(self.low)} to {text.floats(self.high)}"
        least, largest = np.float32(-LARGEST), np.float32(LARGEST)
        others = {
            "the lower bound is left out": (least, self.high),
            "the upper bound is left out": (self.low, largest),
            "both bounds are left out": (least, largest),
            "the lower bound is 0": (np.float32(0), self.high),
            "the bytes of the bounds are in the other order": (self.low.byteswap(), self.high.byteswap()),
        }
        for cause, (low, high) in others.items():
            yield FaultModel(cause, right, np.where(x < low, low, np.where(x > high, high, x)))

    def prepare(self) -> Evaluate:
        """Return the function that compares floats as integers; both zeros are equal there."""
        low, high = ordered(np.array([self.low, self.high], np.float32))

        def clip(x: Array) -> Array:
            keys = ordered(x)
            return np.where(keys < low, self.low, np.where(keys > high, self.high, x))

        return clip

    def boundaries(self) -> tuple[Array, Array]:
        """Return the bounds and the adjacent numbers; nothing is rounded."""
        keys = np.unique(ordered(np.array([self.low, self.high], np.float32))[:, None] + np.arange(-1, 2))
        neighbours = from_ordered(keys)
        return neighbours[np.isfinite(neighbours)], np.empty(0, np.float32)

    def representable(self) -> tuple[float, float]:
        """Return the bounds and a tenth of their distance more, at least 1; instead of one not given, the default's."""
        low, high = super().representable()
        low = float(self.low) if self.low > -LARGEST else min(low, float(self.high) - 1)
        high = float(self.high) if self.high < LARGEST else max(high, low + 1)
        margin = max((high - low) / 10, 1.0)
        return max(low - margin, -LARGEST), min(high + margin, LARGEST)

    def constants(self) -> Constants:
        """Return both bounds."""
        return {"low": self.low, "high": self.high}

    def summary(self) -> tuple[str, ...]:
        """Return both bounds."""
        return (f"{text.floats(self.low)} to {text.floats(self.high)}",)


def _bound(node: Node, position: int, name: str, attribute: float) -> np.float32:
    """Return a bound from its input or its attribute."""
    value = node.single(position, name, [FLOAT32]) if node.has(position) else attribute
    if not np.isfinite(value):
        raise node.refusal(f"{name} is {value}", "a finite number")
    return np.float32(value)

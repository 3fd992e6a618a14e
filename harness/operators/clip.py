"""Clip (ONNX), float32 or codes, with constant bounds; a bound that is not given is the largest finite number or code.

v[n] = low if x[n] < low, else x[n]        the input stays where it equals a bound: -0 is not 0
y[n] = high if v[n] > high, else v[n]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Comparison, Constants, Evaluate, Layer, fields, limits
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel, as_other_type
from harness.operators.node import Node
from harness.operators.relu import Relu
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32, INT8, LARGEST, UINT8
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
CODES = Fragment(
    "clip_codes",
    69,
    """\
# ONNX Clip of uint8 or int8 codes: two comparisons.
fragment clip_codes(
    x: tensor<scalar>,                      # codes (vectors, N)
    low: integer, high: integer,
    type: string)
-> (y: tensor<scalar>)
{
    y = clamp(x, scalar(low), scalar(high));
}
""",
)


@dataclass(frozen=True, eq=False)
class Clip(Comparison):
    """The input, or the bound beyond which it is; `low` is at most `high`, both are finite and of the input's type."""

    ONNX = (("", "Clip"),)
    formula = """\
v[n] = min if x[n] < min, else x[n]                            x stays where it equals a bound, -0 too
y[n] = max if v[n] > max, else v[n]                            without it -+3.4028235e+38, or the last code"""
    roles = ("x", "min", "max")
    fragments = (FRAGMENT, CODES)

    low: Any
    high: Any

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that bounds are single values."""
        super().rules(node)
        for bound in node.given_inputs[1:]:
            node.same_type(bound, node.y).equals(bound.rank, 0)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose bounds are constant inputs, or attributes as before opset 11."""
        node.require_inputs(1, 3)
        source = node.activation(0, [FLOAT32, UINT8, INT8])
        attributes = node.attributes({"min": -LARGEST, "max": LARGEST})
        if source.dtype != FLOAT32:
            attributes = dict(zip(("min", "max"), limits(source.dtype).values(), strict=True))
        low, high = (
            _bound(node, position, name, source.dtype, attributes[name]) for position, name in ((1, "min"), (2, "max"))
        )
        if low == 0 and np.signbit(low):  # ONNX Runtime 1.31 merges it with a Relu before, and writes -0 for 0
            raise node.refusal("min is -0.0", "0.0")
        if low > high:
            raise node.refusal(f"min is {low}, above max, {high}", "a min of max or less")
        if source.dtype != FLOAT32:
            return cls(**fields(node, [source], source.shape, source.dtype), low=low, high=high)
        reached = np.clip(np.array([-source.bound, source.bound], np.float32), low, high)
        bound = float(np.abs(reached).max())
        negative_zero = source.negative_zero or bool(high == 0 and np.signbit(high))
        least = float(max(low, -high, source.least if low <= -source.least and high >= source.least else 0, 0))
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero, least=least)
        return cls(**written, low=low, high=high)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield faults of the bounds: missing, exchanged or misread."""
        [x] = inputs
        if self.of_codes:
            yield from self._fault_models_of_codes(x)
            return
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

    def _fault_models_of_codes(self, x: Array) -> Iterator[FaultModel]:
        [right] = self.summary()
        yield FaultModel("the lower bound is left out", right, np.minimum(x, self.high))
        yield FaultModel("the upper bound is left out", right, np.maximum(x, self.low))
        yield FaultModel("both bounds are left out", right, x)
        cause = "codes are compared as the other 8-bit type"
        misread, low, high = (as_other_type(np.atleast_1d(values)) for values in (x, self.low, self.high))
        yield FaultModel(cause, right, as_other_type(np.minimum(np.maximum(misread, low), high)))

    def prepare(self) -> Evaluate:
        """Return the comparisons; a number that equals a bound stays, and so does NaN."""
        if self.of_codes:
            return lambda x: np.clip(x, self.low, self.high)
        return lambda x: np.where(x < self.low, self.low, np.where(x > self.high, self.high, x))

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

    def require_unfused(self, node: Node, writer: Callable[[str], Layer | None]) -> None:
        """Refuse a min of codes after Relu: ONNX Runtime 1.31 merges both and ends with an error."""
        if self.of_codes and node.has(1) and isinstance(writer(self.sources[0]), Relu):
            raise node.refusal("clips codes of a Relu, which ONNX Runtime cannot load", "a Clip alone, with a min of 0")

    def constants(self) -> Constants:
        """Return both bounds."""
        number = int if self.of_codes else np.float32
        return {"low": number(self.low), "high": number(self.high)}

    def summary(self) -> tuple[str, ...]:
        """Return both bounds."""
        if self.of_codes:
            return (f"{self.low} to {self.high}",)
        return (f"{text.floats(self.low)} to {text.floats(self.high)}",)


def _bound(node: Node, position: int, name: str, dtype: np.dtype[Any], attribute: float) -> Any:
    """Return a bound from its input or its attribute."""
    value = node.single(position, name, [dtype]) if node.has(position) else attribute
    if not np.isfinite(value):
        raise node.refusal(f"{name} is {value}", "a finite number")
    return dtype.type(value)

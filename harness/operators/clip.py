"""Clip (ONNX), float32 or codes, with constant bounds, by default the ends of the finite numbers or codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.operators import text
from harness.operators.base import Ability, Constants, Layer, fields, limits
from harness.operators.counters import DEFAULT_BOX, Stimuli
from harness.operators.elements import Terms
from harness.operators.exact.expression import Expression, literal, named, select
from harness.operators.integer_elements import IntegerElements, reads_integers
from harness.operators.node import Node
from harness.operators.relu import Comparison, Relu
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32, INT8, LARGEST, UINT8, WIDE_INTEGERS, integer_limits
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
    text = Comparison.text.but(
        """\
v[n] = min if x[n] < min, else x[n]                            x stays where it equals a bound, -0 too
y[n] = max if v[n] > max, else v[n]                            without it -+3.4028235e+38, or the last code""",
        ("x", "min", "max"),
        (FRAGMENT, CODES),
        facts_of=lambda layer: dict(layer.constants()),
        summary_of=lambda layer: (" to ".join(map(str if layer.of_codes else text.floats, (layer.low, layer.high))),),
    )
    names = ("x", "low", "high")
    constant_roles = ("low", "high")
    stimuli = Ability(lambda layer: Stimuli(boundaries=layer.boundaries, representable=layer.representable))
    alternatives = {  # noqa: RUF012
        "the lower bound is left out": lambda x, low, high: select(x > high, high, x),  # noqa: ARG005
        "the upper bound is left out": lambda x, low, high: select(x < low, low, x),  # noqa: ARG005
        "both bounds are left out": lambda x, low, high: x,  # noqa: ARG005
        "the lower bound is 0": lambda x, low, high: Clip.value(x, literal(0), high),  # noqa: ARG005
    }

    low: Any
    high: Any

    @staticmethod
    def value(x: Expression, low: Expression, high: Expression) -> Expression:
        """Return the definition; a number that equals a bound stays, and so does NaN."""
        raised = named("v", select(x < low, low, x))
        return select(raised > high, high, raised)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that bounds are single values."""
        super().rules(node)
        for bound in node.given_inputs[1:]:
            node.same_type(bound, node.y).equals(bound.rank, 0)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node whose bounds are constant inputs, or attributes as before opset 11."""
        node.require_inputs(1, 3)
        if reads_integers(node, WIDE_INTEGERS):
            return _of_integers(node)
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
        if source.dtype != FLOAT32 and node.has(1) and isinstance(node.writer(source.name), Relu):
            # ONNX Runtime 1.31 merges both and ends with an error
            raise node.refusal("clips codes of a Relu, which ONNX Runtime cannot load", "a Clip alone, with a min of 0")
        if source.dtype != FLOAT32:
            return cls(**fields(node, [source], source.shape, source.dtype), low=low, high=high)
        reached = np.clip(np.array([-source.bound, source.bound], np.float32), low, high)
        bound = float(np.abs(reached).max())
        negative_zero = source.negative_zero or bool(high == 0 and np.signbit(high))
        least = float(max(low, -high, source.least if low <= -source.least and high >= source.least else 0, 0))
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero, least=least)
        return cls(**written, low=low, high=high)

    @property
    def fixed(self) -> Terms:
        """Both bounds."""
        return (None, np.asarray(self.low), np.asarray(self.high))

    @property
    def places(self) -> tuple[float, ...]:
        """The bounds."""
        return (float(self.low), float(self.high))

    def representable(self) -> tuple[float, float]:
        """Return the bounds and a tenth of their distance more, at least 1; instead of one not given, the default's."""
        low, high = DEFAULT_BOX
        low = float(self.low) if self.low > -LARGEST else min(low, float(self.high) - 1)
        high = float(self.high) if self.high < LARGEST else max(high, low + 1)
        margin = max((high - low) / 10, 1.0)
        return max(low - margin, -LARGEST), min(high + margin, LARGEST)

    def constants(self) -> Constants:
        """Return both bounds."""
        number = int if self.of_codes else np.float32
        return {"low": number(self.low), "high": number(self.high)}


def _of_integers(node: Node) -> Layer:
    """Return the layer of integers that are no codes; a bound that is left out is the end of their type."""
    source = node.activation(0, WIDE_INTEGERS)
    node.attributes({})
    ends = enumerate(zip(("min", "max"), integer_limits(source.dtype), strict=True), 1)
    bounds = [_bound(node, position, name, source.dtype, end) for position, (name, end) in ends]
    if bounds[0] > bounds[1]:
        raise node.refusal(f"min is {bounds[0]}, above max, {bounds[1]}", "a min of max or less")
    return IntegerElements.of_operands(node, [source], (None, *(np.array([bound]) for bound in bounds)))


def _bound(node: Node, position: int, name: str, dtype: np.dtype[Any], attribute: float) -> Any:
    """Return a bound from its input or its attribute."""
    value = node.single(position, name, [dtype]) if node.has(position) else attribute
    if not np.isfinite(value):
        raise node.refusal(f"{name} is {value}", "a finite number")
    return dtype.type(value)

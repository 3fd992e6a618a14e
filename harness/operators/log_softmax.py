"""LogSoftmax (ONNX), float32, along an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.operators.base import fields
from harness.operators.exact.expression import larger
from harness.operators.exact.functions import exponential, logarithm
from harness.operators.exact.stages import Source, Stage, array, fold
from harness.operators.node import Node
from harness.operators.rows import EXAMPLE, Axes, Rows
from harness.operators.rules import Rules
from harness.operators.softmax import normalised_axes, state_axis
from harness.operators.staged import described
from harness.operators.tensor import FLOAT32, LARGEST


def definition(x: Source, kept: Axes, over: Axes) -> Stage:
    """Return (x - max(x)) - log(the sum of exp(x - max(x)))."""
    value = x[x.axes]
    m = fold("m", kept, over, -np.inf, lambda m: larger(value, m))
    e = array("e", x.axes, exponential(value - m[kept]))
    s = fold("s", kept, over, 0, lambda s: s + e[x.axes])
    z = array("z", kept, logarithm(s[kept]))
    return array("y", x.axes, (value - m[kept]) - z[kept])


@dataclass(frozen=True, eq=False)
class LogSoftmax(Rows):
    """y = (x - m) - log(s), where m is the largest value of a row and s the sum of exp(x - m)."""

    ONNX = (("", "LogSoftmax"),)
    roles = ("x",)
    formula, FRAGMENT = described("LogSoftmax", definition(*EXAMPLE), {})
    fragments = (FRAGMENT,)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that the axis exists."""
        state_axis(node)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node along an axis other than that of the vectors."""
        source, axes = normalised_axes(node)
        count = math.prod(source.shape[axis] for axis in axes)
        bound = (2 * source.bound + math.log(count)) * (1 + 2.0**-16)
        written = fields(node, [source], source.shape, FLOAT32, bound if bound <= LARGEST else math.inf,
                         negative_zero=True)  # fmt: skip
        return cls(**written, axes=tuple(axes))

    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition."""
        return definition(x, kept, over)

"""LogSoftmax (ONNX), float32, along an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from harness.operators.base import fields
from harness.operators.exact.functions import logarithm
from harness.operators.exact.stages import Source, Stage, array
from harness.operators.node import Node
from harness.operators.rows import EXAMPLE, Axes, Rows
from harness.operators.rules import Rules
from harness.operators.softmax import exponentials, normalised_axes, state_axis
from harness.operators.staged import described
from harness.operators.tensor import FLOAT32, LARGEST


def definition(x: Source, kept: Axes, over: Axes) -> Stage:
    """Return (x - max(x)) - log(the sum of exp(x - max(x)))."""
    m, _, s = exponentials(x, kept, over)
    z = array("z", kept, logarithm(s[kept]))
    return array("y", x.axes, (x[x.axes] - m[kept]) - z[kept])


@dataclass(frozen=True, eq=False)
class LogSoftmax(Rows):
    """y = (x - m) - log(s), where m is the largest value of a row and s the sum of exp(x - m)."""

    ONNX = (("", "LogSoftmax"),)
    text = Rows.text.but(**described("LogSoftmax", definition(*EXAMPLE), {}), roles=("x",))

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

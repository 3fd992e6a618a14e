"""LpNormalization (ONNX), float32, along an axis: y = x / the norm of the row, 0 in a row of norm 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

from harness.operators.base import fields
from harness.operators.exact.expression import Expression, equal, select, square_root
from harness.operators.exact.stages import Source, Stage, array
from harness.operators.node import Node
from harness.operators.reduce import Definition, itself, square, total
from harness.operators.rows import EXAMPLE, Axes, Rows
from harness.operators.rules import Rules
from harness.operators.staged import described
from harness.operators.tensor import FLOAT32

Term: TypeAlias = Callable[[Expression], Expression]
LARGEST_RESULT = 2.0
"""Squares can be rounded to subnormal numbers: a root of their sum is at least half of the largest value."""


def _divided(term: Term, root: Term) -> Definition:
    """Return the definition for a root of a sum of terms."""

    def definition(x: Source, kept: Axes, over: Axes) -> Stage:
        s = total(term)(x, kept, over)
        n = array("n", kept, root(s[kept]))
        return array("y", x.axes, select(equal(n[kept], 0), 0, x[x.axes] / n[kept]))

    return definition


@dataclass(frozen=True, eq=False)
class LpNormalization(Rows):
    """Rows are divided by the root of the sum of their squares; the class below has sums of magnitudes."""

    ONNX: ClassVar[tuple[tuple[str, str], ...]] = (("", "LpNormalization"),)
    divided = staticmethod(_divided(square, square_root))
    text = Rows.text.but(**described("LpNormalization", divided(*EXAMPLE), {}), roles=("x",))

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that the axis exists."""
        node.same(node.x, node.y)
        node.given(node.x.rank).then(lambda rank: node.axis(node.attribute("axis", -1), rank))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node along an axis other than that of the vectors; `p` selects the definition."""
        node.require_inputs(1, 1)
        attributes = node.attributes({"axis": -1, "p": 2})
        source, axis = node.activation(0, [FLOAT32]), attributes["axis"]
        rank = 1 + len(source.shape)
        if not -rank <= axis < rank or axis % rank == 0:
            raise node.refusal(f"axis is {axis}", f"axes 1 to {rank - 1}: the values of one vector")
        if attributes["p"] not in NORMS:
            raise node.refusal(f"p is {attributes['p']}", "1 or 2")
        written = fields(node, [source], source.shape, FLOAT32, LARGEST_RESULT, negative_zero=True)
        return NORMS[attributes["p"]](**written, axes=(axis % rank - 1,))  # type: ignore[return-value] # a class below

    def folded(self, x: Source, kept: Axes, over: Axes) -> Stage:
        """Return the definition."""
        return self.divided(x, kept, over)


@dataclass(frozen=True, eq=False)
class MagnitudeNormalization(LpNormalization):
    """Rows are divided by the sum of their magnitudes."""

    ONNX = ()
    divided = staticmethod(_divided(abs, itself))
    text = Rows.text.but(**described("L1Normalization", divided(*EXAMPLE), {}), roles=("x",))


NORMS: Mapping[int, type[LpNormalization]] = {1: MagnitudeNormalization, 2: LpNormalization}

"""LpPool and GlobalLpPool (ONNX), float32, over images (channels, height, width), volumes or sequences.

s = 0, then s = s + |x|^p for the values of the window in the image, row by row      p - 1 products, one addition
y = the root of degree p of s                                                        square roots, or exp(log(s) / p)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.operators.base import Ability, Constants, fields
from harness.operators.exact.expression import Expression, square_root
from harness.operators.exact.functions import exponential, logarithm
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import Stage, array, fold, program
from harness.operators.float_errors import gamma
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.staged import Staged, errors_of
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment
from harness.operators.window import Window
from harness.operators.windowed import Windowed, pooled

LARGEST_DEGREE = 8
FRAGMENT = Fragment(
    "lp_pool_float32",
    89,
    """\
# ONNX LpPool: the root of degree p of the sum of powers of a window, row by row from 0 on; each operation is rounded.
fragment lp_pool_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    window: tensor<integer>,                # int32 (6, axes): image, kernel, stride, dilation, padding before, output
    p: integer,
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)


def _power(x: Expression, p: int) -> Expression:
    """Return |x|^p as the product of the powers p // 2 and p - p // 2."""
    if p == 1:
        return abs(x)
    lower = _power(x, p // 2)
    return lower * (lower if p % 2 == 0 else _power(x, p - p // 2))


def _root(s: Expression, p: int) -> Expression:
    """Return the root of degree p of a number that is not negative."""
    if p == 1:
        return s
    return _root(square_root(s), p // 2) if p % 2 == 0 else exponential(logarithm(s) / p)


@dataclass(frozen=True, eq=False)
class LpPool(Windowed, Staged):
    """The norm of degree `p` of each window."""

    errors = Ability(errors_of)
    ONNX = (("", "LpPool"), ("", "GlobalLpPool"))
    text = Staged.text.but(
        """\
s = 0, then s = s + |x|^p for the values of a window in the image, row by row       in float32, each operation rounded
y = the root of degree p of s: square roots for even degrees, exp(log(s) / p) for others""",
        ("x",),
        (FRAGMENT,),
        facts_of=lambda layer: layer.window.facts() | {"p": layer.p},
        summary_of=lambda layer: (f"kernel {'x'.join(map(str, layer.window.kernel))}", f"p {layer.p}"),
        operations_of=lambda layer: layer.size * layer.window.size * layer.p,
    )

    p: int

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of windows, one channel each."""
        pooled(node)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose windows all have a value of the image."""
        node.require_inputs(1, 1)
        source = node.activation(0, [FLOAT32])
        window, attributes = Window.of_pool(node, source, {}, {"p": 2})
        degree = attributes["p"]
        if not 1 <= degree <= LARGEST_DEGREE:
            raise node.refusal(f"p is {degree}", f"1 to {LARGEST_DEGREE}")
        if not window.inside().any(axis=1).all():
            raise node.refusal("a window lies in the padding alone", "less padding")
        with np.errstate(over="ignore"):
            largest = window.size * np.float64(source.bound) ** degree * (1 + gamma(window.size + degree))
        bound = largest ** (1 / degree) * (1 + 2.0**-12) + 2.0**-18 if largest < LARGEST else np.inf
        shape = (source.shape[0], *window.result(source))
        return cls(**fields(node, [source], shape, FLOAT32, bound), window=window, p=degree)

    def constants(self) -> Constants:
        """Return the window and the degree."""
        return {"window": self.window.table(), "p": self.p}

    def numbers(self) -> Mapping[str, Any]:
        """Return no constants."""
        return {}

    def definition(self) -> Stage:
        """Return the root of the sum of each window."""
        return self._of_degrees(self.p, self.p)

    def _of_degrees(self, power: int, root: int) -> Stage:
        kept, over, value = self.loads()
        s = fold("s", kept, over, 0, lambda s: s + _power(value, power))
        return array("y", kept, _root(s[kept], root))

    def alternatives(self) -> Iterator[tuple[str, Program]]:
        """Yield another degree, and sums without the root."""
        other = 2 if self.p == 1 else 1
        yield f"p is {other}", Program(program(self._of_degrees(other, other)), self.numbers())
        if self.p > 1:
            yield "the root is left out", Program(program(self._of_degrees(self.p, 1)), self.numbers())

"""AveragePool and GlobalAveragePool (ONNX), float32, over images (channels, height, width), volumes or sequences.

s = 0, then s = s + x for the values of the window in the image, row by row      one IEEE 754 addition each
y = s / count                                                                    one IEEE 754 division

`count`, float32, is the number of these values; with count_include_pad that of the values in the image or its padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, fields
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import Source, Stage, array, fold, program
from harness.operators.fault_models import Single
from harness.operators.float_errors import gamma
from harness.operators.node import Node
from harness.operators.region import Region
from harness.operators.rules import Rules
from harness.operators.staged import Staged, errors_of
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment
from harness.operators.window import Window
from harness.operators.windowed import Windowed, pooled

FRAGMENT = Fragment(
    "average_pool_float32",
    88,
    """\
# ONNX AveragePool: the sum of each window, row by row from 0 on, divided by a count; each operation is rounded.
fragment average_pool_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    window: tensor<integer>,                # int32 (6, axes): image, kernel, stride, dilation, padding before, output
    count: tensor<scalar>,                  # float32 (1, positions)
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class AveragePool(Windowed, Staged):
    """The float32 mean of each window; `count` has one divisor for each position, float32 (positions,)."""

    errors = Ability(lambda layer: replace(errors_of(layer), rising=True, linear=layer.linear))
    ONNX = (("", "AveragePool"), ("", "GlobalAveragePool"))
    text = Staged.text.but(
        """\
s = 0, then s = s + x for the values of a window in the image, row by row       in float32, each operation rounded
y = s / count                                                        count: values in the image, or with its padding""",
        ("x",),
        (FRAGMENT,),
        facts_of=lambda layer: layer.window.facts() | {"count": layer.count},
        summary_of=lambda layer: (f"kernel {'x'.join(map(str, layer.window.kernel))}",),
        operations_of=lambda layer: layer.size * layer.window.size,
    )

    count: Single

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of windows, one channel each."""
        pooled(node)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose windows all have a value of the image."""
        node.require_inputs(1, 1)
        source = node.activation(0, [FLOAT32])
        window, attributes = Window.of_pool(node, source, {"count_include_pad": 0})
        count = window.inside().sum(axis=1)
        if not count.all():
            raise node.refusal("a window lies in the padding alone", "less padding")
        if attributes.get("count_include_pad"):
            count = window.padded(node, source, attributes)
        shape = (source.shape[0], *window.result(source))
        largest = window.size * source.bound * (1 + gamma(window.size))
        bound = largest * (1 + gamma(1)) / float(count.min()) if largest < LARGEST else np.inf
        written = fields(node, [source], shape, FLOAT32, bound, negative_zero=True)
        return cls(**written, window=window, count=count.astype(np.float32))

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the windows and the divisors of some rows."""
        rows = super().of_region(region)
        if not rows:
            return rows
        counts = np.broadcast_to(self.count, (self.output.shape[0], self.window.positions)).reshape(-1)
        return {**rows, "count": counts[region.indices(self.size)][: rows["window"].positions]}

    def constants(self) -> Constants:
        """Return the window and the divisors."""
        return {"window": self.window.table(), "count": self.count}

    def numbers(self) -> dict[str, Array]:
        """Return the divisors."""
        return {"count": self.count}

    def definition(self) -> Stage:
        """Return the sum of each window, divided by its count."""
        kept, over, value = self.loads()
        s = fold("s", kept, over, 0, lambda s: s + value)
        return array("y", kept, s[kept] / Source("count", kept[1:], is_constant=True)[kept[1:]])

    def alternatives(self) -> Iterator[tuple[str, Program]]:
        """Yield the divisors with and without padding, and values that are divided before the sum."""
        stages, whole = self.program.stages, np.full_like(self.count, self.window.size)
        inside = self.window.inside().sum(axis=1).astype(np.float32)
        if not (inside == self.count).all():
            yield "padding does not count", Program(stages, {"count": inside})
        elif not (inside == whole).all():
            yield "padding counts", Program(stages, {"count": whole})
        kept, over, value = self.loads()
        count = Source("count", kept[1:], is_constant=True)[kept[1:]]
        shares = fold("y", kept, over, 0, lambda y: y + value / count)
        yield "each value is divided before the sum", Program(program(shares), self.numbers())

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the means of the changes."""
        views = self.window.views(rows[0].reshape(len(rows[0]), self.input.shape[0], -1), 0)
        sums = views.reshape(*views.shape[:2], self.window.positions, -1).sum(axis=3)
        means: Array = sums / self.count
        return means.reshape(len(sums), -1)

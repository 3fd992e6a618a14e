"""AveragePool and GlobalAveragePool (ONNX), float32, over images (channels, height, width) or sequences.

s = 0, then s = s + x for the values of the window in the image, row by row      one IEEE 754 addition each
y = s / count                                                                    one IEEE 754 division

`count`, float32, is the number of these values; with count_include_pad that of the values in the image or its padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, Evaluate, fields
from harness.operators.fault_models import FaultModel, Single
from harness.operators.float_errors import UNDERFLOW, Perturbed, gamma, within_range
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.region import Region
from harness.operators.rules import Rules
from harness.operators.sum_orders import OrderedSum
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment
from harness.operators.window import DEFAULTS, Window
from harness.operators.windowed import Windowed, pooled

FRAGMENT = Fragment(
    "average_pool_float32",
    88,
    """\
# ONNX AveragePool: the sum of each window, row by row from 0 on, divided by a count; each operation is rounded.
fragment average_pool_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    window: tensor<integer>,                # int32 (6, 2): image, kernel, stride, dilation, padding before, output
    count: tensor<scalar>,                  # float32 (1, positions)
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)
ORDER = "the values of the window are added row by row from 0 on, then divided by their number"


@dataclass(frozen=True, eq=False)
class AveragePool(Windowed):
    """The float32 mean of each window; `count` has one divisor for each position, float32 (positions,)."""

    rising = True
    fused, fused_inputs = ("mean", "QLinearAveragePool"), 1
    ONNX = (("", "AveragePool"), ("", "GlobalAveragePool"))
    formula = """\
s = 0, then s = s + x for the values of a window in the image, row by row       in float32, each operation rounded
y = s / count                                                        count: values in the image, or with its padding"""
    roles = ("x",)
    fragments = (FRAGMENT,)

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
        if node.operator == "GlobalAveragePool":
            node.attributes({})
            window = Window.of_image(node, source)
            count = np.array([window.size])
        else:
            attributes = node.attributes(DEFAULTS | {"ceil_mode": 0, "count_include_pad": 0})
            window = Window.of_pooling(node, source, attributes)
            inside = window.inside().sum(axis=(2, 3)).reshape(-1)
            if not inside.all():
                raise node.refusal("a window lies in the padding alone", "less padding")
            count = window.padded(node, source, attributes) if attributes["count_include_pad"] else inside
        shape = (source.shape[0], *window.output[3 - len(source.shape) :])
        largest = window.size * source.bound * (1 + gamma(window.size))
        bound = largest * (1 + gamma(1)) / float(count.min()) if largest < LARGEST else np.inf
        written = fields(node, [source], shape, FLOAT32, bound, negative_zero=True)
        return cls(**written, window=window, count=count.astype(np.float32))

    def of_region(self, region: Region) -> dict[str, Any]:
        """Return the windows and the divisors of some rows."""
        found = super().of_region(region)
        if not found:
            return found
        counts = np.broadcast_to(self.count, (self.output.shape[0], self.window.positions)).reshape(-1)
        return {**found, "count": counts[region.indices(self.size)][: found["window"].positions]}

    @property
    def operations(self) -> int:
        """One for each value of each window."""
        return self.size * self.window.size

    def constants(self) -> Constants:
        """Return the window and the divisors."""
        return {"window": self.window.table(), "count": self.count}

    def facts(self) -> dict[str, Any]:
        """Return the facts of the window, and the divisors."""
        return self.window.facts() | {"count": self.count}

    def summary(self) -> tuple[str, ...]:
        """Return the window."""
        return (f"kernel {'x'.join(map(str, self.window.kernel))}",)

    def prepare(self) -> Evaluate:
        """Return the function that computes each operation as one of NumPy's in float32, which IEEE 754 determines."""
        return lambda x: self._divided(self._sums(self._views(x)))

    def _views(self, x: Array) -> Array:
        """Return the values of windows, (n, channels, *output, *kernel); 0 outside the image changes no sum."""
        return self.window.views(x.reshape(len(x), self.input.shape[0], -1), 0)

    @staticmethod
    def _sums(views: Array) -> Single:
        sums: Single = np.zeros(views.shape[:4], np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for place in np.ndindex(views.shape[4:]):
                sums = sums + views[..., *place]
        return sums

    def _divided(self, sums: Array, count: Array | None = None) -> Array:
        divisors = (self.count if count is None else count).reshape(self.window.output)
        quotients: Array = sums / divisors
        return quotients.astype(np.float32).reshape(len(sums), -1)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the means of the changes."""
        sums = self._views(rows[0]).sum(axis=(4, 5))
        means: Array = sums / self.count.reshape(self.window.output)
        return means.reshape(len(sums), -1)

    def change(self, at: Perturbed) -> Array:
        """Return the means of the errors."""
        return self.linear(at.errors)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of two orders of the sum of |x|, one of which may multiply by 1 / count."""
        magnitudes = self._views(np.abs(inputs[0].astype(np.float64))).sum(axis=(4, 5))
        means = (magnitudes / self.count.reshape(self.window.output)).reshape(output.shape)
        bound = (gamma(self.window.size) + gamma(self.window.size + 1)) * means + UNDERFLOW
        return within_range(bound, magnitudes.reshape(output.shape))

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of windows, which begin at 0, so that none is -0."""
        views = self._views(inputs[0])
        terms = np.moveaxis(views.reshape(*views.shape[:4], -1), 4, 0)
        return OrderedSum(terms, lambda sums: self._divided(sums + np.float32(0)))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders, divisors, windows and roundings."""
        views = self._views(inputs[0])
        sums, count, one = self._sums(views), self.count, np.ones_like(self.count)
        parts = views.reshape(*views.shape[:4], -1)
        inside = self.window.inside().sum(axis=(2, 3)).reshape(-1).astype(np.float32)
        with np.errstate(all="ignore"):
            shares = views / count.reshape(*self.window.output, 1, 1)
            exact = self._divided(parts.sum(axis=4, dtype=np.float64), count.astype(np.float64))
            inverse = (1 / count).reshape(self.window.output)
            outputs = {
                "the mean is in double precision": exact,
                "the sum is multiplied by 1 / count": self._divided(sums * inverse, one),
                "each value is divided before the sum": self._divided(self._sums(shares), one),
                "the sum is not divided": self._divided(sums, one),
            }
            if min(self.window.kernel) > 1:
                outputs["the sum goes column by column"] = self._divided(self._sums(views.swapaxes(4, 5)))
            if not (inside == count).all():
                outputs["padding does not count"] = self._divided(sums, inside)
            elif not (inside == self.window.size).all():
                outputs["padding counts"] = self._divided(sums, np.full_like(count, self.window.size))
            for name, part in (("row", views[..., :-1, :]), ("column", views[..., :-1])):
                if part.size:
                    outputs[f"the last {name} of the window is left out"] = self._divided(self._sums(part))
        yield from self.sum_faults(*inputs)
        for cause, output in outputs.items():
            yield FaultModel(cause, ORDER, output)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, "the values of a window are added in their order and divided by their number")

    def assumptions(self) -> Iterator[str]:
        """Yield that sums and quotients are samples."""
        yield (
            f"{self.operator} adds and divides as IEEE 754 requires, in the stated order for all inputs: the order was "
            "tried with random and special numbers."
        )

"""Linear Resize (ONNX) of float32 images (channels, height, width), at the coordinates of resampling.py.

y = top * (1 - dy) + bottom * dy, top = left * (1 - dx) + right * dx, bottom likewise      each operation is rounded

left and right are the values before and after the coordinate, clamped to the image; dx and dy its distances to the
former.  1 - dx is rounded to float32, once, on the host.  ONNX Runtime multiplies four values by products of factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.fault_models import FaultModel, Single
from harness.operators.float_errors import UNDERFLOW, Perturbed, gamma, within_range
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.resampling import Resampling
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment

LINEAR = Fragment(
    "resize_linear_float32",
    107,
    """\
# ONNX Resize, linear: between the columns before and after, then between the rows, each operation rounded to float32.
fragment resize_linear_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    rows: tensor<integer>,                  # int32 (2, height of y): the rows before and after
    columns_of_x: tensor<integer>,          # int32 (2, width of y)
    down: tensor<scalar>,                   # float32 (2, height of y): their factors
    right: tensor<scalar>,                  # float32 (2, width of y)
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class ResizeLinear(Layer):
    """Values between rows and columns: int32 (2, size of the output) each; `down` and `right` are their factors."""

    ONNX = ()  # Resize reads its nodes
    elementwise = False
    formula = "between columns, then between rows, in float32, each operation rounded"
    roles = ("X", "roi", "scales", "sizes")
    fragments = (LINEAR,)

    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    down: Single
    right: Single

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a linear node."""
        return cls.of(node, Resampling.read(node))

    @classmethod
    def of(cls, node: Node, resampling: Resampling) -> Self:
        """Return the layer for these coordinates; raise RequestError for other inputs than images."""
        source, shape, at = resampling.source, resampling.shape, resampling.coordinates
        if len(shape) != 3 or shape[0] != source.shape[0]:
            raise node.refusal(f"it resizes {source.shape} to {shape}", "images (channels, height, width), linear")
        (rows, down), (columns, right) = (_linear(*each) for each in zip(at[1:], source.shape[1:], strict=True))
        bound = source.bound * (1 + gamma(8))
        written = fields(node, [source], shape, FLOAT32, bound if bound < LARGEST else np.inf, negative_zero=True)
        return cls(**written, rows=rows, columns=columns, down=down, right=right)

    def constants(self) -> Constants:
        """Return places and factors, (2, size of the output) each."""
        return {"rows": self.rows, "columns_of_x": self.columns, "down": self.down, "right": self.right}

    def facts(self) -> dict[str, Any]:
        """Return the same."""
        return dict(self.constants())

    def prepare(self) -> Evaluate:
        """Return the function that computes each operation as one of NumPy's in float32, which IEEE 754 determines."""
        return lambda x: self._between(x, self.rows, self.columns, self.down, self.right)

    def _between(self, x: Array, rows: Array, columns: Array, down: Array, right: Array) -> Array:
        images = x.reshape(len(x), *self.input.shape)
        with np.errstate(all="ignore"):
            sides = images[..., columns[0]] * right[0] + images[..., columns[1]] * right[1]
            y: Array = sides[:, :, rows[0]] * down[0][:, None] + sides[:, :, rows[1]] * down[1][:, None]
        return y.astype(x.dtype, copy=False).reshape(len(x), -1)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of two orders of the four products, whose factors are products of two others."""
        magnitudes = self._in_double(np.abs(inputs[0].astype(np.float64)))
        return within_range(2 * gamma(6) * magnitudes + 8 * UNDERFLOW, magnitudes).reshape(output.shape)

    def _in_double(self, x: Array) -> Array:
        return self._between(
            x.astype(float), self.rows, self.columns, self.down.astype(float), self.right.astype(float)
        )

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the changes between those of the four values."""
        return self._in_double(rows[0])

    def change(self, at: Perturbed) -> Array:
        """Return the same of the errors, as no factor is negative."""
        return self.linear(at.errors)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders of operations, places and factors."""
        [x] = inputs
        order = "between the columns first, then between the rows, each operation rounded"
        images = x.reshape(len(x), *self.input.shape)
        with np.errstate(all="ignore"):
            ends = (
                images[:, :, self.rows[0]] * self.down[0][:, None] + images[:, :, self.rows[1]] * self.down[1][:, None]
            )
            rows_first = ends[..., self.columns[0]] * self.right[0] + ends[..., self.columns[1]] * self.right[1]
            yield FaultModel("the rows are interpolated first", order, rows_first.reshape(len(x), -1))
            total = np.zeros((len(x), *self.output.shape), np.float32)
            for i, j in np.ndindex(2, 2):
                total += images[:, :, self.rows[i]][..., self.columns[j]] * (self.down[i][:, None] * self.right[j])
            yield FaultModel("the four values are multiplied by products of factors", order, total.reshape(len(x), -1))
        yield FaultModel("the interpolation is in double precision", order, self._in_double(x).astype(np.float32))
        swapped = self._between(x, self.rows, self.columns, self.down[::-1], self.right[::-1])
        yield FaultModel("the factors are exchanged", order, swapped)
        nearest = np.ones_like(self.down), np.ones_like(self.right)
        nearest[0][1] = nearest[1][1] = 0
        yield FaultModel("the value before is taken", order, self._between(x, self.rows, self.columns, *nearest))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, "values are interpolated between columns, then between rows, each operation rounded")

    def assumptions(self) -> Iterator[str]:
        """Yield that products and sums are samples."""
        yield "Resize rounds products and sums as IEEE 754 requires: random and special numbers were tried."


def _linear(at: Single, size: int) -> tuple[npt.NDArray[np.int32], Single]:
    """Return the places before and after, int32 (2, n), and their factors, float32 (2, n)."""
    inside = np.clip(at, np.float32(0), np.float32(size - 1))
    before = inside.astype(np.int32)
    after = np.minimum(before + 1, size - 1).astype(np.int32)
    distance = inside - before.astype(np.float32)
    return np.stack([before, after]), np.stack([np.float32(1) - distance, distance])

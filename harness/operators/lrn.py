"""LRN (ONNX), float32: local response normalisation over the channels of images.

s = 0, then s = s + x[j] * x[j]        for the channels j of the window of c, in their order, product and sum rounded
d = bias + factor * s                  factor = alpha / size, one float32 division on the host
y[c] = x[c] / d^beta                   d^0.25 = sqrt(sqrt(d)), d^0.5 = sqrt(d), d^0.75 = sqrt(d) * sqrt(sqrt(d))

The window of channel c has the channels from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2) that there are.
Each operation is rounded to float32.  ONNX Runtime adds factor * x[j]^2 to the sum of the channel before, subtracts the
one that leaves the window, and takes a power from a library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, Perturbed, gamma, within_range
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.rules import Rules
from harness.operators.sum_orders import OrderedSum
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment

POWERS = (0.25, 0.5, 0.75, 1.0)
POWER_ROUNDINGS = 8
"""Units of 2^-24 for both powers and quotients: ours has three roundings, a library's power is within 2 ulp."""
ORDER = "s from the first channel of the window on, d = bias + factor * s, y = x / d^beta, each operation rounded"
FRAGMENT = Fragment(
    "lrn_float32",
    116,
    """\
# ONNX LRN: x / (bias + factor * s)^beta, s the sum of squares over `size` channels, each operation rounded to float32.
fragment lrn_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * values of a channel)
    factor: scalar,                         # float32, alpha / size
    bias: scalar,                           # float32
    quarters: integer,                      # 4 * beta
    size: integer,
    channels: integer,
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class Lrn(Layer):
    """y = x / (bias + factor * (sum of squares))^(quarters / 4)."""

    ONNX = (("", "LRN"),)
    elementwise = False
    formula = """\
s = 0, then s = s + x[j] * x[j] for the channels j of the window of c, in their order
y[c] = x[c] / (bias + (alpha / size) * s)^beta            in float32, each operation rounded; roots for the power"""
    roles = ("X",)
    fragments = (FRAGMENT,)

    factor: np.float32
    bias: np.float32
    quarters: int
    length: int
    """The attribute size."""

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and the least number of axes."""
        node.same(node.x, node.y)
        node.given(node.x.rank).then(lambda rank: node.require(rank >= 3, f"{rank} axes, at least 3 are read"))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose power is made of square roots, and whose base is positive."""
        node.require_inputs(1, 1)
        attributes = node.attributes({"alpha": 1e-4, "beta": 0.75, "bias": 1.0, "size": 0})
        source, (alpha, beta, bias) = node.activation(0, [FLOAT32]), (attributes[k] for k in ("alpha", "beta", "bias"))
        if len(source.shape) != 3:
            raise node.refusal(f"its input has {len(source.shape)} axes", "images (vectors, channels, height, width)")
        if beta not in POWERS or attributes["size"] < 1 or attributes["size"] % 2 == 0:
            raise node.refusal(f"beta is {beta}, size {attributes['size']}", f"beta of {POWERS}, an odd size")
        factor = np.float32(alpha) / np.float32(attributes["size"])
        if not (0 <= factor < np.inf and np.finfo(np.float32).tiny <= bias < np.inf):
            raise node.refusal(f"alpha is {alpha}, bias {bias}", "alpha of 0 or more, a positive normal bias")
        bound = source.bound / bias**beta * (1 + gamma(POWER_ROUNDINGS))
        written = fields(
            node, [source], source.shape, FLOAT32, bound if bound < LARGEST else np.inf, negative_zero=True
        )
        return cls(**written, factor=factor, bias=np.float32(bias), quarters=int(4 * beta), length=attributes["size"])

    def constants(self) -> Constants:
        """Return the numbers of the formula, and the channels."""
        return {**self.facts(), "channels": self.input.shape[0]}

    def facts(self) -> dict[str, Any]:
        """Return the numbers of the formula."""
        return {"factor": self.factor, "bias": self.bias, "quarters": self.quarters, "size": self.length}

    def summary(self) -> tuple[str, ...]:
        """Return the size and the power."""
        return (f"{self.length} channels, beta {self.quarters / 4}",)

    def _channels(self, x: Array) -> Array:
        return x.reshape(len(x), self.input.shape[0], -1)

    def windows(self, size: int = 0) -> list[range]:
        """Return the channels of the window of each channel; of another size for fault models."""
        count, length = self.input.shape[0], size or self.length
        before = (length - 1) // 2
        return [range(max(c - before, 0), min(c - before + length, count)) for c in range(count)]

    @staticmethod
    def _squares(images: Array, windows: Sequence[Sequence[int]], factor: float = 1) -> Array:
        """Return the sums of squares times `factor`, (n, channels, positions), in the order of the windows."""
        found = np.zeros_like(images)
        for c, window in enumerate(windows):
            for j in window:
                found[:, c] += images.dtype.type(factor) * (images[:, j] * images[:, j])
        return found

    def power(self, d: Array) -> Array:
        """Return d^beta by square roots, of the type of d."""
        root: Array = np.sqrt(d)
        powers: tuple[Array, ...] = np.sqrt(root), root, root * np.sqrt(root), d
        return powers[self.quarters - 1]

    def prepare(self) -> Evaluate:
        """Return the function that computes each operation as one of NumPy's in float32, which IEEE 754 determines."""
        windows = self.windows()

        def evaluate(x: Array) -> Array:
            with np.errstate(all="ignore"):
                images = self._channels(x)
                y: Array = images / self.power(self.bias + self.factor * self._squares(images, windows))
            return y.reshape(x.shape)

        return evaluate

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of both formulas; infinite where the base of ONNX Runtime has no significant bits.

        The base d has the relative error r, which (1 - r)^-beta - 1 <= beta r / (1 - r)^2 passes on, as beta <= 1.
        """
        images = self._channels(inputs[0].astype(np.float64))
        return self._rounding(images, self._base(images)).reshape(output.shape)

    def distance(self, at: Perturbed) -> npt.NDArray[np.float64]:
        """Return e / low^beta + |x| (low^-beta - high^-beta), and the error bounds for the least base, low.

        A sum of squares changes by at most the sum of (2|x| + e) e; the base is never below the bias.
        """
        x, error = (self._channels(each.astype(np.float64)) for each in (at.values[0], at.errors[0]))
        x = np.abs(x)
        high = self._base(x + error)
        low = np.maximum(2 * self._base(x) - high, float(self.bias))
        change = error / self.power(low) + x * (1 / self.power(low) - 1 / self.power(high))
        return (change + self._rounding(x + error, low)).reshape(at.output.shape)

    def _base(self, images: Array) -> Array:
        return float(self.bias) + float(self.factor) * self._squares(images, self.windows())

    def _rounding(self, images: Array, base: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of both formulas for float64 images of up to these magnitudes, and this base."""
        factor, bias, channels = float(self.factor), float(self.bias), self.input.shape[0]
        added = bias + 2 * factor * (images * images).sum(axis=1, keepdims=True)  # enter and leave the windows once
        error = gamma(2 * channels + self.length + 5) * added + (2 * channels + 5) * UNDERFLOW * (1 + factor)
        relative = np.minimum(error / base, 0.5)
        passed = self.quarters / len(POWERS) * relative / (1 - relative) ** 2
        right = np.abs(images) / self.power(base)
        bound = (2 * passed + POWER_ROUNDINGS * UNIT_ROUNDOFF) * right + UNDERFLOW
        squares = (images * images).sum(axis=1, keepdims=True)
        largest = np.where(relative < 0.5, np.maximum(squares, added), np.inf)
        return within_range(bound, largest)

    def ordered_sum(self, *inputs: Array) -> OrderedSum:
        """Return the sums of squares; channels that do not exist add 0."""
        images = self._channels(inputs[0])
        before = (self.length - 1) // 2
        channels = images.shape[1]
        padded = np.pad(images * images, ((0, 0), (before, self.length - 1 - before), (0, 0)))
        terms = np.stack([padded[:, place : place + channels] for place in range(self.length)])
        return OrderedSum(
            terms, lambda sums: (images / self.power(self.bias + self.factor * sums)).reshape(len(images), -1)
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders, windows, roundings and powers."""
        [x] = inputs
        images, windows, beta = self._channels(x), self.windows(), self.quarters / len(POWERS)
        exact = images.astype(np.float64)

        def normalised(sums: Array, factor: Array | np.float32 = self.factor) -> Array:
            return images / self.power(self.bias + factor * sums)

        with np.errstate(all="ignore"):
            squares = self._squares(images, windows)
            base = self.bias + self.factor * squares
            outputs = {
                "each square is multiplied by alpha / size": normalised(
                    self._squares(images, windows, float(self.factor)), np.float32(1)
                ),
                "the sum is multiplied by alpha": normalised(squares, self.factor * np.float32(self.length)),
                "the window is that of the channel alone": normalised(images * images),
                "the window is larger by two channels": normalised(
                    self._squares(images, self.windows(self.length + 2))
                ),
                "the power is in double precision": images / base.astype(np.float64) ** beta,
                "the operations are in double precision": exact
                / (self.bias + self.factor * self._squares(exact, windows)) ** beta,
                "the quotient is a product with 1 / d^beta": images * (np.float32(1) / self.power(base)),
                "beta is 1": images / base,
                "the bias is left out": images / self.power(self.factor * squares),
            }
        yield from self.sum_faults(x)
        for cause, output in outputs.items():
            yield FaultModel(cause, ORDER, output.astype(np.float32).reshape(x.shape))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, "squares are added channel by channel, then roots and a quotient, each rounded")

    def assumptions(self) -> Iterator[str]:
        """Yield that the operations are samples."""
        yield (
            "LRN multiplies, adds, divides and takes square roots as IEEE 754 requires, in the stated order: random "
            "and special numbers were tried."
        )

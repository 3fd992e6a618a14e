"""LRN (ONNX), float32: local response normalisation over the channels of images.

factor = alpha / size is one float32 division on the host.  The window of channel c has the channels from
c - floor((size - 1) / 2) to c + ceil((size - 1) / 2) that there are.  ONNX Runtime adds factor * x[j]^2 to the sum of
the channel before, subtracts the one that leaves the window, and takes a power from a library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, fields
from harness.operators.exact.expression import Expression, nearest, square_root
from harness.operators.exact.stage_values import Program
from harness.operators.exact.stages import SKIP, Axis, Source, Stage, array, fold, formula, program
from harness.operators.float_errors import UNDERFLOW, UNIT_ROUNDOFF, Perturbed, gamma, within_range
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.staged import Staged
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment

POWERS = (0.25, 0.5, 0.75, 1.0)
POWER_ROUNDINGS = 8
"""Units of 2^-24 for both powers and quotients: ours has three roundings, a library's power is within 2 ulp."""
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


def power(d: Any, quarters: int, root: Any = np.sqrt) -> Any:
    """Return d^(quarters / 4) by square roots, of arrays or of expressions."""
    half = root(d)
    quarter = root(half)
    return (quarter, half, half * quarter, d)[quarters - 1]


def definition(shape: tuple[int, int], size: int, raised: Callable[[Expression], Expression]) -> Stage:
    """Return x / `raised`(bias + factor * s), s the sum of squares of `size` channels, for (channels, rest)."""
    c, p, j = Axis("c", shape[0]), Axis("p", shape[1]), Axis("j", size)
    x = Source("x", (c, p))
    square = _square(x.at((c + j - (size - 1) // 2, p), SKIP))
    s = fold("s", (c, p), (j,), 0, lambda s: s + square)
    bias, factor = (Source(name, (), is_constant=True)[()] for name in ("bias", "factor"))
    return array("y", (c, p), x[c, p] / raised(bias + factor * s[c, p]))


def _square(x: Expression) -> Expression:
    return x * x


@dataclass(frozen=True, eq=False)
class Lrn(Staged):
    """y = x / (bias + factor * (sum of squares))^(quarters / 4)."""

    ONNX = (("", "LRN"),)
    text = Staged.text.but(
        "\n".join(formula(program(definition((3, 2), 3, lambda d: power(d, 3, square_root))))),
        ("X",),
        (FRAGMENT,),
        facts_of=lambda layer: {
            "factor": layer.factor,
            "bias": layer.bias,
            "quarters": layer.quarters,
            "size": layer.length,
        },
        summary_of=lambda layer: (f"{layer.length} channels, beta {layer.quarters / 4}",),
    )

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
        return {**self.text.facts(), "channels": self.input.shape[0]}

    def numbers(self) -> dict[str, Array]:
        """Return the numbers of the definition."""
        return {name: np.array([number]) for name, number in (("factor", self.factor), ("bias", self.bias))}

    def definition(self) -> Stage:
        """Return the definition."""
        return self._raised(lambda d: power(d, self.quarters, square_root))

    def _raised(self, raised: Callable[[Expression], Expression]) -> Stage:
        channels, *rest = self.input.shape
        return definition((channels, math.prod(rest)), self.length, raised)

    def alternatives(self) -> Iterator[tuple[str, Program]]:
        """Yield the power of a library."""
        other = self._raised(lambda d: nearest(lambda values: values ** (self.quarters / len(POWERS)), d))
        yield "the power is the float32 nearest to it", Program(program(other), self.numbers())

    def _channels(self, x: Array) -> Array:
        return x.reshape(len(x), self.input.shape[0], -1)

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
        largest, least = (1 / power(base, self.quarters) for base in (low, high))
        change = error * largest + x * (largest - least)
        bound: Array = change + self._rounding(x + error, low)
        return bound.reshape(at.output.shape)

    def _base(self, images: Array) -> Array:
        before, channels = (self.length - 1) // 2, images.shape[1]
        squares = np.pad(images * images, ((0, 0), (before, before), (0, 0)))
        sums = np.sum([squares[:, first : first + channels] for first in range(self.length)], axis=0)
        return np.asarray(float(self.bias) + float(self.factor) * sums)

    def _rounding(self, images: Array, base: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of both formulas for float64 images of up to these magnitudes, and this base."""
        factor, bias, channels = float(self.factor), float(self.bias), self.input.shape[0]
        added = bias + 2 * factor * (images * images).sum(axis=1, keepdims=True)  # enter and leave the windows once
        error = gamma(2 * channels + self.length + 5) * added + (2 * channels + 5) * UNDERFLOW * (1 + factor)
        relative = np.minimum(error / base, 0.5)
        passed = self.quarters / len(POWERS) * relative / (1 - relative) ** 2
        right = np.abs(images) / power(base, self.quarters)
        bound = (2 * passed + POWER_ROUNDINGS * UNIT_ROUNDOFF) * right + UNDERFLOW
        squares = (images * images).sum(axis=1, keepdims=True)
        largest = np.where(relative < 0.5, np.maximum(squares, added), np.inf)
        return within_range(bound, largest)

"""PRelu (ONNX), float32, with constant slopes for negative numbers: one number, one a channel, or one a value.

y[n] = slope[n] * x[n] if x[n] < 0, else x[n]       one IEEE 754 multiplication, rounded half to even; -0 stays -0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import broadcast, text
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.fault_models import LITTLE_ENDIAN, FaultModel, Single, toward_zero
from harness.operators.float_errors import Perturbed
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment

FRAGMENT = Fragment(
    "p_relu_float32",
    115,
    """\
# ONNX PRelu: one IEEE float32 multiplication of a negative number by the slope of its axes; -0.0 stays.
fragment p_relu_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    slope: tensor<scalar>,                  # float32 (1, slopes)
    axes: tensor<integer>,                  # int32 (2, axes): the sizes of x and of slope
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class PRelu(Layer):
    """y = slope * x if x < 0, else x; `slope` is finite and has at most the axes of the input."""

    ONNX = (("", "PRelu"),)
    formula = "y[n] = slope[n] * x[n] if x[n] < 0, else x[n]        in float32; a slope serves every value of its axes"
    roles = ("x", "slope")
    piecewise_monotone = True
    parameters = (1,)
    fragments = (FRAGMENT,)

    slope: Single

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, and that slopes are repeated along axes."""
        node.same(node.x, node.y).same_type(node.x, node.input(1))
        if node.opset >= 7:  # before, slopes were those of channels
            node.broadcast(node.y, [node.x, node.input(1)])

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant slopes that fit the axes of the input."""
        node.require_inputs(2, 2)
        node.attributes({})
        source = node.activation(0, [FLOAT32])
        slope = broadcast.constant(node, 1, [source], "slope")
        if broadcast.output_shape([source.shape, slope.shape]) != source.shape:
            raise node.refusal(f"the slope has shape {slope.shape}, the input {source.shape}", "axes of the input")
        if np.isinf(source.bound) and not slope.all():
            raise node.refusal(
                f"its result can be NaN: {source.name!r} can be infinite and a slope is 0", "other slopes, or Clip"
            )
        with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded products too
            bound = max(source.bound, float(np.float32(source.bound) * np.abs(slope).max()))
        return cls(**fields(node, [source], source.shape, FLOAT32, bound, negative_zero=True), slope=slope)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of input and slope, with the same number of axes."""
        return broadcast.shapes(self.inputs, [None, self.slope])

    @property
    def slopes(self) -> Single:
        """The slope of each value, float32 (size,)."""
        return np.broadcast_to(self.slope, self.output.shape).reshape(-1)

    def prepare(self) -> Evaluate:
        """Return the function that multiplies with NumPy's operation, which IEEE 754 determines."""

        def evaluate(x: Array) -> Array:
            with np.errstate(all="ignore"):
                return self._selected(x, x < 0, x * self.slopes)

        return evaluate

    @staticmethod
    def _selected(x: Array, below: Array, product: Array) -> Array:
        return np.where(below, product, x).astype(np.float32, copy=False)

    def constants(self) -> Constants:
        """Return the slopes, and the sizes of both operands."""
        return {**self.facts(), "axes": np.array(self.shapes, np.int32)}

    def facts(self) -> dict[str, Any]:
        """Return the slopes."""
        return {"slope": self.slope.reshape(-1)}

    def summary(self) -> tuple[str, ...]:
        """Return the slopes."""
        return (f"slope {text.floats(self.slope.reshape(-1))}",)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:  # noqa: ARG002 - as above
        """Return 0: zeros of either sign are right, as ONNX Runtime multiplies zeros too."""
        return np.zeros(output.shape)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def slopes_within(self, at: Perturbed) -> Array:
        """Return 1 above 0 and the factor below."""
        return at.sides(self.slopes.astype(np.float64))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong comparisons, slopes and roundings."""
        [x] = inputs
        right, below, slopes = "slope * x below 0, else x", x < 0, self.slopes
        with np.errstate(all="ignore"):
            product, exact = x * slopes, x.astype(np.float64) * slopes
            small = np.abs(product) < np.finfo(np.float32).tiny
            outputs = {
                "negative numbers are kept": x,
                "negative numbers become 0": self._selected(x, below, np.zeros_like(x)),
                "positive numbers are multiplied instead": self._selected(x, ~below, product),
                "all numbers are multiplied": product,
                "the first slope is taken for all": self._selected(x, below, x * slopes[0]),
                "the slopes are in the opposite order": self._selected(x, below, x * slopes[::-1]),
                "the product is truncated toward zero": self._selected(x, below, toward_zero(exact)),
                "a subnormal product is flushed to zero": self._selected(
                    x, below, np.where(small, product * np.float32(0), product)
                ),
            }
            for cause, output in outputs.items():
                yield FaultModel(cause, right, output)
            swapped = self._selected(x, below, x * slopes.byteswap())
            yield FaultModel("the bytes of the slopes are in the other order", LITTLE_ENDIAN, swapped)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(
            self, "numbers below 0 are multiplied by their slope, rounded to float32, and others are kept"
        )

    def assumptions(self) -> Iterator[str]:
        """Yield that products are samples."""
        yield "PRelu rounds its products as IEEE 754 requires: random and special numbers were tried."

"""LeakyRelu (ONNX), float32, with a constant factor `alpha` for negative numbers.

y[n] = alpha * x[n] if x[n] < 0, else x[n]       one IEEE 754 multiplication, rounded half to even; -0 stays -0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import softfloat, text
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.exact import bits_of, from_ordered, ordered
from harness.operators.fault_models import FaultModel, toward_zero
from harness.operators.float_errors import Perturbed
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    SPREAD_VALUES,
    VECTORS,
    Extent,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    mixed,
)
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment

DEFAULT_ALPHA = float(np.float32(0.01))
FRAGMENT = Fragment(
    "leaky_relu_float32",
    75,
    """\
# ONNX LeakyRelu: one IEEE float32 multiplication of a negative number; -0.0 stays.
fragment leaky_relu_float32(
    x: tensor<scalar>,                      # float32 (vectors, N)
    alpha: scalar,                          # float32
    type: string)
-> (y: tensor<scalar>)
{
    y = select(x < 0.0, alpha * x, x);
}
""",
)


@dataclass(frozen=True, eq=False)
class LeakyRelu(Layer):
    """y[n] = alpha * x[n] if x[n] < 0, else x[n]; `alpha` is finite.

    No result is NaN for any input: an infinity times an alpha of 0 is refused.
    """

    ONNX = (("", "LeakyRelu"),)
    formula = f"{'y[n] = alpha * x[n] if x[n] < 0, else x[n]':62} in float32; alpha is 0.01 if not given"
    roles = ("x",)
    piecewise_monotone = True
    uniform = True
    fragments = (FRAGMENT,)

    alpha: np.float32

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay."""
        node.same(node.x, node.y)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of float32 values of any shape."""
        node.require_inputs(1, 1)
        alpha = np.float32(node.attributes({"alpha": DEFAULT_ALPHA})["alpha"])
        source = node.activation(0, [FLOAT32])
        if not np.isfinite(alpha):
            raise node.refusal(f"alpha is {alpha}", "a finite number")
        if alpha == 0 and np.isinf(source.bound):
            raise node.refusal(
                f"its result can be NaN: {source.name!r} can be infinite and alpha is 0",
                "another alpha, or Clip its input",
            )
        with np.errstate(over="ignore"):  # rounding changes no order, so the bound holds for rounded products too
            bound = max(source.bound, float(np.float32(source.bound) * np.abs(alpha)))
        return cls(**fields(node, [source], source.shape, FLOAT32, bound, negative_zero=True), alpha=alpha)

    def prepare(self) -> Evaluate:
        """Return the function that compares floats as integers and multiplies them in integer arithmetic."""
        alpha = bits_of(np.atleast_1d(self.alpha))

        def evaluate(x: Array) -> Array:
            return np.where(ordered(x) < 0, softfloat.product(bits_of(x), alpha).view(np.float32), x)

        return evaluate

    def boundaries(self) -> tuple[Array, Array]:
        """Return 0 and the adjacent numbers; nothing is rounded to a quantised value."""
        return from_ordered(np.arange(-1, 2)), np.empty(0, np.float32)

    def constants(self) -> Constants:
        """Return the factor."""
        return {"alpha": self.alpha}

    def summary(self) -> tuple[str, ...]:
        """Return the factor."""
        return (f"alpha {text.floats(self.alpha)}",)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield numbers of all magnitudes and those around 0."""
        patterns = np.linspace(0, (1 << 32) - 1, max(SPREAD_VALUES // self.size, 1024)).astype(np.uint32)
        spread = patterns.view(np.float32)
        numbers = np.concatenate([self.boundaries()[0], spread[np.isfinite(spread)], np.array([0.0, -0.0], np.float32)])
        if np.isinf(self.input.bound):
            numbers = np.append(numbers, np.array([np.inf, -np.inf], np.float32))
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "numbers below 0 are multiplied by alpha, rounded to float32 as IEEE 754 says, and others are kept",
            f"{len(numbers):,} numbers of all magnitudes, among them those around 0, pass through every column; "
            f"{MIXED}; not complete",
            (len(numbers) + VECTORS) * self.size,
            Outputs(
                lambda: [np.repeat(numbers[:, None], self.size, axis=1), mixed(numbers, self.size)], self.prepare()
            ),
            complete=False,
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that products are rounded as IEEE 754 requires."""
        yield "LeakyRelu rounds its products as IEEE 754 requires: numbers of all magnitudes were tried, not every one."

    def slopes_within(self, at: Perturbed) -> Array:
        """Return 1 above 0 and the factor below."""
        return at.sides(float(self.alpha))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong comparisons, factors and roundings."""
        [x] = inputs
        right, below = "alpha * x below 0, else x", ordered(x) < 0
        default, exact = np.float32(DEFAULT_ALPHA), x.astype(np.float64) * np.float64(self.alpha)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            product = x * self.alpha
            outputs = {
                "negative numbers are kept": x,
                "negative numbers become 0": np.where(below, np.float32(0), x),
                "positive numbers are multiplied instead": np.where(below, x, product),
                "all numbers are multiplied": product,
                "alpha is the default": np.where(below, x * default, x),
                "the bytes of alpha are in the other order": np.where(below, x * self.alpha.byteswap(), x),
            }
            for cause, output in outputs.items():
                yield FaultModel(cause, right, output)
            truncated = np.where(below, toward_zero(exact), x)
            yield FaultModel("the product is truncated toward zero", "rounded half to even", truncated)
            flushed = np.where(np.abs(product) < np.finfo(np.float32).tiny, product * np.float32(0), product)
            yield FaultModel("a subnormal product is flushed to zero", "it is kept", np.where(below, flushed, x))

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where input and result are finite."""
        finite: Array = np.isfinite(inputs[0]) & np.isfinite(expected)
        return finite

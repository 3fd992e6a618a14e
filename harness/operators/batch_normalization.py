"""BatchNormalization (ONNX, inference), float32, with constant scale, B, mean and variance per channel.

d = sqrt(var + epsilon)                        on the host, once: one IEEE 754 addition, one square root
y = ((x - mean) / d) * scale + B               one subtraction, division, multiplication and addition for each value

Each operation is rounded to float32, in this order.  ONNX Runtime computes x * s + (B - mean * s) with
s = scale * (1 / d), where the terms may cancel.  The error of each formula is bounded by the roundings that a term
passes, with p = |scale / d| (the square root halves the error of var + epsilon, which still counts as one here):

    this one        gamma(6) p |x - mean| + gamma(1) |B|     var + epsilon, its root, and four operations
    ONNX Runtime    gamma(6) p |x| + gamma(7) p |mean| + gamma(2) |B|

Both are at most gamma(8) (p (|x| + |mean|) + |B|), and the two results differ by at most twice that and underflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.fault_models import LITTLE_ENDIAN, FaultModel, Single
from harness.operators.float_errors import UNDERFLOW, Perturbed, gamma, within_range
from harness.operators.float_samples import of_samples
from harness.operators.frames import Frames
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32, LARGEST
from harness.operators.text import Fragment

OPERATIONS = 8
DEFAULT_EPSILON = float(np.float32(1e-5))
FRAGMENT = Fragment(
    "batch_normalization_float32",
    100,
    """\
# ONNX BatchNormalization: ((x - mean) / deviation) * scale + offset, each operation rounded to float32.
fragment batch_normalization_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * values of a channel)
    mean: tensor<scalar>,                   # float32 (1, channels)
    deviation: tensor<scalar>,              # float32 (1, channels), sqrt(variance + epsilon)
    scale: tensor<scalar>,                  # float32 (1, channels)
    offset: tensor<scalar>,                 # float32 (1, channels)
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
)
ORDER = "((x - mean) / deviation) * scale + B, each operation rounded to float32"
ROLES = ("mean", "deviation", "scale", "offset")


@dataclass(frozen=True, eq=False)
class BatchNormalization(Layer):
    """y = ((x - mean) / deviation) * scale + offset; the constants are float32 (channels,) each."""

    monotone = True
    ONNX = (("", "BatchNormalization"),)
    formula = """\
d = sqrt(var + epsilon)                                        in float32, each operation rounded
y = ((X - mean) / d) * scale + B                               in float32, each operation rounded, per channel"""
    roles = ("X", "scale", "B", "mean", "var")
    parameters = (1, 2, 3, 4)
    fragments = (FRAGMENT,)
    elementwise = False

    mean: Single
    deviation: Single
    scale: Single
    offset: Single

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay, with one constant of each kind a channel."""
        node.same(node.x, node.y)
        for constant in (node.input(position) for position in range(1, 5)):
            node.equals(constant.rank, 1).equals(constant.size(0), node.x.size(1))
        for statistic in filter(None, node.outputs[1:]):  # of training
            node.same(node.input(3), statistic)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of inference with constants per channel."""
        node.require_inputs(5, 5)
        attributes = node.attributes({"epsilon": DEFAULT_EPSILON, "momentum": 0.9, "training_mode": 0})
        if attributes["training_mode"]:
            raise node.refusal("training_mode is 1", "0, as for inference")
        source = node.activation(0, [FLOAT32])
        found = {}
        for position, name in enumerate(cls.roles[1:], 1):
            value = node.constant(position, name, [FLOAT32])
            if value.shape != source.shape[:1]:
                raise node.refusal(f"the {name} has shape {value.shape}", f"one number a channel: {source.shape[:1]}")
            if not np.isfinite(value).all():
                raise node.refusal(f"the {name} has values that are not finite", "finite numbers")
            found[name] = value
        with np.errstate(invalid="ignore", over="ignore"):
            deviation = np.sqrt(found["var"] + np.float32(attributes["epsilon"]))
        if not (np.isfinite(deviation) & (deviation > 0)).all():
            raise node.refusal("var + epsilon is not positive and finite", "a variance of 0 or more")
        with np.errstate(over="ignore", invalid="ignore"):
            factor = np.abs(found["scale"]).astype(np.float64) / deviation
            terms = (np.abs(found["mean"]) + source.bound) * factor + np.abs(found["B"])
        bound = float(terms.max()) * (1 + gamma(OPERATIONS)) + UNDERFLOW
        inner = (float(np.abs(found["mean"]).max()) + source.bound) / float(deviation.min())
        bound = bound if max(bound, inner) * (1 + gamma(OPERATIONS)) < LARGEST else np.inf
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=True)
        return cls(**written, mean=found["mean"], deviation=deviation, scale=found["scale"], offset=found["B"])

    def frames(self, axis: int) -> Frames | str:
        """Return that each frame is normalised alone, but for channels."""
        return Frames(axis) if axis else super().frames(axis)

    def constants(self) -> Constants:
        """Return the constants of the formula, (channels,) each."""
        return {name: getattr(self, name) for name in ROLES}

    def facts(self) -> dict[str, Any]:
        """Return the same."""
        return dict(self.constants())

    def summary(self) -> tuple[str, ...]:
        """Return the factors and the offsets."""
        return (f"scale {text.floats(self.scale)} / {text.floats(self.deviation)}",)

    def prepare(self) -> Evaluate:
        """Return the function that computes each operation as one of NumPy's in float32, which IEEE 754 determines."""
        mean, deviation, scale, offset = (
            each[:, None] for each in (self.mean, self.deviation, self.scale, self.offset)
        )

        def evaluate(x: Array) -> Array:
            with np.errstate(all="ignore"):
                y: Array = ((self._channels(x) - mean) / deviation) * scale + offset
            return y.reshape(x.shape)

        return evaluate

    def _channels(self, x: Array) -> Array:
        return x.reshape(len(x), len(self.mean), -1)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:
        """Return the error bounds of both formulas."""
        mean, deviation, scale, offset = (
            each.astype(np.float64)[:, None] for each in (self.mean, self.deviation, self.scale, self.offset)
        )
        factor = np.abs(scale) / deviation
        reach = np.abs(self._channels(inputs[0].astype(np.float64))) + np.abs(mean)
        magnitudes = reach * factor + np.abs(offset)
        underflow = UNDERFLOW * (2 + 1 / deviation + (1 + np.abs(scale)) * (1 + reach))
        bound = 2 * gamma(OPERATIONS) * magnitudes + underflow
        largest = np.maximum(magnitudes, reach * np.maximum(1, np.maximum(1 / deviation, np.abs(scale))))
        return within_range(bound.reshape(output.shape), largest.reshape(output.shape))

    def linear(self, rows: Sequence[Array]) -> Array:
        """Return the changes times scale / deviation."""
        factor = self.scale.astype(np.float64) / self.deviation
        changes: Array = factor[:, None] * self._channels(rows[0])
        return changes.reshape(rows[0].shape)

    def change(self, at: Perturbed) -> Array:
        """Return p times the error."""
        return np.abs(self.linear(at.errors))

    def rounding(self, at: Perturbed) -> Array:
        """Return the error bounds of both formulas, and those of a folded mean and B.

        ONNX Runtime folds the constants into the weights and the bias of a Conv or Gemm before: mean and B then pass
        the roundings of its sum.
        """
        factor = np.abs(self.scale.astype(np.float64)) / self.deviation
        folded = gamma(at.roundings) * (factor * np.abs(self.mean) + np.abs(self.offset))
        repeated = np.repeat(folded, self.size // len(folded))
        return self.tolerance(at.magnitudes(), at.output) + repeated

    def roundings(self, before: int) -> int:
        """Return those of the input, as ONNX Runtime may fold the constants into the sum before."""
        return before

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders of operations, constants that are missing or exchanged, and bytes in the other order."""
        x = self._channels(inputs[0])
        m, d, s, b = (each[:, None] for each in (self.mean, self.deviation, self.scale, self.offset))
        with np.errstate(all="ignore"):
            s_d = s / d
            exact = (x.astype(np.float64) - m) / d * s + b
            outputs = {
                "x is multiplied by scale / deviation, then B - mean * scale / deviation is added": x * s_d
                + (b - m * s_d),
                "x - mean is multiplied by scale / deviation": (x - m) * s_d + b,
                "the quotient is a product with 1 / deviation": ((x - m) * (np.float32(1) / d)) * s + b,
                "scale is multiplied before the division": ((x - m) * s) / d + b,
                "the last multiplication and addition are fused": _fused((x - m) / d, s, b),
                "the operations are in double precision": exact,
                "the mean is left out": (x / d) * s + b,
                "B is left out": ((x - m) / d) * s,
                "the scale is left out": (x - m) / d + b,
                "the variance is used in place of the deviation": ((x - m) / (d * d)) * s + b,
                "the bytes of the mean are in the other order": ((x - m.byteswap()) / d) * s + b,
            }
            for cause, output in outputs.items():
                right = LITTLE_ENDIAN if "bytes" in cause else ORDER
                yield FaultModel(cause, right, output.astype(np.float32).reshape(inputs[0].shape))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        return of_samples(self, "four operations in their order, each rounded to float32 as IEEE 754 says")

    def assumptions(self) -> Iterator[str]:
        """Yield that the operations are samples."""
        yield (
            "BatchNormalization rounds its four operations as IEEE 754 requires, in the stated order: random and "
            "special numbers were tried."
        )


def _fused(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c rounded once, but for double rounding: the product of float32 is exact in float64."""
    return a.astype(np.float64) * b + c

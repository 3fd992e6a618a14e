"""BatchNormalization (ONNX, inference), float32, with constant scale, B, mean and variance per channel.

deviation = sqrt(var + epsilon)                on the host, once: one IEEE 754 addition, one square root
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Ability, fields
from harness.operators.elements import Elements, Terms, bounds_of
from harness.operators.exact.errors import Inexact, inexact
from harness.operators.exact.expression import Expression, argument
from harness.operators.fault_models import Single
from harness.operators.float_errors import UNIT_ROUNDOFF, Perturbed
from harness.operators.frames import Frames, Streaming
from harness.operators.node import Node
from harness.operators.product import Runtime
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment
from harness.operators.traits import Trait

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


def _of_onnx_runtime(x: Expression, mean: Expression, deviation: Expression, scale: Expression,
                     offset: Expression) -> Expression:  # fmt: skip
    """Return the formula of ONNX Runtime, whose terms may cancel."""
    factor = scale * (1 / deviation)
    return x * factor + (offset - mean * factor)


def _scaled_first(x: Expression, mean: Expression, deviation: Expression, scale: Expression,
                  offset: Expression) -> Expression:  # fmt: skip
    """Return the formula of ONNX's evaluator, whose product can overflow alone."""
    return (x - mean) * scale / deviation + offset


NAMES = ("x", "mean", "deviation", "scale", "offset")
OTHER_FORMULAS = tuple(formula(*map(argument, NAMES)) for formula in (_of_onnx_runtime, _scaled_first))


@dataclass(frozen=True, eq=False)
class BatchNormalization(Elements):
    """y = ((x - mean) / deviation) * scale + offset; the constants are float32 (channels,) each."""

    ONNX = (("", "BatchNormalization"),)
    text = Elements.text.but(
        """\
d = sqrt(var + epsilon)                                        in float32, each operation rounded
y = ((X - mean) / d) * scale + B                               in float32, each operation rounded, per channel""",
        ("X", "scale", "B", "mean", "var"),
        (FRAGMENT,),
        parameters=(1, 2, 3, 4),
        summary_of=lambda layer: (f"scale {text.floats(layer.scale)} / {text.floats(layer.deviation)}",),
    )
    names = NAMES
    constant_roles = NAMES[1:]
    traits = Trait.NONE
    runtime = Ability(lambda layer: Runtime(layer, joins=True))
    streaming = Ability(lambda layer: Streaming(layer, form=lambda axis: Frames(axis) if axis else None))
    alternatives = {  # noqa: RUF012
        "x is multiplied by scale / deviation, then B - mean * scale / deviation is added": _of_onnx_runtime,
        "x - mean is multiplied by scale / deviation": lambda x, m, d, s, b: (x - m) * (s / d) + b,
        "scale is multiplied before the division": lambda x, m, d, s, b: ((x - m) * s) / d + b,
        "the variance is used in place of the deviation": lambda x, m, d, s, b: ((x - m) / (d * d)) * s + b,
    }

    mean: Single
    deviation: Single
    scale: Single
    offset: Single

    @staticmethod
    def value(x: Expression, mean: Expression, deviation: Expression, scale: Expression,
              offset: Expression) -> Expression:  # fmt: skip
        """Return the definition."""
        return ((x - mean) / deviation) * scale + offset

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
        for position, name in enumerate(cls.text.roles[1:], 1):
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
        values = (found["mean"], deviation, found["scale"], found["B"])
        constants: dict[str, Any] = dict(zip(cls.constant_roles, values, strict=True))
        bound, negative_zero, _ = bounds_of(cls.defined(), cls.names, [source], (None, *values))
        return cls(**fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero), **constants)

    @property
    def fixed(self) -> Terms:
        """The constants along the axis of the channels."""
        axes = (-1, *(1,) * (len(self.output.shape) - 1))
        return (None, *(getattr(self, role).reshape(axes) for role in self.constant_roles))

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:
        """Return the error bound for exact inputs."""
        return self.errors_within(inputs, [np.zeros(x.shape) for x in inputs]).reshape(output.shape)

    def errors_within(self, values: Sequence[Array], errors: Sequence[Array], *, is_rounded: bool = True) -> Array:
        """Return the error bound of this formula, or the distance of another one and its error bound, if larger.

        Their deviation has roundings of its own.
        """
        own = super().errors_within(values, errors, is_rounded=is_rounded)
        if not is_rounded:
            return own
        arguments = self._inexact(values, errors)
        deviation = arguments["deviation"].value
        arguments["deviation"] = Inexact(deviation, 3 * UNIT_ROUNDOFF * deviation.astype(np.float64))
        bound, output = own, self.prepare()(*values)
        for formula in OTHER_FORMULAS:
            with np.errstate(all="ignore"):
                value, error = inexact(formula, arguments)
                apart = np.abs(value.astype(np.float64).reshape(own.shape) - output)
                there = apart + error.reshape(own.shape)
            bound = np.maximum(bound, np.where(np.isnan(there), np.inf, there))
        return bound

    def summed(self, at: Perturbed) -> Array:  # noqa: ARG002 - as of the base
        """Return the magnitudes of mean and B: ONNX Runtime folds them into the bias of a Conv or Gemm before."""
        factor = np.abs(self.scale.astype(np.float64)) / self.deviation
        folded = factor * np.abs(self.mean) + np.abs(self.offset)
        return np.repeat(folded, self.size // len(folded))

"""PRelu (ONNX), float32, with constant slopes for negative numbers: one number, one a channel, or one a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import broadcast
from harness.operators.base import Ability, fields
from harness.operators.elements import Elements, bounds_of, errors_of
from harness.operators.exact.expression import Expression, select
from harness.operators.fault_models import Single
from harness.operators.float_errors import Perturbed
from harness.operators.leaky_relu import flushed
from harness.operators.node import Node
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
class PRelu(Elements):
    """y = slope * x if x < 0, else x; `slope` is finite and has at most the axes of the input."""

    ONNX = (("", "PRelu"),)
    names = ("x", "slope")
    text = Elements.text.but(roles=("x", "slope"), fragments=(FRAGMENT,), parameters=(1,))
    constant_roles = ("slope",)
    errors = Ability(lambda layer: replace(errors_of(layer), piecewise_monotone=True, slopes=layer.slopes_within))
    alternatives = {  # noqa: RUF012
        "negative numbers are kept": lambda x, slope: x,  # noqa: ARG005
        "all numbers are multiplied": lambda x, slope: slope * x,
        "negative numbers become 0": lambda x, slope: select(x < 0, 0, x),  # noqa: ARG005
        "a subnormal product is flushed to zero": lambda x, slope: select(x < 0, flushed(slope * x), x),
    }

    slope: Single

    @staticmethod
    def value(x: Expression, slope: Expression) -> Expression:
        """Return the definition; -0 stays."""
        return select(x < 0, slope * x, x)

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
        bound, negative_zero, can_be_nan = bounds_of(cls.defined(), cls.names, [source], (None, slope))
        if can_be_nan:
            raise node.refusal(
                f"its result can be NaN: {source.name!r} can be infinite and a slope is 0", "other slopes, or Clip"
            )
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, slope=slope)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return 0: zeros of either sign are right, as ONNX Runtime multiplies zeros too."""
        return np.zeros(output.shape)

    def slopes_within(self, at: Perturbed) -> Array:
        """Return 1 above 0 and the factor below."""
        return at.sides(np.broadcast_to(self.slope, self.output.shape).reshape(-1).astype(np.float64))

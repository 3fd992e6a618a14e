"""Conv (ONNX), float32, over images (channels, height, width), volumes or sequences (channels, length).

acc     = B[m] + 0                                     a bias of -0 counts as 0
acc     = acc + x[c, row, column] * W[m, c, i, j]      for the channels c of the group of m, then i, then j
y[m, p] = acc                                          x is 0 outside the image
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, fields
from harness.operators.convolution import WINDOWS, Convolution, convolved, read_weights
from harness.operators.exact.stages import Stage
from harness.operators.fault_models import FaultModel
from harness.operators.float_contraction import ORDER, FloatContraction, in_order, read_finite
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.staged import Staged
from harness.operators.tensor import FLOAT32
from harness.operators.text import Fragment
from harness.operators.window import DEFAULTS, VOLUME, Window

BIAS = 2
FRAGMENT = Fragment(
    "conv_float32",
    45,
    """\
# ONNX Conv: y[m, p] is the bias plus the products of a window, added by channel, row and column; each product and each
# sum is one IEEE float32 operation.
fragment conv_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    weights: tensor<scalar>,                # float32 (K, N): one column a channel of the output
    bias: tensor<scalar>,                   # float32 (1, N)
    window: tensor<integer>,                # int32 (6, axes): image, kernel, stride, dilation, padding before, output
    groups: integer,
    columns: integer[],                     # which N channels of its layer, times its positions
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class FloatConvolution(Convolution, FloatContraction):
    """Sums over windows, float32; the products of a sum are ordered by channel, row and column of the kernel."""

    text = FloatContraction.text.but(
        roles=("X", "W", "B"),
        parameters=(1, 2),
        facts_of=lambda layer: FloatContraction.text.facts_of(layer) | layer.window.facts() | {"groups": layer.groups},
        summary_of=lambda layer: (*FloatContraction.text.summary_of(layer), layer.summary_of_window()),
    )

    def constants(self) -> Constants:
        """Return weights and bias, then the window and the number of groups."""
        return {**super().constants(), "window": self.window.table(), "groups": self.groups}

    def numbers(self) -> dict[str, Array]:
        """Return weights, one row a channel, and bias."""
        return {"weights": self.weights.T, "bias": self.bias}

    def sum_faults(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of sums, and sums over the window before the channels."""
        yield from super().sum_faults(*inputs)
        if 1 < self.window.size < len(self.weights):
            order = np.arange(len(self.weights)).reshape(-1, self.window.size).T.reshape(-1)
            wrong = replace(self, weights=self.weights[order])
            sums = wrong.summed(inputs[0], lambda patch, w, bias: in_order(patch[:, order], w, bias))
            yield FaultModel("the products are added by row, column and channel (im2col)", ORDER, sums)


@dataclass(frozen=True, eq=False)
class Conv(FloatConvolution, Staged):
    """The sum over windows."""

    ONNX = (("", "Conv"),)
    text = FloatConvolution.text.but(
        """\
acc = B[m]                                               and -0 counts as 0
acc = acc + x[c, row, column] * W[m, c, i, j]            for the channels c of the group of m, then i, then j,
                                                         each operation rounded to float32; x is 0 outside the image
y[m, p] = acc""",
        fragments=(FRAGMENT,),
    )

    def definition(self) -> Stage:
        """Return the sum of each window."""
        return self.sum_of_windows("y", lambda bias: bias + 0, lambda x, weight: x * weight)

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of windows, channels and groups."""
        node.same_type(*node.given_inputs, node.y)
        convolved(node, node.input(1), node.has(2))

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant, finite weights."""
        node.require_inputs(2, 3)
        source = node.activation(0, [FLOAT32])
        attributes = node.attributes(DEFAULTS | {"group": 1})
        read_finite(node, 1, "weight")
        weights = read_weights(node, 1, source, attributes["group"], [FLOAT32])
        width = len(weights)
        bias = read_bias(node, width)
        window = Window.read(node, source, weights.shape[2:], attributes, VOLUME)
        layer = cls(
            **fields(node, [source], (width, *window.result(source)), FLOAT32),
            weights=np.ascontiguousarray(weights.reshape(width, -1).T),
            bias=bias,
            window=window,
            group_count=attributes["group"],
        )
        return replace(layer, output=replace(layer.output, bound=layer.bound_of_output()))

    @property
    def padding(self) -> float:
        """0, whose products change no sum: none is -0."""
        return 0.0

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of sums; wrong windows, layouts and groups."""
        yield from super().fault_models(*inputs)
        [x] = inputs
        for cause, layer, values in self.wrong_places(x, 0):
            yield FaultModel(cause, WINDOWS, layer.prepare()(values))


def read_bias(node: Node, width: int) -> npt.NDArray[np.float32]:
    """Return the finite bias of `width` channels, zeros if the node has none."""
    bias: npt.NDArray[np.float32] = read_finite(node, BIAS, "bias") if node.has(BIAS) else np.zeros(width, np.float32)
    if bias.shape != (width,):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape ({width},)")
    return bias

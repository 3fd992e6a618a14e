"""QLinearConv (ONNX): the quantised convolution over images (channels, height, width) or sequences.

acc[n, p] = bias[n] + sum_k (a[p, k] - a_zero_point) * (weights[k, n] - weights_zero_point)    in int32
m[n]      = (a_scale * w_scale[n]) / y_scale                                                   float32
y[n, p]   = saturate(round_half_even(float32(acc[n, p]) * m[n]) + y_zero_point)                uint8, int8

a[p, k] is value k of the window at position p: k counts the channels of the group of n, then rows, then columns.  A
value outside the image contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators import contraction_faults
from harness.operators.base import ALONE, Constants, fields
from harness.operators.contraction import Contraction
from harness.operators.convolution import WINDOWS, Convolution, convolved, read_weights
from harness.operators.exact.expression import INT32, integer
from harness.operators.exact.stages import Stage, constant
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.scaled_sum import Scales
from harness.operators.tensor import INT8, UINT8
from harness.operators.text import ROUND_HALF_EVEN, Fragment
from harness.operators.window import DEFAULTS, Window
from harness.operators.window_vectors import WindowVectors

FORMULA = """\
x (vectors, channels, height, width), w (M, channels / group, kernel height, kernel width) and y are codes; B is 0 where
it is not read.  One axis, (vectors, channels, length), has the height 1.
acc[m, p] = B[m] + sum over k of (x[p, k] - x_zero_point) * (w[m, k] - w_zero_point)     in int32
  p is a position of the output; x[p, k] is value k of its window: channels of the group of m, then rows, columns.
  A value outside the image contributes 0.
s[m] = (x_scale * w_scale[m]) / y_scale                        in float32, in this order
v[m, p] = float32(acc[m, p]) * s[m]                            in float32, the conversion rounded half to even
v[m, p] = min(max(v[m, p], LOW - y_zero_point), HIGH - y_zero_point)
y[m, p] = round_half_even(v[m, p]) + y_zero_point              of x's type
A w_scale of one value serves every m."""
FRAGMENT = Fragment(
    "qlinear_conv",
    45,
    """\
# ONNX QLinearConv, the quantised convolution, -> uint8 or int8 (type).
# multiplier[n] = (a_scale * b_scale[n]) / y_scale, each of the two one IEEE float32 operation: computed once, and its
# bits are the constant.  The accumulator is exact in int32; it is rounded to float32, the product is one IEEE float32
# operation.  A value outside the image contributes 0.
fragment qlinear_conv(
    a: tensor<scalar>,                      # codes (vectors, channels * height * width)
    weights: tensor<integer>,               # int8 or uint8 (K, N): channels of a group, rows, columns of the kernel
    weights_zero_point: tensor<integer>,    # int32 (1, N)
    bias: tensor<integer>,                  # int32 (1, N)
    multiplier: tensor<scalar>,             # float32 (1, N)
    b_scale: tensor<scalar>,                # float32 (1, N): the multiplier holds it
    window: tensor<integer>,                # int32 (6, 2): image, kernel, stride, dilation, padding before, output
    groups: integer,
    alpha: scalar, a_scale: scalar,         # float32: the multiplier holds them
    a_zero_point: integer,
    y_scale: scalar,                        # float32: the multiplier holds it
    y_zero_point: integer,
    low: integer, high: integer,            # the least and the greatest code
    columns: integer[],                     # which N channels of its layer, times its positions
    type: string)
-> (y: tensor<scalar>);
""",
    (ROUND_HALF_EVEN,),
)
BIAS = 8  # the position of B among the inputs
WEIGHTS, WEIGHTS_SCALE, WEIGHTS_ZERO_POINT = "alone/weights", "alone/weights_scale", "alone/weights_zero_point"
ACCUMULATORS = "alone/accumulators"


@dataclass(frozen=True, eq=False)
class QLinearConv(Convolution, Contraction):
    """The contraction over windows; a channel has weights for the inputs of its group."""

    ONNX = (("", "QLinearConv"),)
    text = Contraction.text.but(
        FORMULA,
        ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B"),
        (FRAGMENT,),
        parameters=(3, 8),
        facts_of=lambda layer: Contraction.text.facts_of(layer) | layer.window.facts() | {"groups": layer.groups},
        summary_of=lambda layer: (*Contraction.text.summary_of(layer), layer.summary_of_window()),
    )

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of windows, channels and groups of codes."""
        convolved(node, node.input(3), node.has(8))
        node.same_type(node.y, node.has(7)).same_type(node.x, node.has(2)).same_type(node.input(3), node.has(5))
        node.is_type(node.has(8), np.int32)
        node.per_channel(4, node.y.size(1))
        for position in (1, 6):
            node.per_tensor(position)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant weights whose accumulators fit into int32."""
        node.require_inputs(8, 9)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes(DEFAULTS | {"group": 1})
        groups = attributes["group"]
        accepted = [UINT8, INT8] if source.dtype == UINT8 else [INT8]
        weights = read_weights(node, 3, source, groups, accepted)
        width = len(weights)
        b_scale, weights_zero_point = _weight_quantisation(node, weights.dtype, width)
        scales = Scales(
            alpha=np.float32(1),
            a=node.scale(1, "scale of x"),
            b=np.broadcast_to(b_scale.reshape(-1), width),
            y=node.scale(6, "scale of y"),
        )
        multiplier = scales.multiplier()
        node.normal(multiplier, "multiplier x_scale * w_scale / y_scale")
        window = Window.read(node, source, weights.shape[2:], attributes)
        output = (width, *window.result(source))
        layer = cls(
            **fields(node, [source], output, source.dtype),
            weights=np.ascontiguousarray(weights.reshape(width, -1).T),
            weights_zero_point=np.full(width, weights_zero_point, np.int32),
            bias=_bias(node, width),
            multiplier=multiplier,
            scales=scales,
            a_zero_point=int(node.single(2, "zero point of x", [source.dtype])),
            y_zero_point=int(node.single(7, "zero point of y", [source.dtype])),
            per_column=b_scale.size > 1,
            window=window,
            group_count=groups,
        )
        layer.require_int32(node)
        return layer

    def summed(self) -> Stage:
        """Return the sum of each window."""
        zero_points = [constant(f"{name}_zero_point", INT32) for name in ("input", "weights")]
        return self.sum_of_windows(
            "acc", lambda bias: bias, lambda x, w: (integer(x) - zero_points[0]) * (integer(w) - zero_points[1])
        )

    def numbers(self) -> Mapping[str, Any]:
        """Return the constants of the definition; all channels have one zero point."""
        return {**super().numbers(), "weights_zero_point": self.weights_zero_point[:1]}

    @property
    def padding(self) -> int:
        """The zero point, which contributes 0."""
        return self.a_zero_point

    def constants(self) -> Constants:
        """Return the tables, then the numbers."""
        found = dict(super().constants())
        tables = {name: found.pop(name) for name in ("weights", "weights_zero_point", "bias", "multiplier", "b_scale")}
        return tables | {"window": self.window.table(), "groups": self.groups} | found

    def terms(self) -> npt.NDArray[np.intp]:
        """Return the number of the term of each input: its channel in the group, and its place in a window."""
        places = self.window.alignments()
        channel = np.arange(self.input.shape[0]) % (self.input.shape[0] // self.groups)
        terms = channel[None, :, None] * self.window.size + places[:, None, :]
        return terms.reshape(len(places), -1)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of contractions; then wrong windows, padding, layouts and groups."""
        yield from super().fault_models(*inputs)
        [x] = inputs
        for cause, wrong, values in self.wrong_places(x, self.a_zero_point):
            yield FaultModel(cause, WINDOWS, contraction_faults.finish(self, wrong.accumulate()(values)))
        if not self.window.inside().all():
            weights = self.weights.astype(np.int64) - self.weights_zero_point
            inside = self.contract(np.ones((1, self.input.size), np.int64), weights)
            outside = self.spread(weights.sum(axis=0)) - inside
            acc = self.accumulate()(x) - self.a_zero_point * outside
            yield FaultModel("padding is the code 0", "it contributes 0", contraction_faults.finish(self, acc))

    def window_vectors(self) -> WindowVectors | None:
        """Return the vectors in which windows differ; None if there is one window."""
        return None if self.positions == 1 else WindowVectors(self.window, self.input.shape[0], self.groups)

    def isolate(self, node: onnx.NodeProto) -> tuple[list[onnx.ValueInfoProto], Callable[[Array], dict[str, Array]]]:
        """Give each accumulator a channel of its own, whose weight is at its zero point and whose bias it is."""
        codes, weights = map(onnx.helper.np_dtype_to_tensor_dtype, (self.input.dtype, self.weights.dtype))
        names = {0: ALONE, 3: WEIGHTS, 5: WEIGHTS_ZERO_POINT, BIAS: ACCUMULATORS}
        if self.per_column:
            names[4] = WEIGHTS_SCALE
        node.input.extend([""] * (BIAS + 1 - len(node.input)))
        for position, name in names.items():
            node.input[position] = name
        del node.attribute[:]
        value_info = onnx.helper.make_tensor_value_info
        inputs = [
            value_info(ALONE, codes, [1, 1, 1, 1]),
            value_info(WEIGHTS, weights, [None, 1, 1, 1]),
            value_info(WEIGHTS_ZERO_POINT, weights, []),
            value_info(ACCUMULATORS, onnx.TensorProto.INT32, [None]),
            *([value_info(WEIGHTS_SCALE, onnx.TensorProto.FLOAT, [None])] if self.per_column else []),
        ]
        zero_point = np.array(self.weights_zero_point[0], self.weights.dtype)
        scales = self.spread(self.scales.b)

        def feed(bits: Array) -> dict[str, Array]:
            given = {
                ALONE: np.full((1, 1, 1, 1), self.a_zero_point, self.input.dtype),
                WEIGHTS: np.full((bits.size, 1, 1, 1), zero_point),
                WEIGHTS_ZERO_POINT: zero_point,
                ACCUMULATORS: bits.view(np.int32).reshape(-1),
            }
            return given | ({WEIGHTS_SCALE: np.tile(scales, len(bits))} if self.per_column else {})

        return inputs, feed


def _weight_quantisation(node: Node, dtype: np.dtype[Any], channels: int) -> tuple[Array, int]:
    """Return w_scale, of shape (), (1,) or (M,), and the zero point; ONNX Runtime wants one for all channels."""
    scale = node.normal(node.constant(4, "scale of w", [np.dtype(np.float32)]), "scale of w")
    zero_point = node.constant(5, "zero point of w", [dtype])
    accepted = ((), (1,), (channels,))
    if scale.shape not in accepted or zero_point.shape not in accepted:
        raise node.refusal(
            f"scale and zero point of w have shapes {scale.shape} and {zero_point.shape}",
            f"shapes (), (1,) or ({channels},)",
        )
    if (zero_point != zero_point.reshape(-1)[0]).any():
        raise node.refusal("the zero points of w differ", "one zero point for all channels, as ONNX Runtime wants it")
    return scale, int(zero_point.reshape(-1)[0])


def _bias(node: Node, channels: int) -> npt.NDArray[np.int32]:
    if not node.has(BIAS):
        return np.zeros(channels, np.int32)
    bias = node.constant(BIAS, "bias", [np.dtype(np.int32)])
    if bias.shape != (channels,):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape ({channels},)")
    return bias

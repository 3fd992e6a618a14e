"""QLinearConv (ONNX): the quantised convolution over images (channels, height, width) or sequences.

acc[n, p] = bias[n] + sum_k (a[p, k] - a_zero_point) * (weights[k, n] - weights_zero_point)    in int32
m[n]      = (a_scale * w_scale[n]) / y_scale                                                   float32
y[n, p]   = saturate(round_half_even(float32(acc[n, p]) * m[n]) + y_zero_point)                uint8, int8

a[p, k] is value k of the window at position p: k counts the channels of the group of n, then rows, then columns.  A
value outside the image contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from harness.core.arrays import Array
from harness.operators import contraction_faults
from harness.operators.base import ALONE, Constants, fields
from harness.operators.contraction import Contraction, Scales
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.tensor import INT8, UINT8, Tensor
from harness.operators.text import ROUND_HALF_EVEN, Fragment
from harness.operators.window import DEFAULTS, Window

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
WINDOWS = "windows, channels and groups as ONNX says"
BIAS = 8  # the position of B among the inputs
WEIGHTS, WEIGHTS_SCALE, WEIGHTS_ZERO_POINT = "alone/weights", "alone/weights_scale", "alone/weights_zero_point"
ACCUMULATORS = "alone/accumulators"
BYTES_OF_PATCHES = 1 << 25
"""Patches of so many bytes are in memory at once."""


@dataclass(frozen=True, eq=False)
class QLinearConv(Contraction):
    """The contraction over windows; a channel has weights for the inputs of its group."""

    ONNX = (("", "QLinearConv"),)
    formula = FORMULA
    roles = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point", "B")
    parameters = (3, 8)
    fragments = (FRAGMENT,)

    window: Window
    group_count: int

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant weights whose accumulators fit into int32."""
        node.require_inputs(8, 9)
        source = node.activation(0, [UINT8, INT8])
        attributes = node.attributes(DEFAULTS | {"group": 1})
        weights, groups = _weights(node, source, attributes["group"]), attributes["group"]
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
        output = (width, *window.output[3 - len(source.shape) :])
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

    @property
    def groups(self) -> int:
        """The attribute group."""
        return self.group_count

    def constants(self) -> Constants:
        """Return the tables, then the numbers."""
        found = dict(super().constants())
        tables = {name: found.pop(name) for name in ("weights", "weights_zero_point", "bias", "multiplier", "b_scale")}
        return tables | {"window": self.window.table(), "groups": self.groups} | found

    def facts(self) -> dict[str, Any]:
        """Return the facts of a contraction, and the window."""
        return super().facts() | self.window.facts() | {"groups": self.groups}

    def summary(self) -> tuple[str, ...]:
        """Return multipliers, zero points, and the window."""
        window = self.window
        kernel = "x".join(map(str, window.kernel))
        stride = f" stride {window.stride[0]}x{window.stride[1]}" if window.stride != (1, 1) else ""
        groups = f" groups {self.groups}" if self.groups > 1 else ""
        return (*super().summary(), f"kernel {kernel}{stride}{groups}")

    def patches(self, values: Array, padding: int) -> Iterator[tuple[slice, Array]]:
        """Yield for each group its channels and its windows, (n * positions, K)."""
        depth, width = self.weights.shape
        inputs = values.reshape(len(values), self.groups, -1, self.window.shape[0] * self.window.shape[1])
        for group in range(self.groups):
            windows = self.window.views(inputs[:, group], padding).transpose(0, 2, 3, 1, 4, 5)
            share = width // self.groups
            yield slice(group * share, (group + 1) * share), windows.reshape(-1, depth)

    def contract(self, values: Array, weights: Array) -> Array:
        """Return the sums of products; a few vectors at once, and one place of the kernel if groups have one input."""
        if len(weights) == self.window.size:
            return self._contract_by_places(values, weights)
        at_once = max(BYTES_OF_PATCHES // (self.positions * len(weights) * values.itemsize), 1)
        parts = [super(QLinearConv, self).contract(values[at : at + at_once], weights)
                 for at in range(0, len(values), at_once)]  # fmt: skip
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _contract_by_places(self, values: Array, weights: Array) -> Array:
        share = weights.shape[1] // self.groups
        views = self.window.views(values.reshape(len(values), self.groups, -1), 0)
        sums = np.zeros((len(values), self.groups, share, *self.window.output), values.dtype)
        for place, of_place in enumerate(weights.reshape(len(weights), 1, self.groups, share, 1, 1)):
            sums += views[..., place // self.window.kernel[1], place % self.window.kernel[1]][:, :, None] * of_place
        return sums.reshape(len(values), -1)

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
        for cause, wrong, values in (*self._wrong_windows(x), *self._wrong_layouts(x)):
            yield FaultModel(cause, WINDOWS, contraction_faults.finish(self, wrong.accumulate()(values)))
        if not self.window.inside().all():
            weights = self.weights.astype(np.int64) - self.weights_zero_point
            inside = self.contract(np.ones((1, self.input.size), np.int64), weights)
            outside = self.spread(weights.sum(axis=0)) - inside
            acc = self.accumulate()(x) - self.a_zero_point * outside
            yield FaultModel("padding is the code 0", "it contributes 0", contraction_faults.finish(self, acc))

    def _wrong_windows(self, x: Array) -> Iterator[tuple[str, Self, Array]]:
        """Yield cause, layer and inputs of windows at other places."""
        window = self.window
        kernels = self.weights.reshape(-1, *window.kernel, self.weights.shape[1])
        zero_point = x.dtype.type(self.a_zero_point)
        for axis, name in enumerate(("row", "column")):
            if window.shape[axis] == 1:
                continue
            before = tuple(size + (axis == each) for each, size in enumerate(window.before))
            early = replace(window, before=before)  # type: ignore[arg-type] # two axes
            yield f"the windows begin one {name} too early", replace(self, window=early), x
            late = np.roll(x.reshape(-1, *window.shape), -1, axis=1 + axis)
            late[(slice(None), -1) if axis == 0 else (slice(None), slice(None), -1)] = zero_point
            yield f"the windows begin one {name} too late", self, late.reshape(x.shape)
        if max(window.dilation) > 1:
            yield "the dilation is left out", replace(self, window=replace(window, dilation=(1, 1))), x
        if window.size > 1:
            yield "the kernel is flipped", self._with(kernels[:, ::-1, ::-1]), x
        if window.kernel[0] == window.kernel[1] > 1:
            yield "rows and columns of the kernel are exchanged", self._with(kernels.swapaxes(1, 2)), x

    def _wrong_layouts(self, x: Array) -> Iterator[tuple[str, Self, Array]]:
        """Yield the same of channels and groups at other places in memory."""
        window, (depth, width) = self.window, self.weights.shape
        images = x.reshape(len(x), self.groups, -1, window.shape[0] * window.shape[1])
        inputs = images.shape[2]
        if self.input.shape[0] > 1:
            last = x.reshape(len(x), -1, self.input.shape[0]).swapaxes(1, 2)
            yield "the channels of the input are read as the last axis", self, last.reshape(x.shape)
        if inputs > 1:
            yield "the channels of the input are in the opposite order", self, images[:, :, ::-1].reshape(x.shape)
            stored = np.ascontiguousarray(self.weights.T).reshape(width, window.size, inputs)
            channels_last = stored.swapaxes(1, 2).reshape(width, depth).T
            yield "the channels of the weights are read as the last axis", self._with(channels_last), x
        if self.groups > 1:
            of_first = np.repeat(images[:, :1], self.groups, axis=1)
            yield "every group reads the inputs of the first", self, of_first.reshape(x.shape)
            of_turns = images.reshape(len(x), inputs, self.groups, -1).swapaxes(1, 2)
            yield "the inputs belong to the groups in turn", self, of_turns.reshape(x.shape)

    def _with(self, weights: Array) -> Self:
        return replace(self, weights=weights.reshape(self.weights.shape))

    def whole_sums(self) -> npt.NDArray[np.intp]:
        """Return the number of the window that has each input; the channels have the same windows."""
        return np.tile(self.window.whole_windows(), self.input.shape[0])

    def slice(self, start: int, stop: int, name: str) -> Self | None:
        """Return whole channels of a convolution of one group; None for parts of channels and for groups."""
        if self.groups > 1 or start % self.positions or stop % self.positions:
            return None
        taken = slice(start // self.positions, stop // self.positions)
        return replace(
            self,
            name=name,
            output=replace(self.output, shape=(taken.stop - taken.start, *self.output.shape[1:])),
            weights=self.weights[:, taken],
            weights_zero_point=self.weights_zero_point[taken],
            bias=self.bias[taken],
            multiplier=self.multiplier[taken],
            scales=replace(self.scales, b=self.scales.b[taken]),
        )

    def at_one_position(self) -> Self:
        """Return the layer with one value for each channel, whose rounding is that of every position."""
        return replace(self, output=replace(self.output, shape=(len(self.multiplier),)))

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


def _weights(node: Node, source: Tensor, groups: int) -> Array:
    """Return w, (M, channels / groups, kernel...), of a type that ONNX Runtime multiplies with the input's."""
    accepted = [UINT8, INT8] if source.dtype == UINT8 else [INT8]
    weights = node.constant(3, f"weight for a {source.dtype} input", accepted)
    channels = source.shape[0]
    if groups < 1 or channels % groups:
        raise node.refusal(f"group is {groups}, the input has {channels} channels", "a divisor of the channels")
    if weights.ndim != len(source.shape) + 1 or weights.shape[1] != channels // groups or weights.size == 0:
        raise node.refusal(
            f"the weights have shape {weights.shape}, the input has {channels} channels in {groups} groups",
            f"shape (M, {channels // groups}, kernel...) with {len(source.shape) - 1} sizes of the kernel",
        )
    if len(weights) % groups:
        raise node.refusal(f"{len(weights)} channels of the output in {groups} groups", "a multiple of the groups")
    return weights


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

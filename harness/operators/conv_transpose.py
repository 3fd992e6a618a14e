"""ConvTranspose (ONNX), float32, over images (channels, height, width) or sequences (channels, length).

acc     = B[m] + 0                                     a bias of -0 counts as 0
acc     = acc + x[c, p, q] * W[c, m, i, j]             for the channels c of the group of m, then i, then j
y[m, row, column] = acc                                for row = p * stride - pad + i * dilation, columns likewise

A place (i, j) of the kernel without an input (p, q) for this row and column is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Ability, fields
from harness.operators.conv import FloatConvolution, read_bias
from harness.operators.fault_models import FaultModel
from harness.operators.float_contraction import ORDER, in_order, read_finite
from harness.operators.frames import Streaming
from harness.operators.node import Node
from harness.operators.rules import Rules
from harness.operators.sizes import Size
from harness.operators.tensor import FLOAT32, Tensor
from harness.operators.text import Fragment
from harness.operators.window import DEFAULTS, Window
from harness.operators.windowed import divided

FRAGMENT = Fragment(
    "conv_transpose_float32",
    46,
    """\
# ONNX ConvTranspose: y[m, p] is the bias plus the products of the inputs that reach p, added by channel, row and column
# of the kernel; each product and each sum is one IEEE float32 operation.
fragment conv_transpose_float32(
    x: tensor<scalar>,                      # float32 (vectors, channels * height * width)
    weights: tensor<scalar>,                # float32 (K, N): one column a channel of the output
    bias: tensor<scalar>,                   # float32 (1, N)
    window: tensor<integer>,                # int32 (6, 2): image y, kernel, stride, dilation, padding before, image x
    groups: integer,
    columns: integer[],                     # which N channels of its layer, times its positions
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class ConvTranspose(FloatConvolution):
    """The transpose of the Conv that reads y and writes x; `window` has the windows of this Conv."""

    ONNX = (("", "ConvTranspose"),)
    text = FloatConvolution.text.but(
        """\
acc = B[m]                                               and -0 counts as 0
acc = acc + x[c, p, q] * W[c, m, i, j]                   for the channels c of the group of m, then i, then j,
                                                         each operation rounded to float32; left out without an input
y[m, row, column] = acc                                  row = p * stride - pad + i * dilation, columns likewise""",
        fragments=(FRAGMENT,),
    )
    division = Ability(lambda layer: divided(layer, ("channels",)))
    streaming = Ability(Streaming)  # none, as a frame of the output needs frames that come later

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State the sizes of the output, from those of windows that would give the input."""
        x, weights, y = node.x, node.input(1), node.y
        groups, shape = node.attribute("group", 1), node.attribute("output_shape", [])
        node.same_type(*node.given_inputs, y).all_equal(x.rank, weights.rank, y.rank)
        node.equals(x.size(0), y.size(0)).equals(x.size(1), weights.size(0))
        node.sum_is_zero((groups, weights.size(1)), (-1, y.size(1)))
        if bias := node.has(2):
            node.equals(bias.rank, 1).equals(bias.size(0), y.size(1))

        def sizes(rank: int) -> None:
            axes, how = rank - 2, node.attribute("auto_pad", "NOTSET")
            strides, dilations, more, pads = (
                node.attribute(name, [one] * count)
                for name, one, count in (
                    ("strides", 1, axes),
                    ("dilations", 1, axes),
                    ("output_padding", 0, axes),
                    ("pads", 0, 2 * axes),
                )
            )
            for at, kernel in enumerate(node.attribute("kernel_shape", [])):
                node.equals(weights.size(2 + at), kernel)
            for at in range(axes):
                size, constant = y.size(2 + at), more[at] + 1 - strides[at] - dilations[at]
                if shape:
                    node.equals(size, shape[at - axes])
                elif how.startswith("SAME"):
                    node.sum_is_zero((strides[at], x.size(2 + at)), (-1, size))
                else:
                    constant -= 0 if how == "VALID" else pads[at] + pads[at + axes]
                    node.sum_is_zero(
                        (strides[at], x.size(2 + at)),
                        (-1, size),
                        (dilations[at], weights.size(2 + at)),
                        (1, Size.of(constant)),
                    )

        node.given(x.rank).then(sizes)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant, finite weights and stated padding."""
        node.require_inputs(2, 3)
        source = node.activation(0, [FLOAT32])
        attributes = node.attributes(DEFAULTS | {"group": 1, "output_padding": [], "output_shape": []})
        weights, groups = read_finite(node, 1, "weight"), attributes["group"]
        channels, axes = source.shape[0], len(source.shape) - 1
        if axes not in (1, 2) or weights.ndim != axes + 2 or weights.shape[0] != channels or not weights.size:
            raise node.refusal(
                f"the weights have shape {weights.shape}, the input {source.shape}",
                "images or sequences, weights (channels, M / groups, kernel...)",
            )
        if groups < 1 or channels % groups:
            raise node.refusal(f"group is {groups}, the input has {channels} channels", "a divisor of the channels")
        share, kernel, width = weights.shape[1], weights.shape[2:], groups * weights.shape[1]
        bias = read_bias(node, width)
        window = _window(node, source, kernel, attributes)
        of_groups = weights.reshape(groups, channels // groups, share, -1)
        layer = cls(
            **fields(node, [source], (width, *window.shape[2 - axes :]), FLOAT32),
            weights=np.ascontiguousarray(of_groups.transpose(1, 3, 0, 2).reshape(-1, width)),
            bias=bias,
            window=window,
            group_count=groups,
        )
        return replace(layer, output=replace(layer.output, bound=layer.bound_of_output()))

    def views(self, images: Array, padding: float) -> Array:
        """Return the input of each place of the kernel, (n, channels, *image y, *kernel), `padding` without one."""
        window, (count, channels) = self.window, images.shape[:2]
        reach = [(size - 1) * step for size, step in zip(window.kernel, window.dilation, strict=True)]
        spread = [(size - 1) * step + 1 for size, step in zip(window.output, window.stride, strict=True)]
        behind = [before + size for before, size in zip(window.before, window.shape, strict=True)]
        sizes = [most + max(pair) for most, *pair in zip(reach, behind, spread, strict=True)]
        placed = np.full((count, channels, *sizes), padding).astype(images.dtype, copy=False)
        rows, columns = (
            slice(first, first + size, step) for first, size, step in zip(reach, spread, window.stride, strict=True)
        )
        placed[:, :, rows, columns] = images.reshape(count, channels, *window.output)
        extents = tuple(most + 1 for most in reach)
        found = np.lib.stride_tricks.sliding_window_view(placed, extents, axis=(2, 3))
        rows, columns = (slice(before, before + size) for before, size in zip(window.before, window.shape, strict=True))
        view: Array = found[:, :, rows, columns, :: window.dilation[0], :: window.dilation[1]][..., ::-1, ::-1]
        return view

    def places(self) -> npt.NDArray[np.intp]:
        """Return the place in x of each term of each sum, (N, positions, K); -1 without an input."""
        numbers = np.arange(self.input.size, dtype=np.float64)[None]
        share = self.weights.shape[1] // self.groups
        of_groups = (patch for _, patch in self.patches(numbers, -1))
        return np.repeat(np.stack([each.astype(np.intp) for each in of_groups]), share, axis=0)

    def sum_faults(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of sums, and sums in the order of col2im."""
        yield from super().sum_faults(*inputs)
        if 1 < self.window.size < len(self.weights):
            sums = self.summed(inputs[0], self._by_places)
            yield FaultModel("the channels are added first, then the places of the kernel (col2im)", ORDER, sums)

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield those of sums; wrong places, layouts and groups."""
        yield from super().fault_models(*inputs)
        [x] = inputs
        size = self.window.size
        kernels = self.weights.reshape(-1, *self.window.kernel, self.weights.shape[1])
        if size > 1:
            yield FaultModel("the kernel is flipped", ORDER, self._with(kernels[:, ::-1, ::-1]).prepare()(x))
        images = x.reshape(len(x), *self.input.shape)
        for name, axis in (("row", -2), ("column", -1))[2 - (images.ndim - 2) :]:
            moved = np.roll(images, 1, axis=axis).reshape(x.shape)
            yield FaultModel(f"the input is moved by one {name}", "the windows of ONNX", self.prepare()(moved))
        if len(self.weights) > size:
            other = self._with(kernels[::-1]).prepare()(x)
            yield FaultModel("the channels of the input are in the opposite order", "in their order", other)
        if self.groups > 1:
            first = np.repeat(images[:, : images.shape[1] // self.groups], self.groups, axis=1).reshape(x.shape)
            yield FaultModel("every group reads the inputs of the first", "its own", self.prepare()(first))

    def _by_places(self, patch: Array, weights: Array, bias: Array) -> Array:
        size, total = self.window.size, np.zeros((len(patch), len(bias)), np.float32)
        for place in range(size):
            total = total + in_order(patch[:, place::size], weights[place::size], np.zeros_like(bias))
        return total + bias


def _window(node: Node, source: Tensor, kernel: tuple[int, ...], attributes: dict[str, Any]) -> Window:
    """Return the windows of the Conv that reads y and writes x."""
    axes, how = len(kernel), attributes["auto_pad"].decode(errors="replace")
    defaults = {"strides": [1] * axes, "dilations": [1] * axes, "pads": [0] * (2 * axes), "output_padding": [0] * axes}
    geometry = {name: list(attributes[name]) or default for name, default in defaults.items()}
    stated = list(attributes["output_shape"])
    _require_known(node, kernel, attributes, geometry, how)
    strides, dilations, pads, more = geometry.values()
    pads = [0] * (2 * axes) if how == "VALID" else pads
    whole = [
        (size - 1) * stride + extra + (count - 1) * dilation + 1
        for size, stride, extra, count, dilation in zip(source.shape[1:], strides, more, kernel, dilations, strict=True)
    ]
    if stated or how.startswith("SAME"):
        shape = stated or [size * stride for size, stride in zip(source.shape[1:], strides, strict=True)]
        rests = [max(size - kept, 0) for size, kept in zip(whole, shape, strict=True)]
        begins = [rest // 2 if how == "SAME_UPPER" else rest - rest // 2 for rest in rests]
        _require_reached(node, shape, whole, strides if stated else [1] * axes)
    else:
        begins = pads[:axes]
        shape = [size - begin - end for size, begin, end in zip(whole, begins, pads[axes:], strict=True)]
    if min(shape) < 1:
        raise node.refusal(f"the output has shape {shape}", "less padding")
    one, none = (1,) * (2 - axes), (0,) * (2 - axes)
    return Window(
        shape=(*one, *shape),
        kernel=(*one, *kernel),
        stride=(*one, *strides),
        dilation=(*one, *dilations),
        before=(*none, *begins),
        output=(*one, *source.shape[1:]),
    )


def _require_known(
    node: Node, kernel: tuple[int, ...], attributes: dict[str, Any], geometry: dict[str, list[int]], how: str
) -> None:
    """Raise RequestError for attributes that do not fit each other, or that ONNX Runtime refuses."""
    axes, stated = len(kernel), list(attributes["output_shape"])
    strides, dilations, pads, more = geometry.values()
    fits = not stated or (len(stated) == axes and how != "VALID")
    if how not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or not fits:
        raise node.refusal(f"auto_pad is {how}, output_shape {stated}", f"{axes} sizes and no auto_pad of VALID")
    counts = [len(strides), len(dilations), len(pads) // 2, len(more)]
    if counts != [axes] * 4 or len(pads) % 2 or min(strides + dilations) < 1:
        raise node.refusal(f"strides, dilations, pads and output_padding are {geometry}", f"{axes} numbers an axis")
    if (tuple(attributes["kernel_shape"]) or kernel) != kernel or min(pads + more) < 0:
        raise node.refusal(
            f"kernel_shape {attributes['kernel_shape']}, {geometry}", "the weights' shape, pads of 0 or more"
        )
    if any(extra >= stride for extra, stride in zip(more, strides, strict=True)):
        raise node.refusal(f"output_padding is {more}", "less than the stride, as ONNX Runtime requires")


def _require_reached(node: Node, shape: list[int], whole: list[int], limits: list[int]) -> None:
    """Refuse an output that is larger than all windows by a limit: ONNX Runtime fails, or has a smaller one."""
    if any(size - most >= limit for size, most, limit in zip(shape, whole, limits, strict=True)):
        sizes = tuple(most + limit - 1 for most, limit in zip(whole, limits, strict=True))
        raise node.refusal(f"the output has shape {tuple(shape)}", f"at most {sizes}")

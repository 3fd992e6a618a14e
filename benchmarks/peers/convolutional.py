"""Convolutional networks in the shapes of LeNet-5 and of MLPerf Tiny: as quantised model, as float network, as tables.

The weights are random, and a maximum stands where those networks have an average.  All codes have one scale and one
zero point.  The float network has the weights and biases that the codes stand for, and ReLU after every sum but the
last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.linear import Linear
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_conv import QLinearConv

SEED = 1
TYPICAL = 70
"""Standard deviation of random codes and weights, about."""
SCALE, ZERO_POINT = np.float32(0.02), 3
SHIFT = 128
"""Difference between the codes of LiteRT, int8, and those of a model with uint8 activations."""


@dataclass
class Builder:
    """A network under construction; its last tensor has `shape`, and all have codes of one scale and zero point."""

    shape: tuple[int, ...]
    activations: str
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    tensor: str = "x"

    def __post_init__(self) -> None:
        """Read one row of values as an image of codes."""
        self.size = math.prod(self.shape)
        self.codes = [self.constant("scale", SCALE), self.constant("zero", np.array(ZERO_POINT, self.activations))]
        self.node("QuantizeLinear", *self.codes)
        self.node("Reshape", self.constant("image", np.array([-1, *self.shape])))

    def constant(self, name: str, value: Array | np.generic) -> str:
        """Add a constant."""
        self.constants[name] = np.asarray(value)
        return name

    def node(self, operator: str, *others: str, domain: str = "", **attributes: object) -> None:
        """Add a node that reads the last tensor and `others`."""
        output = f"t{len(self.nodes)}"
        inputs = [self.tensor, *others]
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, domain=domain, **attributes))
        self.tensor = output

    def _weights(self, channels: int, *others: int, axis: int = 0) -> list[str]:
        """Return weights, their scale and zero point: outputs spread over the codes."""
        name, depth = f"w{len(self.nodes)}", math.prod(others)
        shape = (channels, *others) if axis == 0 else (*others, channels)
        scale = self.rng.uniform(0.5, 1.5, channels) / (TYPICAL * math.sqrt(depth))
        return [
            self.constant(name, self.rng.integers(-127, 128, shape).astype(np.int8)),
            self.constant(f"{name}_scale", scale.astype(np.float32)),
            self.constant(f"{name}_zero", np.zeros(channels, np.int8)),
        ]

    def _bias(self, channels: int) -> str:
        return self.constant(f"b{len(self.nodes)}", self.rng.integers(-2000, 2000, channels).astype(np.int32))

    def conv(
        self, channels: int, kernel: tuple[int, int], stride: int = 1, *, groups: int = 1, same: bool = True
    ) -> None:
        """Add a convolution; `same` pads as TensorFlow does."""
        sizes = self.shape[1:]
        missing = [(size - 1) // stride * stride + k - size for size, k in zip(sizes, kernel, strict=True)]
        pads = [max(each, 0) for each in missing] if same else [0, 0]
        before = [pad // 2 for pad in pads]
        after = [pad - begin for pad, begin in zip(pads, before, strict=True)]
        weights = self._weights(channels, self.shape[0] // groups, *kernel)
        others = (*self.codes, *weights, *self.codes, self._bias(channels))
        self.node("QLinearConv", *others, group=groups, strides=[stride] * 2, pads=before + after)
        outputs = [(size + pad - k) // stride + 1 for size, pad, k in zip(sizes, pads, kernel, strict=True)]
        self.shape = channels, *outputs

    def depthwise(self, stride: int = 1) -> None:
        """Add a convolution 3 x 3 of every channel."""
        self.conv(self.shape[0], (3, 3), stride, groups=self.shape[0])

    def pool(self, rows: int, columns: int) -> None:
        """Add a pooling without overlap."""
        self.node("MaxPool", kernel_shape=[rows, columns], strides=[rows, columns])
        self.shape = self.shape[0], self.shape[1] // rows, self.shape[2] // columns

    def add(self, other: str) -> None:
        """Add another tensor of the same shape."""
        self.node("QLinearAdd", *self.codes, other, *self.codes, *self.codes, domain="com.microsoft")

    def dense(self, *widths: int) -> None:
        """Flatten, and add dense layers."""
        self.node("Flatten")
        depth = math.prod(self.shape)
        for width in widths:
            weights = self._weights(width, depth, axis=1)
            self.node("QGemm", *self.codes, *weights, self._bias(width), *self.codes, domain="com.microsoft")
            depth = width
        self.shape = (depth,)

    def model(self) -> onnx.ModelProto:
        """Return the network with a float output."""
        self.node("DequantizeLinear", *self.codes)
        graph = helper.make_graph(
            self.nodes,
            "benchmark",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, self.size])],
            [helper.make_tensor_value_info(self.tensor, TensorProto.FLOAT, [1, *self.shape])],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def lenet5(activations: str) -> onnx.ModelProto:
    """Return 28 x 28, two convolutions 5 x 5, three dense layers."""
    build = Builder((1, 28, 28), activations)
    build.conv(6, (5, 5), same=False)
    build.pool(2, 2)
    build.conv(16, (5, 5), same=False)
    build.pool(2, 2)
    build.dense(120, 84, 10)
    return build.model()


def resnet8(activations: str) -> onnx.ModelProto:
    """Return MLPerf Tiny's image classification."""
    build = Builder((3, 32, 32), activations)
    build.conv(16, (3, 3))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        begin, shape = build.tensor, build.shape
        build.conv(channels, (3, 3), stride)
        build.conv(channels, (3, 3))
        end = build.tensor
        if stride > 1:
            build.tensor, build.shape = begin, shape
            build.conv(channels, (1, 1), stride)
            begin, build.tensor = build.tensor, end
        build.add(begin)
    build.pool(8, 8)
    build.dense(10)
    return build.model()


def ds_cnn(activations: str) -> onnx.ModelProto:
    """Return MLPerf Tiny's keyword spotting."""
    build = Builder((1, 49, 10), activations)
    build.conv(64, (10, 4), 2)
    for _ in range(4):
        build.depthwise()
        build.conv(64, (1, 1))
    build.pool(25, 5)
    build.dense(12)
    return build.model()


def mobilenet(activations: str) -> onnx.ModelProto:
    """Return MLPerf Tiny's visual wake words: MobileNetV1, a quarter of the channels."""
    build = Builder((3, 96, 96), activations)
    build.conv(8, (3, 3), 2)
    strides = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1))
    for channels, stride in strides:
        build.depthwise(stride)
        build.conv(channels, (1, 1))
    build.pool(3, 3)
    build.dense(2)
    return build.model()


NETWORKS: dict[str, Callable[[str], onnx.ModelProto]] = {
    "lenet5_int8": lenet5,
    "resnet8": resnet8,
    "ds_cnn": ds_cnn,
    "mobilenet": mobilenet,
}


KINDS = {
    "QLinearConv": "conv",
    "Conv": "conv",
    "MaxPool": "pool",
    "AveragePool": "mean",
    "QGemm": "dense",
    "Gemm": "dense",
    "QLinearAdd": "add",
    "Relu": "relu",
    "Tanh": "tanh",
    "Softmax": "softmax",
}
"""The operators of steps, by ONNX operator."""


@dataclass(frozen=True)
class Step:
    """A layer of the float network and of LiteRT's file: `inputs` are numbers of steps, -1 the network's input.

    `shape` is that of its output without the batch: (channels, height, width) or (values,).  A float network has its
    `relu`; that of a quantised one has it after every sum but the last.
    """

    operator: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    stride: int = 1
    pads: tuple[int, ...] = ()
    relu: bool = False


def steps(net: Network) -> list[tuple[Step, Layer]]:
    """Return the layers that compute, in their order; others only change the form of a tensor."""
    found: list[tuple[Step, Layer]] = []
    number = {net.vector.name: -1}
    for layer in net.layers:
        sources = tuple(number[name] for name in layer.sources)
        step = _step(layer, sources)
        if step and step.operator == "relu":
            found[-1] = replace(found[-1][0], relu=True), found[-1][1]
            step = None
        if step:
            found.append((step, layer))
        number[layer.output.name] = len(found) - 1 if step else sources[0]
    return found


def _step(layer: Layer, sources: tuple[int, ...]) -> Step | None:
    kind, shape = KINDS.get(layer.operator, ""), layer.output.shape
    window = getattr(layer, "window", None)
    if window is None:
        return Step(kind, sources, shape) if kind else None
    after = [max(r - b - s, 0) for r, b, s in zip(window.reach, window.before, window.shape, strict=True)]
    kind = "depthwise" if kind == "conv" and getattr(layer, "groups", 1) > 1 else kind
    return Step(kind, sources, shape, window.kernel, window.stride[0], (*window.before, *after))


def real_weights(layer: QLinearConv | QGemm) -> tuple[Array, Array]:
    """Return the weights (K, N) and the bias (N,) that the codes stand for, float32."""
    scale = layer.scales.b
    weights = (layer.weights.astype(np.float64) - layer.weights_zero_point) * scale
    return weights.astype(np.float32), (layer.bias * (np.float64(layer.scales.a) * scale)).astype(np.float32)


def float_model(net: Network) -> onnx.ModelProto:
    """Return the float network: one vector `x`, the output `y`."""
    found = steps(net)
    image = _image(net)
    constants: dict[str, Array] = {"image": np.array([1, *image])}
    nodes = [helper.make_node("Reshape", [net.vector.name, "image"], ["-1"])]
    for number, (step, layer) in enumerate(found):
        tables: list[str] = []
        inputs = [str(source) for source in step.inputs]
        attributes: dict[str, Any] = {}
        if isinstance(layer, QLinearConv | QGemm):
            weights, bias = real_weights(layer)
            if isinstance(layer, QLinearConv):
                weights = weights.T.reshape(step.shape[0], -1, *step.kernel)
            tables = [f"weights_{number}", f"bias_{number}"]
            constants |= dict(zip(tables, (weights, bias), strict=True))
        if step.operator in {"conv", "depthwise", "pool"}:
            attributes = {"strides": [step.stride] * 2, "pads": step.pads, "kernel_shape": step.kernel}
        if isinstance(layer, QLinearConv):
            attributes["group"] = layer.groups
        if step.operator == "dense" and len(_shape(found, step.inputs[0])) > 1:
            inputs = [f"flat_{number}"]
            nodes.append(helper.make_node("Flatten", [str(step.inputs[0])], inputs))
        operator = {"pool": "MaxPool", "add": "Add", "dense": "Gemm"}.get(step.operator, "Conv")
        last, plain = number == len(found) - 1, step.operator == "pool"
        output = "y" if last else str(number) if plain else f"sum_{number}"
        nodes.append(helper.make_node(operator, [*inputs, *tables], [output], **attributes))
        if not last and not plain:
            nodes.append(helper.make_node("Relu", [output], [str(number)]))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(net.vector.name, TensorProto.FLOAT, [1, net.vector.size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, *found[-1][0].shape])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_tables(net: Network, folder: Path) -> None:
    """Write network.json and network.npz for LiteRT, whose images have the channels last.

    A float network has float32 `codes` and no scales.
    """
    found, tables = steps(net), {}
    is_float = all(layer.dtype == np.float32 for layer in net.layers)
    documents = [{"image": _image(net)[1:] + _image(net)[:1]}]
    for number, (step, layer) in enumerate(found):
        shape = [*step.shape[1:], step.shape[0]] if len(step.shape) > 1 else list(step.shape)
        padding = "SAME" if _is_same(step, layer) else "PAD" if any(step.pads) else "VALID"
        relu = step.relu or (not is_float and number < len(found) - 1 and step.operator != "pool")
        documents.append(vars(step) | {"shape": shape, "padding": padding, "relu": relu})
        if not isinstance(layer, Linear):
            continue
        codes = layer.weights.T
        if step.operator != "dense":
            codes = codes.reshape(step.shape[0], -1, *step.kernel).transpose(0, 2, 3, 1)
            codes = codes if step.operator == "conv" else codes.transpose(3, 1, 2, 0)
        elif len(_shape(found, step.inputs[0])) > 1:
            channels_first = codes.reshape(len(codes), *_shape(found, step.inputs[0]))
            codes = channels_first.transpose(0, 2, 3, 1).reshape(len(codes), -1)
        tables |= {f"codes_{number}": codes, f"bias_{number}": layer.bias}
        if not is_float:
            tables[f"scales_{number}"] = np.broadcast_to(layer.scales.b, layer.bias.shape)
    (folder / "network.json").write_text(json.dumps(documents))
    np.savez(folder / "network.npz", scale=SCALE, zero_point=ZERO_POINT - SHIFT, **tables)


def _is_same(step: Step, layer: Layer) -> bool:
    """Return whether the step pads as TensorFlow's SAME: an output for every stride, the odd row or column behind."""
    if not any(step.pads):
        return False
    height, width = step.pads[0] + step.pads[2], step.pads[1] + step.pads[3]
    sizes = [-(-size // step.stride) for size in layer.input.shape[1:]]
    return list(step.shape[1:]) == sizes and step.pads[:2] == (height // 2, width // 2)


def _image(net: Network) -> list[int]:
    return list(next(layer.input.shape for step, layer in steps(net)))


def _shape(found: list[tuple[Step, Layer]], number: int) -> tuple[int, ...]:
    return found[number][0].shape

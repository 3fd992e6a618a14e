"""Networks with the shapes of those in a thesis on a converter from ONNX to TFLite.

Martin Pavella, "Conversion between models of machine learning frameworks for mobile platforms", bachelor's thesis,
Brno University of Technology, 2023.  It takes AlexNet, Tiny YOLO v2, ResNet-101 with dense upsampling convolution
(DUC), and a classifier of speech from public collections.  AlexNet is made by `models.floats`.  These have the
operators of the others, in their order; DUC is smaller: 8 blocks in place of 33, 128x128 pixels in place of 800x800.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from models.floats.networks import RANDOM, Builder, Floats

YOLO = (16, 32, 64, 128, 256, 512)
"""Channels of the convolutions before each MaxPool of Tiny YOLO v2."""
ANCHORS = 5 * 25
DILATIONS = (1, 2, 5, 9)
"""Dilations of the blocks with 256 channels (Wang et al., 2018, hybrid dilated convolution)."""
CLASSES, UPSAMPLING = 19, 8


class Normalised(Builder):
    """Convolutions without a bias, with BatchNormalization behind them."""

    def normalised(self, name: str, outputs: int, kernel: int, stride: int = 1, *, dilation: int = 1) -> None:
        """Add a Conv that keeps the sides for stride 1, and BatchNormalization."""
        channels, *sides = self.shape
        reach = (kernel - 1) * dilation
        weights, _ = self.drawn((outputs, channels, *[kernel] * len(sides)))
        axes = len(sides)
        pads = [reach // 2] * axes + [reach - reach // 2] * axes
        self.node("Conv", name, weights, strides=[stride] * axes, pads=pads, dilations=[dilation] * axes)
        self.shape = (outputs, *((side - 1) // stride + 1 for side in sides))
        self.normalisation(f"{name}_norm")

    def normalisation(self, name: str) -> None:
        """Add BatchNormalization with seeded statistics."""
        channels = self.shape[0]
        near = [self.random.uniform(low, high, channels).astype(np.float32) for low, high in ((0.8, 1.2), (-0.1, 0.1))]
        mean = self.random.uniform(-0.1, 0.1, channels).astype(np.float32)
        variance = self.random.uniform(0.8, 1.2, channels).astype(np.float32)
        self.several("BatchNormalization", name, [*near, mean, variance])

    def several(self, operator: str, name: str, constants: list[Floats]) -> None:
        """Add a node that reads the newest activation and several constants."""
        names = [f"{name}_{number}" for number in range(len(constants))]
        pairs = zip(names, constants, strict=True)
        self.constants += [onnx.numpy_helper.from_array(value, key) for key, value in pairs]
        self.nodes.append(onnx.helper.make_node(operator, [self.last, *names], [name], name))
        self.last = name

    def sum_with(self, other: str, name: str) -> None:
        """Add the newest activation and another one."""
        self.nodes.append(onnx.helper.make_node("Sum", [self.last, other], [name], name))
        self.last = name


def tiny_yolo_v2() -> onnx.ModelProto:
    """Return Tiny YOLO v2 (Redmon and Farhadi, 2017): 416x416 pixels of 3 colours to 125 values of 13x13 cells."""
    build = Normalised((3, 416, 416))
    for number, channels in enumerate(YOLO, start=1):
        build.normalised(f"conv_{number}", channels, 3)
        build.node("LeakyRelu", f"conv_{number}_leaky", alpha=0.1)
        last = number == len(YOLO)  # it keeps the sides: the windows reach a row beyond the image
        build.node("MaxPool", f"pool_{number}", kernel_shape=[2, 2], strides=[1 if last else 2] * 2,
                   auto_pad="SAME_UPPER")  # fmt: skip
        build.shape = (channels, *(side if last else side // 2 for side in build.shape[1:]))
    for number in (7, 8):
        build.normalised(f"conv_{number}", 1024, 3)
        build.node("LeakyRelu", f"conv_{number}_leaky", alpha=0.1)
    weights, bias = build.drawn((ANCHORS, 1024, 1, 1))
    build.node("Conv", "conv_9", weights, bias)
    build.shape = (ANCHORS, *build.shape[1:])
    return build.model("tiny_yolo_v2", RANDOM)


def duc() -> onnx.ModelProto:
    """Return a residual network with dilated convolutions and DUC: 128x128 pixels to 19 classes of 64x64 pixels."""
    build = Normalised((3, 128, 128))
    build.normalised("conv_1", 32, 3, 2)
    build.node("Relu", "conv_1_relu")
    build.node("MaxPool", "pool_1", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    build.shape = (32, 32, 32)
    for block, (channels, stride, dilation) in enumerate(
        ((64, 1, 1), (64, 1, 1), (128, 2, 1), (128, 1, 1), *((256, 1, dilation) for dilation in DILATIONS)), start=1
    ):
        _bottleneck(build, f"block_{block}", channels, stride, dilation)
    build.normalised("duc", CLASSES * UPSAMPLING * UPSAMPLING, 3)
    values = build.shape[1] * build.shape[2] * UPSAMPLING * UPSAMPLING
    build.constants.append(onnx.numpy_helper.from_array(np.array([0, CLASSES, values]), "shape"))
    build.nodes.append(onnx.helper.make_node("Reshape", [build.last, "shape"], ["classes"], "classes"))
    build.last, build.shape = "classes", (CLASSES, values)
    build.node("Softmax", "softmax", axis=1)
    return build.model("duc", RANDOM)


def _bottleneck(build: Normalised, name: str, channels: int, stride: int, dilation: int) -> None:
    """Add three convolutions beside a convolution of one pixel, and their sum."""
    start, shape = build.last, build.shape
    build.normalised(f"{name}_1", channels // 4, 1, stride)
    build.node("Relu", f"{name}_1_relu")
    build.normalised(f"{name}_2", channels // 4, 3, dilation=dilation)
    build.node("Relu", f"{name}_2_relu")
    build.normalised(f"{name}_3", channels, 1)
    inner, build.last, build.shape = build.last, start, shape
    build.normalised(f"{name}_beside", channels, 1, stride)
    build.sum_with(inner, f"{name}_sum")
    build.node("Relu", f"{name}_relu")


def speech() -> onnx.ModelProto:
    """Return M5 (Dai et al., 2017) of PyTorch's tutorial on speech commands: 8,000 samples to 35 words."""
    build = Normalised((1, 8000))
    for number, (channels, kernel, stride) in enumerate(((32, 80, 16), (32, 3, 1), (64, 3, 1), (64, 3, 1)), start=1):
        weights, bias = build.drawn((channels, build.shape[0], kernel))
        build.node("Conv", f"conv_{number}", weights, bias, strides=[stride])
        build.shape = (channels, (build.shape[1] - kernel) // stride + 1)
        build.normalisation(f"conv_{number}_norm")
        build.node("Relu", f"conv_{number}_relu")
        build.node("MaxPool", f"pool_{number}", kernel_shape=[4], strides=[4])
        build.shape = (channels, (build.shape[1] - 4) // 4 + 1)
    build.node("AveragePool", "mean", kernel_shape=[build.shape[1]])
    build.shape = (build.shape[0], 1)
    build.flatten()
    build.dense((35,))
    return build.model("speech", RANDOM)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {"tiny_yolo_v2": tiny_yolo_v2, "duc": duc, "speech": speech}

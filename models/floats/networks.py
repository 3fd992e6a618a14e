"""The float networks of the ACETONE papers in their shapes, with seeded weights; LeNet-5 is trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.model.canonical import IR_VERSION, OPSET
from models.floats import lenet

Floats = npt.NDArray[np.float32]
SEED = 25
RANDOM = "The weights are random (seed 25): the network is for time, size and exactness; its outputs mean nothing."
ALEXNET = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)
"""Channels, kernel, stride and padding of each convolution, and whether a MaxPool follows."""
VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions before each MaxPool."""
LARGE = ("alexnet", "vgg16")
"""Networks of more than 200 MB, which are not in the repository."""


class Builder:
    """The nodes and constants of one network; `shape` is that of the newest activation, without the vectors."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.random = np.random.default_rng(SEED)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.input_shape = self.shape = shape
        self.last = "input"

    def node(self, operator: str, name: str, *constants: Floats, **attributes: Any) -> None:
        """Add a node that reads the newest activation and these constants."""
        names = [f"{name}_{kind}" for kind, _ in zip(("weight", "bias"), constants, strict=False)]
        self.constants += [numpy_helper.from_array(value, key) for key, value in zip(names, constants, strict=True)]
        self.nodes.append(helper.make_node(operator, [self.last, *names], [name], name, **attributes))
        self.last = name

    def convolution(self, name: str, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        """Add a Conv of random weights, and Relu."""
        channels, height, width = self.shape
        parameters = self.drawn((outputs, channels, kernel, kernel))
        self.node("Conv", name, *parameters, strides=[stride] * 2, pads=[padding] * 4)
        self.shape = (outputs, *((side + 2 * padding - kernel) // stride + 1 for side in (height, width)))
        self.node("Relu", f"{name}_relu")

    def pool(self, name: str, kernel: int, operator: str = "MaxPool") -> None:
        """Add a pooling with stride 2."""
        self.node(operator, name, kernel_shape=[kernel] * 2, strides=[2, 2])
        self.shape = (self.shape[0], *((side - kernel) // 2 + 1 for side in self.shape[1:]))

    def flatten(self) -> None:
        """Add a Flatten."""
        self.node("Flatten", "flatten")
        self.shape = (int(np.prod(self.shape)),)

    def dense(self, widths: Sequence[int], *, dropout: bool = False) -> None:
        """Add Gemm and Relu for each width; the last one has no Relu."""
        for number, width in enumerate(widths, start=1):
            if dropout and number < len(widths):
                self.node("Dropout", f"dropout_{number}")
            self.node("Gemm", f"dense_{number}", *self.drawn((width, *self.shape)), transB=1)
            self.shape = (width,)
            if number < len(widths):
                self.node("Relu", f"dense_{number}_relu")

    def drawn(self, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Return weights with the deviation that keeps the size of activations (He et al., 2015), and small biases."""
        deviation = np.float32(np.sqrt(2 / np.prod(shape[1:])))
        weights = self.random.standard_normal(shape, np.float32) * deviation
        return weights, self.random.standard_normal(shape[0], np.float32) * np.float32(0.1)

    def model(self, name: str, description: str) -> onnx.ModelProto:
        """Return the network, checked."""
        ends = [
            helper.make_tensor_value_info(tensor, TensorProto.FLOAT, ["vectors", *shape])
            for tensor, shape in (("input", self.input_shape), (self.last, self.shape))
        ]
        graph = helper.make_graph(self.nodes, name, ends[:1], ends[1:], self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="models.floats")
        metadata: Mapping[str, object] = {"description": description, "recipe_sha256": recipe_sha256()}
        helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
        onnx.checker.check_model(model)
        return model


def acas(name: str, hidden: Sequence[int]) -> onnx.ModelProto:
    """Return a dense network with the inputs and outputs of the ACAS Xu networks."""
    build = Builder((5,))
    build.dense([*hidden, 5])
    return build.model(name, RANDOM)


def lenet5() -> onnx.ModelProto:
    """Return LeNet-5 with tanh, average pooling and Softmax, trained on the digits of scikit-learn."""
    parameters = lenet.train()
    build = Builder((1, 28, 28))
    for number, (weight, bias) in enumerate(parameters[:2], start=1):
        build.node("Conv", f"conv_{number}", weight, bias)
        build.node("Tanh", f"conv_{number}_tanh")
        build.shape = (len(bias), *(side - lenet.KERNEL + 1 for side in build.shape[1:]))
        build.pool(f"pool_{number}", 2, "AveragePool")
    build.flatten()
    for number, (weight, bias) in enumerate(parameters[2:], start=1):
        build.node("Gemm", f"dense_{number}", weight, bias, transB=1)
        build.node(*(("Tanh", f"dense_{number}_tanh") if number < 3 else ("Softmax", "softmax")))
    build.shape = (10,)
    return build.model("lenet5", "LeNet-5 for the digits of scikit-learn, drawn as 24x24 pixels with a margin of 2.")


def cifarnet() -> onnx.ModelProto:
    """Return the network of TensorFlow's CIFAR-10 tutorial: 32x32 pixels of 3 colours to 10 classes."""
    build = Builder((3, 32, 32))
    for number, channels in enumerate((32, 64, 64), start=1):
        build.convolution(f"conv_{number}", channels, 3)
        if number < 3:
            build.pool(f"pool_{number}", 2)
    build.flatten()
    build.dense((64, 10))
    return build.model("cifarnet", RANDOM)


def alexnet() -> onnx.ModelProto:
    """Return AlexNet in one column (Krizhevsky, 2014): 224x224 pixels of 3 colours to 1,000 classes."""
    build = Builder((3, 224, 224))
    for number, (*layer, pooled) in enumerate(ALEXNET, start=1):
        build.convolution(f"conv_{number}", *layer)
        if pooled:
            build.pool(f"pool_{number}", 3)
    build.flatten()
    build.dense((4096, 4096, 1000), dropout=True)
    return build.model("alexnet", RANDOM)


def vgg16() -> onnx.ModelProto:
    """Return VGG-16 (Simonyan and Zisserman, 2014): 224x224 pixels of 3 colours to 1,000 classes."""
    build = Builder((3, 224, 224))
    for block, layers in enumerate(VGG16, start=1):
        for number, channels in enumerate(layers, start=1):
            build.convolution(f"conv_{block}_{number}", channels, 3, padding=1)
        build.pool(f"pool_{block}", 2)
    build.flatten()
    build.dense((4096, 4096, 1000), dropout=True)
    return build.model("vgg16", RANDOM)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "acas_reg50": partial(acas, "acas_reg50", [50] * 7),
    "acas_reg100": partial(acas, "acas_reg100", [100] * 7),
    "acas_reg200": partial(acas, "acas_reg200", [200] * 7),
    "acas_decr128": partial(acas, "acas_decr128", [128, 128, 64, 32, 16]),
    "acas_decr256": partial(acas, "acas_decr256", [256, 256, 128, 64, 32, 16]),
    "lenet5": lenet5,
    "cifarnet": cifarnet,
    "alexnet": alexnet,
    "vgg16": vgg16,
}


def recipe_sha256() -> str:
    """Return the hash of the sources that make the networks."""
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()

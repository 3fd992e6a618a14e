"""Small networks with seeded weights: recurrences, attention, a detector, segmentation, mobile blocks and trees."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.model.canonical import IR_VERSION, OPSET
from harness.model.transforms.edit import declare_functions
from harness.operators.onnx_function import DOMAIN

SEED = 56
RANDOM = "The weights are random (seed 56): the network is for time, size and exactness; its outputs mean nothing."
FRAMES, FEATURES, STATES, WORDS = 25, 10, 24, 12
"""Frames of a second of audio, the features of each, values of a state, and keywords."""
TOKENS, WIDTH, HEADS, BLOCKS = 16, 24, 3, 2
VOCABULARY = 64
TREES, DEPTH, MEASURES = 10, 5, 8


class Builder:
    """The nodes and constants of a network; an activation is the name of a tensor."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(SEED)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def drawn(self, *shape: int, inputs: int = 0) -> str:
        """Add weights with the deviation that keeps the size of activations; `inputs` are those of a sum."""
        values = self.random.standard_normal(shape) / np.sqrt(inputs or np.prod(shape[1:]))
        return self.constant(values)

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node that is named after its operator and its number; return what it writes."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, domain=domain, **attributes))
        return name

    def reshape(self, x: str, *shape: int) -> str:
        """Add a Reshape of each vector."""
        return self.add("Reshape", x, self.constant([0, *shape], np.int64))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """Add a product with a matrix, and a bias."""
        product = self.add("MatMul", x, self.drawn(inputs, outputs, inputs=inputs))
        return self.add("Add", product, self.drawn(outputs, inputs=100))

    def convolution(
        self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, *, group: int = 1, activation: str = ""
    ) -> str:
        """Add a Conv that keeps the size but for its stride, and an activation."""
        pads = [kernel // 2] * 4
        weights = self.drawn(channels[1], channels[0] // group, kernel, kernel)
        y = self.add("Conv", x, weights, self.drawn(channels[1], inputs=100), kernel_shape=[kernel] * 2,
                     strides=[stride] * 2, pads=pads, group=group)  # fmt: skip
        if activation == "Relu6":
            return self.add("Clip", y, self.constant(0), self.constant(6))
        return self.add(activation, y) if activation else y

    def attention(self, x: str) -> str:
        """Add a block of a transformer: attention of several heads and two dense layers, each added to its input."""
        size = WIDTH // HEADS
        normed = self.normalised(x)
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            heads = self.reshape(self.dense(normed, WIDTH, WIDTH), TOKENS, HEADS, size)
            parts.append(self.add("Transpose", heads, perm=perm))
        query, key, value = parts
        scores = self.add("Mul", self.add("MatMul", query, key), self.constant(size**-0.5))
        weighted = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        joined = self.reshape(self.add("Transpose", weighted, perm=[0, 2, 1, 3]), TOKENS, WIDTH)
        x = self.add("Add", x, self.dense(joined, WIDTH, WIDTH))
        hidden = self.add("Gelu", self.dense(self.normalised(x), WIDTH, 2 * WIDTH))
        return self.add("Add", x, self.dense(hidden, 2 * WIDTH, WIDTH))

    def normalised(self, x: str) -> str:
        """Add a normalisation of each token."""
        return self.add("LayerNormalization", x, self.constant(np.ones(WIDTH)), self.constant(np.zeros(WIDTH)), axis=-1)

    def classes(self, x: str, count: int) -> str:
        """Add the blocks of a transformer, the mean of its tokens, and scores."""
        for _ in range(BLOCKS):
            x = self.attention(x)
        mean = self.add("ReduceMean", self.normalised(x), self.constant([1], np.int64), keepdims=0)
        return self.dense(mean, WIDTH, count)

    def model(
        self, name: str, shape: Sequence[int], outputs: Mapping[str, Sequence[int]], kind: int = TensorProto.FLOAT
    ) -> onnx.ModelProto:
        """Return the network of an input and these outputs, checked."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", kind, ["vectors", *shape])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["vectors", *sizes])
             for output, sizes in outputs.items()],
            self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", max(OPSET, 20)), helper.make_opsetid("ai.onnx.ml", 3)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="models.families")
        declare_functions(model)
        metadata = {"description": RANDOM, "recipe_sha256": hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}
        helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
        onnx.checker.check_model(model)
        return model


def keywords(operator: str, gates: int) -> onnx.ModelProto:
    """Return a recurrent keyword spotter: the state after the last frame gives the scores."""
    build, rows = Builder(), gates * STATES
    weights = [build.drawn(rows, FEATURES), build.drawn(rows, STATES), build.drawn(2 * rows, inputs=100)]
    zeros = [build.constant(np.zeros((1, STATES))) for _ in range(1 + (operator == "LSTM"))]
    attributes = {"linear_before_reset": 1} if operator == "GRU" else {}
    states = build.add(operator, "input", *weights, *zeros, domain=DOMAIN, hidden_size=STATES, direction="forward",
                       **attributes)  # fmt: skip
    last = build.add("Gather", states, build.constant(FRAMES - 1, np.int64), axis=1)
    scores = build.dense(last, STATES, WORDS)
    return build.model(f"kws_{operator.lower()}", (FRAMES, FEATURES), {scores: [WORDS]})


def vision_transformer() -> onnx.ModelProto:
    """Return a transformer over 4x4 patches of an image of 16x16 pixels."""
    build = Builder()
    patches = build.add("Conv", "input", build.drawn(WIDTH, 1, 4, 4), kernel_shape=[4, 4], strides=[4, 4])
    tokens = build.add("Transpose", build.reshape(patches, WIDTH, TOKENS), perm=[0, 2, 1])
    scores = build.classes(build.add("Add", tokens, build.drawn(1, TOKENS, WIDTH, inputs=4)), 10)
    return build.model("vit_tiny", (1, 16, 16), {scores: [10]})


def text_transformer() -> onnx.ModelProto:
    """Return a transformer over 16 tokens of a vocabulary of 64."""
    build = Builder()
    tokens = build.add("Gather", build.drawn(VOCABULARY, WIDTH, inputs=1), "input", axis=0)
    scores = build.classes(build.add("Add", tokens, build.drawn(1, TOKENS, WIDTH, inputs=4)), 4)
    return build.model("text_tiny", (TOKENS,), {scores: [4]}, TensorProto.INT64)


def detector() -> onnx.ModelProto:
    """Return a detector with two heads, 8x8 and 4x4 places with 3 boxes of 4 numbers, a confidence and 4 classes."""
    build, boxes = Builder(), 3 * 9
    small = build.convolution("input", (3, 8), 3, 2, activation="LeakyRelu")
    fine = build.convolution(small, (8, 16), 3, 2, activation="LeakyRelu")
    coarse = build.convolution(fine, (16, 24), 3, 2, activation="LeakyRelu")
    narrow = build.convolution(coarse, (24, 8), 1, activation="LeakyRelu")
    scales = build.constant([1, 1, 2, 2])
    wide = build.add("Resize", narrow, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                     nearest_mode="floor")  # fmt: skip
    joined = build.add("Concat", wide, fine, axis=1)
    heads = [build.add("Sigmoid", build.convolution(x, (width, boxes), 1)) for x, width in ((joined, 24), (coarse, 24))]
    return build.model("yolo_tiny", (3, 32, 32), dict(zip(heads, ([boxes, 8, 8], [boxes, 4, 4]), strict=True)))


def segmentation() -> onnx.ModelProto:
    """Return a U-Net of two levels: 32x32 pixels to the probability of each."""
    build = Builder()
    first = build.convolution("input", (1, 8), 3, activation="Relu")
    second = build.convolution(_halved(build, first), (8, 16), 3, activation="Relu")
    lowest = build.convolution(_halved(build, second), (16, 32), 3, activation="Relu")
    x = lowest
    for other, channels in ((second, 16), (first, 8)):
        x = build.add("ConvTranspose", x, build.drawn(2 * channels, channels, 2, 2, inputs=2 * channels),
                      kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip
        joined = build.add("Concat", x, other, axis=1)
        x = build.convolution(joined, (2 * channels, channels), 3, activation="Relu")
    return build.model("unet_tiny", (1, 32, 32), {build.add("Sigmoid", build.convolution(x, (8, 1), 1)): [1, 32, 32]})


def _halved(build: Builder, x: str) -> str:
    return build.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])


def mobile_v3() -> onnx.ModelProto:
    """Return two inverted residual blocks of MobileNetV3, with squeeze and excitation, and a head."""
    build = Builder()
    x = build.convolution("input", (3, 8), 3, 2, activation="HardSwish")
    for _ in range(2):
        wide = build.convolution(x, (8, 24), 1, activation="HardSwish")
        deep = build.convolution(wide, (24, 24), 3, group=24, activation="HardSwish")
        mean = build.convolution(build.add("GlobalAveragePool", deep), (24, 8), 1, activation="Relu")
        gate = build.add("HardSigmoid", build.convolution(mean, (8, 24), 1), alpha=1 / 6)
        x = build.add("Add", x, build.convolution(build.add("Mul", deep, gate), (24, 8), 1))
    return _pooled(build, x, 8, "mobilenet_v3_tiny")


def efficient_lite() -> onnx.ModelProto:
    """Return two inverted residual blocks of EfficientNet-Lite, of Relu6 and without excitation, and a head."""
    build = Builder()
    x = build.convolution("input", (3, 8), 3, 2, activation="Relu6")
    for _ in range(2):
        wide = build.convolution(x, (8, 24), 1, activation="Relu6")
        deep = build.convolution(wide, (24, 24), 5, group=24, activation="Relu6")
        x = build.add("Add", x, build.convolution(deep, (24, 8), 1))
    return _pooled(build, x, 8, "efficientnet_lite_tiny")


def _pooled(build: Builder, x: str, channels: int, name: str) -> onnx.ModelProto:
    pooled = build.add("Flatten", build.add("GlobalAveragePool", x))
    return build.model(name, (3, 32, 32), {build.dense(pooled, channels, 10): [10]})


def forest() -> onnx.ModelProto:
    """Return an ensemble of trees for regression, in the form of scikit-learn's exporter."""
    build, inner, whole = Builder(), (1 << DEPTH) - 1, (1 << DEPTH + 1) - 1
    count = TREES * whole
    is_leaf = np.arange(count) % whole >= inner
    places = np.arange(count) % whole
    children = np.where(is_leaf, 0, 2 * places + 1)
    trees = np.arange(count) // whole
    scores = build.add(
        "TreeEnsembleRegressor", "input", domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=trees.tolist(), nodes_nodeids=places.tolist(),
        nodes_featureids=np.where(is_leaf, 0, build.random.integers(MEASURES, size=count)).tolist(),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_values=np.where(is_leaf, 0, build.random.normal(size=count)).tolist(),
        nodes_truenodeids=children.tolist(), nodes_falsenodeids=np.where(is_leaf, 0, children + 1).tolist(),
        target_treeids=trees[is_leaf].tolist(), target_nodeids=places[is_leaf].tolist(),
        target_ids=[0] * int(is_leaf.sum()), target_weights=build.random.normal(size=int(is_leaf.sum())).tolist(),
    )  # fmt: skip
    return build.model("forest_tiny", (MEASURES,), {scores: [1]})


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "kws_lstm": partial(keywords, "LSTM", 4),
    "kws_gru": partial(keywords, "GRU", 3),
    "vit_tiny": vision_transformer,
    "text_tiny": text_transformer,
    "yolo_tiny": detector,
    "unet_tiny": segmentation,
    "mobilenet_v3_tiny": mobile_v3,
    "efficientnet_lite_tiny": efficient_lite,
    "forest_tiny": forest,
}
"""The networks by name."""

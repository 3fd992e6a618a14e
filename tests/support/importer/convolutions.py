"""Small convolutional float networks, from images of `SHAPE` to five scores."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper
from onnx import TensorProto, numpy_helper

from tests.support.importer.graphs import Array, node

SHAPE = (3, 8, 8)
NODES: dict[str, list[onnx.NodeProto]] = {
    "residual": [
        node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2 b2", "c2", pads=[1, 1, 1, 1], group=4),
        node("Relu", "c2", "r2"),
        node("Conv", "r2 w3", "c3"),
        node("Add", "c3 r1", "s"),
        node("Relu", "s", "r3"),
        node("MaxPool", "r3", "m", kernel_shape=[8, 8]),
        node("Flatten", "m", "f"),
        node("Gemm", "f w4 b4", "y"),
    ],
    "branched": [
        node("Conv", "x w1 b1", "c1", strides=[2, 2]),
        node("LeakyRelu", "c1", "r1", alpha=0.1),
        node("Conv", "r1 w3", "c2"),
        node("Sigmoid", "c2", "r2"),
        node("Mul", "r1 r2", "p"),
        node("Concat", "r1 p", "j", axis=1),
        node("AveragePool", "j", "a", kernel_shape=[2, 2]),
        node("GlobalAveragePool", "a", "m"),
        node("Flatten", "m", "f"),
        node("Gemm", "f w5 b4", "s"),
        node("Softmax", "s", "y", axis=1),
    ],
    "strided": [
        node("Conv", "x w1 b1", "c1", strides=[2, 2]),
        node("Clip", "c1 low high", "r1"),
        node("MaxPool", "r1", "m", kernel_shape=[3, 3]),
        node("Reshape", "m shape", "f"),
        node("MatMul", "f w4", "p"),
        node("Add", "p b4", "y"),
    ],
}


def constants() -> dict[str, Array]:
    random = np.random.default_rng(2)
    shapes = {
        "w1": (4, 3, 3, 3),
        "w2": (4, 1, 3, 3),
        "w3": (4, 4, 1, 1),
        "w4": (4, 5),
        "w5": (8, 5),
        "b1": 4,
        "b2": 4,
        "b4": 5,
    }
    drawn = {name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    return drawn | {"shape": np.array([1, -1]), "low": np.float32(0), "high": np.float32(6)}


def float_network(network: str, batch: int | str = 1) -> bytes:
    used = {name for each in NODES[network] for name in each.input}
    graph = onnx.helper.make_graph(
        NODES[network],
        "graph",
        [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, *SHAPE])],
        [onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants().items() if name in used],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    return bytes(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

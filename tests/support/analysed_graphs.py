"""`python -m tests.support.analysed_graphs FOLDER` writes the graphs of docs/reference/analyse-a-model.md.

Figures 7 and 8 are those of R. Liautaud, Optimizing neural network inference on embedded devices (2018), section 2.4,
in ONNX: Shape and StridedSlice of figure 7 are Shape and Slice, Fill of figure 8 is Expand.  `free_axes` is a float
network for images of any size.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def figure_7() -> onnx.ModelProto:
    """A shape, a part of it, and the Reshape that reads it: only the shape of the input is known, and is enough."""
    nodes = [
        helper.make_node("Relu", ["x"], ["relu"], "relu"),
        helper.make_node("Shape", ["relu"], ["shape"], "shape"),
        helper.make_node("Slice", ["shape", "begin", "end", "axes"], ["c"], "strided_slice"),
        helper.make_node("Concat", ["c", "rest"], ["target"], "pack", axis=0),
        helper.make_node("Reshape", ["relu", "target"], ["y"], "reshape"),
    ]
    constants = {"begin": [1], "end": [2], "axes": [0], "rest": [-1]}
    return _model(
        nodes, (TensorProto.FLOAT, [1, 61, 60], 2), {name: np.array(each) for name, each in constants.items()}
    )


def figure_8() -> onnx.ModelProto:
    """A constant of 1,000,000 zeros that is computed from two small ones."""
    nodes = [
        helper.make_node("Expand", ["zero", "dims"], ["fill"], "fill"),
        helper.make_node("Add", ["x", "fill"], ["y"], "add"),
    ]
    constants = {"zero": np.array(0, np.int32), "dims": np.array([1_000_000])}
    return _model(nodes, (TensorProto.INT32, [1_000_000], 1), constants)


def free_axes() -> onnx.ModelProto:
    """A convolutional network whose file does not state the shape of its input."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv_1", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu_1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool_1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], "conv_2"),
        helper.make_node("GlobalAveragePool", ["c2"], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "w3", "b3"], ["y"], "dense"),
    ]
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (16, 8, 3, 3), "w3": (16, 10), "b3": (10,)}
    constants = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = _model(nodes, (TensorProto.FLOAT, [], 2), constants)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    return model


def _model(
    nodes: list[onnx.NodeProto], given: tuple[int, list[int], int], constants: dict[str, np.ndarray]
) -> onnx.ModelProto:
    kind, shape, rank = given
    graph = helper.make_graph(
        nodes,
        "figure",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, [None] * rank)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for made in (figure_7, figure_8, free_axes):
        onnx.save(made(), folder / f"{made.__name__}.onnx")
        print(folder / f"{made.__name__}.onnx")  # noqa: T201 - the result of the command

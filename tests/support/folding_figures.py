"""`python -m tests.support.folding_figures FOLDER` writes the graphs of figures 7 and 8 of the TFDeploy report as ONNX.

R. Liautaud, Optimizing neural network inference on embedded devices (2018), section 2.4.  Shape and StridedSlice of
figure 7 are Shape and Slice in ONNX, Fill of figure 8 is Expand.
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
    for made in (figure_7, figure_8):
        onnx.save(made(), folder / f"{made.__name__}.onnx")
        print(folder / f"{made.__name__}.onnx")  # noqa: T201 - the result of the command

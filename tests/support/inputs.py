"""Networks with several inputs, of different types and shapes."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BOX = {"x": (-1, 1), "s": (-2, 2), "k": (0, 1), "c": (0, 200), "i": (-(2**40), 2**40), "t": (-2, 2)}
SIZES = {"x": 6, "s": 4, "k": 4, "c": 4, "i": 3, "t": 4}
TYPES = {"k": TensorProto.BOOL, "c": TensorProto.UINT8, "i": TensorProto.INT64}


def every_type() -> onnx.ModelProto:
    """A network that reads inputs of every type, `s` and `t` of the same one; `i` has values beyond 32 bits."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Sub", ["m", "s"], ["a"], name="difference"),
        helper.make_node("Not", ["k"], ["n"], name="negation"),
        helper.make_node("DequantizeLinear", ["c", "scale", "zero"], ["r"], name="real"),
        helper.make_node("Mul", ["r", "a"], ["z"], name="scaled"),
        helper.make_node("Sub", ["z", "t"], ["y"], name="result"),
        helper.make_node("Concat", ["i", "i"], ["j"], name="indices", axis=1),
    ]
    weights = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    constants = {"w": weights, "scale": np.float32(0.1), "zero": np.uint8(3)}
    outputs = {"y": (TensorProto.FLOAT, 4), "j": (TensorProto.INT64, 6), "n": (TensorProto.BOOL, 4)}
    graph = helper.make_graph(
        nodes,
        "inputs",
        [helper.make_tensor_value_info(name, TYPES.get(name, TensorProto.FLOAT), ["n", SIZES[name]]) for name in SIZES],
        [helper.make_tensor_value_info(name, kind, ["n", size]) for name, (kind, size) in outputs.items()],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ends = [[BOX[name][end] for name in SIZES for _ in range(SIZES[name])] for end in (0, 1)]
    helper.set_model_props(model, {"input_box_low": json.dumps(ends[0]), "input_box_high": json.dumps(ends[1])})
    return model

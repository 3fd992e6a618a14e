"""A network of operators on float32 that compute each value from few others."""

from __future__ import annotations

import numpy as np
from onnx import helper

from harness.model.network import Network
from tests.support.builders import make_model
from tests.support.programs.board_program import parse


def every_operator() -> Network:
    """A network with all float operators, that joins four inputs of one Concat."""
    constants = {
        "row": np.array([1.5, -0.25, 1e-3, -7.0], np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(0.75),
        "least": np.float32(-4),
        "most": np.float32(4),
        "shape": np.array([-1, 2, 2]),
    }
    nodes = [
        helper.make_node("Clip", ["x", "least", "most"], ["bounded"], name="bounded"),
        helper.make_node("Sub", ["row", "bounded"], ["from_row"], name="from_row"),
        helper.make_node("Sub", ["bounded", "row"], ["less_row"], name="less_row"),
        helper.make_node("Sub", ["from_row", "less_row"], ["difference"], name="difference"),
        helper.make_node("Mul", ["bounded", "row"], ["scaled"], name="scaled"),
        helper.make_node("Mul", ["scaled", "less_row"], ["product"], name="product"),
        helper.make_node("Clip", ["product", "low", "high"], ["clipped"], name="clipped"),
        helper.make_node("Relu", ["difference"], ["rectified"], name="rectified"),
        helper.make_node("LeakyRelu", ["difference"], ["leaky"], name="leaky", alpha=0.3),
        helper.make_node("Concat", ["clipped", "rectified", "bounded", "leaky"], ["joined"], name="joined", axis=1),
        helper.make_node("Reshape", ["clipped", "shape"], ["square"], name="square"),
        helper.make_node("Flatten", ["square"], ["flat"], name="flat"),
        helper.make_node("ArgMax", ["joined"], ["index"], name="index", axis=1),
    ]
    outputs = {"flat": ("float32", 4), "index": ("int64", 1)}
    return parse(make_model(nodes, constants, outputs, width=4, metadata=None))

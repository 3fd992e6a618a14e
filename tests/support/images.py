"""Networks of operators on images of codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.model.network import Network
from tests.support.builders import ELEMENT_TYPES, make_model
from tests.support.codes import node
from tests.support.programs.board_program import parse


def every_operator(dtype: str) -> Network:
    """A network with all operators on images of codes of one type; the image has 4 channels of 7 by 6 values."""
    shift = 0 if dtype == "uint8" else -128
    rng = np.random.default_rng(5)
    constants: dict[str, Any] = {
        "image": np.array([-1, 4, 7, 6], np.int64),
        "sx": np.float32(1),
        "sw": np.float32([0.01, 0.02, 0.015, 0.012, 0.01, 0.03]),
        "sc": np.float32(2.3),
        "sy": np.float32(0.37),
        "zx": np.array(100 + shift, dtype),
        "zw": np.zeros(6, np.int8),
        "zy": np.array(141 + shift, dtype),
        "w": rng.integers(-127, 128, (6, 2, 3, 2)).astype(np.int8),
        "b": rng.integers(-3000, 3000, 6).astype(np.int32),
    }
    x, y = ["sx", "zx"], ["sy", "zy"]
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", *x, output="q"),
        node("QLinearConv", "q", *x, "w", "sw", "zw", "sc", "zy", "b", output="conv",
             group=2, pads=[1, 0, 0, 1], strides=[2, 1], dilations=[1, 2]),
        node("MaxPool", "q", output="largest", kernel_shape=[3, 2], strides=[2, 1], pads=[0, 1, 1, 0]),
        node("QLinearGlobalAveragePool", "q", *x, *y, output="mean"),
    ]  # fmt: skip
    return image_network(nodes, constants, dtype, 4 * 7 * 6)


def image_network(nodes: list[onnx.NodeProto], constants: dict[str, Any], dtype: str, width: int) -> Network:
    """A network whose results, images of one type, are those that no node reads."""
    read = {name for each in nodes for name in each.input}
    results = [each.output[0] for each in nodes if each.output[0] not in read]
    model = make_model(nodes, constants, {}, width=width)
    model.graph.output.extend(helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], [None] * 4) for name in results)
    return parse(model)

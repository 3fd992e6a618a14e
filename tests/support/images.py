"""Networks of operators on images of codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.model.importer import logic
from harness.model.network import Network
from tests.support.builders import ELEMENT_TYPES, make_model
from tests.support.codes import node
from tests.support.programs.board_program import parse


def every_operator(dtype: str, *names: str) -> Network:
    """A network with all operators, or some layers, on images of codes of one type: 4 channels of 7 by 6 values."""
    shift = 0 if dtype == "uint8" else -128
    rng = np.random.default_rng(5)
    constants: dict[str, Any] = {
        "image": np.array([-1, 4, 7, 6], np.int64),
        "sx": np.float32(0.9),
        "sw": np.float32([0.01, 0.02, 0.015, 0.012, 0.01, 0.03]),
        "sc": np.float32(2.3),
        "sy": np.float32(0.37),
        "zx": np.array(100 + shift, dtype),
        "zw": np.zeros(6, np.int8),
        "zy": np.array(141 + shift, dtype),
        "w": rng.integers(-127, 128, (6, 2, 3, 2)).astype(np.int8),
        "matrix": rng.integers(-127, 128, (4, 6)).astype(np.int8),
        "z": np.array(-3, np.int8),
        "starts": np.array([1, 1, -3], np.int64),
        "ends": np.array([100, 3, -1], np.int64),
        "axes": np.array([3, 1, -2], np.int64),
        "steps": np.array([2, 1, 1], np.int64),
        "pads": np.array([0, 1, 2, 0, 0, 0, 1, 3], np.int64),
        "pads_of_columns": np.array([0, 0, 0, 1, 0, 0, 0, 0], np.int64),
        "value": np.array(77 + shift, dtype),
        "places": np.array([2, -1], np.int64),
        "square": np.array([-1, 1, 2, 3], np.int64),
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
        node("QLinearAveragePool", "q", *x, *y, output="means", kernel_shape=[2, 3], pads=[1, 0, 0, 1], strides=[2, 1]),
        node("QLinearAveragePool", "q", *x, *y, output="padded", kernel_shape=[3, 2], pads=[0, 1, 2, 0],
             strides=[1, 2], count_include_pad=1, ceil_mode=1),
        node("QLinearAveragePool", "q", *x, *y, output="whole", kernel_shape=[7, 6]),
        node("Transpose", "q", output="transposed", perm=[0, 3, 1, 2]),
        node("Slice", "q", "starts", "ends", "axes", "steps", output="part"),
        node("Pad", "q", "pads", "value", output="framed"),
        node("Pad", "means", "pads_of_columns", output="wide"),
        node("Concat", "means", "wide", "means", output="joined", axis=-1),
        node("Squeeze", "mean", "places", output="squeezed"),
        node("Unsqueeze", "squeezed", "places", output="unsqueezed"),
        node("Identity", "unsqueezed", output="same"),
        node("QLinearMul", "q", *x, "mean", *y, "sc", "zy", output="gated"),
        node("QLinearAdd", "mean", *y, "q", *x, *y, output="raised"),
        node("Flatten", "mean", output="vector"),
        node("QLinearMatMul", "vector", *y, "matrix", "sw", "zw", "sc", "zy", output="columns"),
        node("Reshape", "columns", "square", output="product"),
        node("QLinearMatMul", "vector", *y, "matrix", "sx", "z", "sc", "zy", output="other_columns"),
        node("Reshape", "other_columns", "square", output="other_product"),
    ]  # fmt: skip
    kept = [each for each in nodes if not names or each.output[0] in needed(nodes, names)]
    return image_network(kept, constants, dtype, 4 * 7 * 6)


def needed(nodes: list[onnx.NodeProto], names: tuple[str, ...]) -> set[str]:
    """These results, and those that they are computed from."""
    found = set(names)
    for each in reversed(nodes):
        found |= set(each.input) if found.intersection(each.output) else set()
    return found


def image_network(nodes: list[onnx.NodeProto], constants: dict[str, Any], dtype: str, width: int) -> Network:
    """A network whose results, images of one type, are those that no node reads."""
    read = {name for each in nodes for name in each.input}
    results = [name for each in nodes for name in each.output if name not in read]
    model = make_model(nodes, constants, {}, width=width)
    model.graph.output.extend(helper.make_tensor_value_info(name, ELEMENT_TYPES[dtype], [None] * 4) for name in results)
    logic.convert(model)
    return parse(model)


def random_windows(rng: np.random.Generator, axes: int, *, dilated: bool) -> dict[str, Any]:
    """The attributes of a pooling or convolution over so many axes."""
    kernel = rng.integers(1, 5, axes).tolist()
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if rng.random() < 0.7:
        attributes["strides"] = rng.integers(1, 4, axes).tolist()
    if dilated and rng.random() < 0.4:
        attributes["dilations"] = rng.integers(1, 4, axes).tolist()
    padding = rng.choice(["none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"], p=[0.2, 0.4, 0.15, 0.15, 0.1])
    if padding == "pads":
        attributes["pads"] = [int(rng.integers(0, size)) for size in 2 * kernel]
    elif padding != "none":
        attributes["auto_pad"] = str(padding)
    return attributes

"""Networks of float32 operators on images."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from harness.model.network import Network
from tests.support.codes import node
from tests.support.images import image_network, needed

RANDOM = np.random.default_rng(2)
CONSTANTS: dict[str, Any] = {
    "image": np.array([-1, 9, 7, 6], np.int64),
    "low": np.float32(-1e4),
    "high": np.float32(1e4),
    "least": np.float32(0.3),
    "flags": np.arange(42).reshape(7, 6) % 3 > 0,
    "one": np.float32(1),
    "channels": np.linspace(-2, 3, 9, dtype=np.float32).reshape(9, 1, 1) + np.float32(0.01),
    "gain": np.linspace(-2, 2, 9, dtype=np.float32),
    "bias": np.linspace(3, -1, 9, dtype=np.float32),
    "mean_of_channel": np.linspace(-1, 3, 9, dtype=np.float32),
    "variance": np.linspace(0, 5, 9, dtype=np.float32),
    "kernels": RANDOM.normal(size=(13, 9, 3, 2)).astype(np.float32),
    "of_kernels": RANDOM.normal(size=13).astype(np.float32),
    "of_groups": RANDOM.normal(size=(6, 3, 2, 3)).astype(np.float32),
    "matrix": RANDOM.normal(size=(19, 9)).astype(np.float32),
    "of_rows": RANDOM.normal(size=19).astype(np.float32),
    "second_matrix": RANDOM.normal(size=(19, 5)).astype(np.float32),
    "around": np.array([0, 0, 2, 1, 0, 0, 3, 2], np.int64),
    "chosen": np.array([5, 0, -1, 2], np.int64),
    "only": np.array(-2, np.int64),
    "first_axis": np.array(1, np.int32),
    "outer": np.array([1, -1], np.int64),
    "inner": np.array([3, 2], np.int64),
    "second": np.array([2], np.int64),
    "parts": np.array([4, 5], np.int64),
    "repeats": np.array([1, 2, 1, 3], np.int64),
    "whole": np.array([1, 4, 1], np.int64),
    "twice": np.array([1, 1, 2, 3], np.float32),
    "uneven": np.array([1, 1, 0.7, 1.6], np.float32),
    "size": np.array([5, 11], np.int64),
    "of_each_row": RANDOM.normal(size=(6, 21)).astype(np.float32),
    "to_wider": RANDOM.normal(size=(9, 2, 3, 2)).astype(np.float32),
    "of_wider": RANDOM.normal(size=6).astype(np.float32),
    "square": RANDOM.normal(size=(9, 1, 3, 3)).astype(np.float32),
    "columns": np.linspace(-1, 1, 6, dtype=np.float32),
}


def nodes() -> list[onnx.NodeProto]:
    """Every operator on images of 9 channels of 7 by 6 values."""
    return [
        node("Reshape", "x", "image", output="images"),
        node("MaxPool", "images", output="largest", kernel_shape=[3, 2], strides=[2, 1], pads=[0, 1, 1, 0]),
        node("MaxPool", "images", output="dilated", kernel_shape=[2, 3], dilations=[3, 2], strides=[1, 2], ceil_mode=1),
        node("GlobalMaxPool", "images", output="most"),
        node("AveragePool", "images", output="means", kernel_shape=[3, 2], strides=[2, 1], pads=[0, 1, 1, 0]),
        node("AveragePool", "images", output="padded", kernel_shape=[3, 3], strides=[3, 2], pads=[1, 1, 1, 0],
             count_include_pad=1, ceil_mode=1),
        node("GlobalAveragePool", "images", output="mean"),
        node("Clip", "images", "low", "high", output="bounded"),
        node("Clip", "images", "least", "high", output="positive"),
        node("MaxPool", "bounded", output="row", kernel_shape=[7, 1]),
        node("GlobalMaxPool", "bounded", output="peak"),
        node("Add", "bounded", "channels", output="shifted"),
        node("Sub", "columns", "bounded", output="difference"),
        node("Mul", "bounded", "peak", output="scaled"),
        node("Sub", "row", "bounded", output="relative"),
        node("Div", "bounded", "channels", output="halved"),
        node("Div", "one", "positive", output="inverse"),
        node("Div", "bounded", "positive", output="quotient"),
        node("Div", "row", "positive", output="ratio"),
        node("Max", "bounded", "channels", "row", output="upper"),
        node("Min", "columns", "peak", "bounded", output="lower"),
        node("Sum", "bounded", "row", "channels", "peak", "bounded", output="total"),
        node("Mean", "bounded", "row", "channels", output="mean_of_terms"),
        node("Max", "images", output="alone"),
        node("Less", "bounded", "row", output="is_below"),
        node("LessOrEqual", "channels", "bounded", output="is_from_channels"),
        node("Greater", "bounded", "peak", output="is_peak"),
        node("GreaterOrEqual", "bounded", "row", output="is_most"),
        node("Equal", "bounded", "upper", output="is_upper"),
        node("Cast", "peak", output="is_a_number", to=TensorProto.BOOL),
        node("And", "is_below", "is_a_number", output="is_both"),
        node("Or", "is_both", "is_upper", output="is_any"),
        node("Not", "is_peak", output="is_no_peak"),
        node("Xor", "is_any", "is_no_peak", output="is_one"),
        node("And", "is_one", "flags", output="is_flagged"),
        node("Where", "is_flagged", "bounded", "channels", output="chosen_of_both"),
        node("Where", "is_most", "one", "row", output="chosen_number"),
        node("Equal", "is_from_channels", "is_flagged", output="is_alike"),
        node("Cast", "is_alike", output="of_bools", to=TensorProto.FLOAT),
        node("BatchNormalization", "images", "gain", "bias", "mean_of_channel", "variance", output="normalised",
             epsilon=1e-3),
        node("Conv", "bounded", "kernels", "of_kernels", output="windows", strides=[2, 1], pads=[1, 0, 0, 1]),
        node("Conv", "bounded", "of_groups", output="groups", group=3, dilations=[2, 1], pads=[0, 1, 2, 0]),
        node("Pad", "images", "around", output="reflected", mode="reflect"),
        node("Pad", "images", "around", output="edged", mode="edge"),
        node("Pad", "images", "around", output="wrapped", mode="wrap"),
        node("Gather", "images", "chosen", output="gathered", axis=3),
        node("Gather", "images", "only", output="gathered_row", axis=2),
        node("Tile", "images", "repeats", output="tiled"),
        node("Expand", "peak", "whole", output="expanded"),
        node("DepthToSpace", "images", blocksize=3, output="shallow"),
        node("DepthToSpace", "images", blocksize=3, mode="CRD", output="spread"),
        node("SpaceToDepth", "shallow", blocksize=3, output="deep"),
        helper.make_node("Split", ["images", "parts"], ["first_part", "second_part"], name="split", axis=1),
        node("Resize", "images", "", "twice", output="repeated"),
        node("Resize", "images", "", "uneven", output="nearest", nearest_mode="ceil",
             coordinate_transformation_mode="asymmetric"),
        node("Resize", "bounded", "", "uneven", output="linear", mode="linear"),
        node("Resize", "bounded", "", "", "size", output="aligned", mode="linear", axes=[2, 3],
             coordinate_transformation_mode="align_corners"),
        node("ReduceSum", "images", "outer", output="sums"),
        node("ReduceMean", "images", "inner", output="averages"),
        node("ReduceMax", "images", "outer", output="maxima"),
        node("ReduceMin", "images", "second", output="minima"),
        node("ReduceProd", "bounded", "second", output="products"),
        node("ReduceL1", "images", "outer", output="distances"),
        node("ReduceL2", "images", "inner", output="norms"),
        node("ReduceSumSquare", "bounded", "outer", output="squares"),
        node("ReduceLogSumExp", "bounded", "inner", output="log_sums"),
        node("CumSum", "bounded", "only", output="sums_so_far"),
        node("CumSum", "bounded", "first_axis", output="sums_before", exclusive=1, reverse=1),
        node("LogSoftmax", "bounded", output="log_of_channels", axis=1),
        node("LogSoftmax", "bounded", output="log_of_rows", axis=-1),
        node("LayerNormalization", "bounded", "columns", output="layer_normalised", axis=-1),
        node("InstanceNormalization", "bounded", "gain", "bias", output="channel_normalised"),
        node("PRelu", "bounded", "channels", output="sloped"),
        node("LRN", "bounded", output="responses", size=5, alpha=0.3, beta=0.75, bias=2.0),
        node("LRN", "bounded", output="rooted", size=3, beta=0.25),
        node("MatMul", "bounded", "of_each_row", output="each_row"),
        node("Softmax", "bounded", output="of_channels", axis=1),
        node("ConvTranspose", "bounded", "to_wider", "of_wider", output="wider", group=3, strides=[2, 1],
             dilations=[1, 2], pads=[1, 0, 0, 2], output_padding=[1, 0]),
        node("Conv", "images", "square", output="unbounded", group=9, pads=[1, 1, 1, 1]),
        node("Add", "unbounded", "images", output="residual"),
        node("Cast", "reflected", output="cast", to=TensorProto.FLOAT),
        node("Flatten", "peak", output="peaks"),
        node("Gemm", "peaks", "matrix", "of_rows", output="rows", transB=1, alpha=0.7),
        node("MatMul", "rows", "second_matrix", output="last"),
    ]  # fmt: skip


def every_operator(*names: str) -> Network:
    """A network with all operators, or with some layers."""
    made = nodes()
    kept = [each for each in made if not names or needed(made, names).intersection(each.output)]
    used = {name for each in kept for name in each.input}
    return image_network(kept, {name: CONSTANTS[name] for name in CONSTANTS if name in used}, "float32", 9 * 7 * 6)

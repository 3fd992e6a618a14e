"""The nodes of an ONNX file with their constants, read without harness.model, which reads the file for the generators.

Every operator has a line in `READERS`: the function that takes its constants from the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.exact import fused
from harness.operators.region import Region
from harness.operators.scaled_sum import Scales

CODES = 255  # thresholds of a layer with 8-bit outputs
OMITTED = 10  # inputs that a node may not have

KNOWN_SHAPES = {
    "QLinearAveragePool": "AveragePool",
    "QLinearConcat": "Concat",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
}
"""The operators of ONNX whose outputs have the shape of those of ONNX Runtime."""

PAIRS = ("QLinearAdd", "QLinearMul")
"""The operators whose terms are broadcast; their layers read the terms in the order of `_repeats_first`."""

WITHOUT_CONSTANTS = (
    "Abs", "Ceil", "Erf", "Floor", "Gelu", "Mish", "Neg", "Reciprocal", "Round", "Sign", "Softplus", "Softsign",
    "Cast", "Concat", "Dropout", "Exp", "Flatten", "GlobalMaxPool", "HardSwish", "HybridSelect", "Identity",
    "LogSoftmax", "MaxPool", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Sigmoid", "Slice", "Softmax", "Split",
    "Squeeze", "Tanh", "Transpose", "Unsqueeze",
    "DepthToSpace", "Expand", "Log", "Pow", "SpaceToDepth", "Sqrt", "Tile",
)  # fmt: skip

NUMBERS = {"CellUnion": 1, "CheckPositions": 1, "HybridSelect": 2}
"""The operators of domain `harness` that give integers, and how many."""
OPERANDS = ("addend", "factor")
"""The constant operands."""
DENSE = ("QGemm", "QLinearMatMul")
"""The operators with the constants and tables of a QGemm."""
FLOAT_DENSE = ("Gemm", "MatMul")
"""The operators with the constants and tables of a Gemm."""
FLOAT_CONVOLUTIONS = ("Conv", "ConvTranspose")
"""The operators with weights and bias of each channel."""

Constants: TypeAlias = dict[str, Array]
"""Constants of a node by the names that `Node` lists."""


@dataclass(frozen=True)
class Shaped:
    """Shape of a tensor without vectors, and its type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the ONNX file with its constants, or those of some of its columns.

    `constants` are: of QuantizeLinear and DequantizeLinear `scale` and `zero_point`; of an Add of one source
    `addend`, of a Mul `factor`, of a Sub `minuend` or `subtrahend`, of a Div `dividend` or `divisor`, of Max, Min,
    Mean, Sum `terms`; of LeakyRelu and Elu `alpha`; of HardSigmoid `alpha` and `beta`; of Clip `low` and `high`; of
    ArgMax and ArgMin `last`; of a QGemm `weights` (K, N) as stored, `bias`, `weights_zero_point`, `multiplier` and
    `b_scale`, (N,) each, and `alpha`, `a_scale`, `input_zero_point`, for a code as output `y_scale` and
    `output_zero_point`; of Gemm, MatMul, Conv, ConvTranspose `weights` (K, N), `bias`; of QLinearAdd `first_ratio`,
    `second_ratio` and `fixed`, of QLinearMul `multiplier` and three zero points, both with `addend` or `factor` if they
    read one source; of QLinearLeakyRelu and QLinearSigmoid the `table` of all codes, of QLinearConcat one row for each
    input; of QLinearSoftmax `table`, `inverse` and `y_zero_point`; of AveragePool `count`, one a window.  Zero points
    are int32.  `window` of QLinearConv has the channels and the kernel that a sum reads.  `images` are the shapes of
    the sources, `image` that of the first, `shape` that of the output, `depth` the width of all sources.  `inputs` are
    the constants of the file by their position, None for an activation and for an omitted input.
    """

    operator: str
    sources: tuple[str, ...]
    output: str
    input_width: int
    input_dtype: np.dtype[Any]
    width: int
    dtype: np.dtype[Any]
    inputs: list[Array | None]
    constants: Mapping[str, Array] = field(default_factory=dict)
    window: tuple[int, ...] = ()
    image: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    images: tuple[tuple[int, ...], ...] = ()
    depth: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def constant_first(self) -> bool:
        """Return True if the first input is a constant, and ONNX Runtime does not exchange the inputs."""
        return self.inputs[0] is not None and not _repeats_first(self)

    def columns(self, region: Region) -> Node:
        """Return the node with these columns alone: whole channels, or rows, which have all weights."""
        if region.size == self.width:
            return self
        cut, (start, stop) = dict(self.constants), (region.start, region.stop)
        channels = self.constants["weights"].shape[1] if "weights" in cut else 1
        positions = self.width // channels
        if channels > 1 and region.runs == 1:
            taken = slice(start // positions, stop // positions)
            per_channel = ("weights", "bias", "weights_zero_point", "multiplier", "b_scale")
            cut |= {name: cut[name][..., taken] for name in per_channel if name in cut}
            if "groups" in cut:
                cut["groups"] = np.maximum(cut["groups"] * (taken.stop - taken.start) // channels, 1)
        if np.size(cut.get("count", ())) == self.width // region.runs:  # one for each window of a channel
            cut["count"] = cut["count"][start:stop]
        for name in OPERANDS:
            if np.size(cut.get(name, ())) == self.width:
                cut[name] = cut[name].reshape(-1)[region.indices(self.width)]
        return replace(self._of_shape(region), width=region.size, constants=cut)

    def _of_shape(self, region: Region) -> Node:
        """Return the node with the shapes of a part and of the image that it reads, which dense layers do not need.

        Only outer borders are padded.  Windows in the padding alone have one row, behind all of them.
        """
        if self.operator in (*DENSE, *FLOAT_DENSE, *FLOAT_CONVOLUTIONS):
            return self
        (channels, *others), image, attributes = self.shape, self.image, dict(self.attributes)
        positions, row = math.prod(others), math.prod(others[1:])
        if region.runs == 1 and region.start % positions == region.stop % positions == 0:
            first, last = region.start // positions, region.stop // positions
            shape = (last - first, *others)
            share = channels // attributes.get("group", 1) if self.window else 1
            attributes["group"] = groups = -(-last // share) - first // share
            image = (groups * (self.window[0] if self.window else 1), *image[1:])
        else:
            first, last = region.start // row, region.stop // row
            shape = (channels, last - first, *others[1:])
            if "dilations" in attributes:
                begin, end = (each * attributes["strides"][0] - attributes["pads"][0] for each in (first, last - 1))
                end += (attributes["kernel_shape"][0] - 1) * attributes["dilations"][0] + 1
                first, last, before = max(begin, 0), min(end, image[1]), max(-begin, 0)
                if first >= last:
                    first, last, before = 0, 1, end - begin
                attributes["pads"] = [before, *attributes["pads"][1:]]
            image = (image[0], last - first, *image[2:])
        width = math.prod(image)
        depth = self.depth // self.input_width * width
        return replace(self, shape=shape, image=image, attributes=attributes, input_width=width, depth=depth)

    @property
    def centred(self) -> Array:
        """The weights minus their zero points, int64 (K, N)."""
        difference: Array = self.constants["weights"].astype(np.int64) - self.constants["weights_zero_point"]
        return difference

    @property
    def signed_shift(self) -> int:
        """The number to subtract from stored weights and their zero points to get int8 weights."""
        return 128 if self.constants["weights"].dtype == np.uint8 else 0

    @property
    def signed(self) -> Array:
        """The weights as the kernels for int8 weights take them, int8 (K, N)."""
        return (self.constants["weights"].astype(np.int32) - self.signed_shift).astype(np.int8)


Reader: TypeAlias = Callable[[Node], Constants]


def nodes(onnx_bytes: bytes) -> dict[str, Node]:
    """Return the nodes of a model, by the tensor that each writes, in the file's order."""
    model = onnx.load_model_from_string(onnx_bytes)
    graph = model.graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    operators = []
    for node in graph.node:
        stored = {entry.name: entry.t for entry in node.attribute}
        if node.op_type == "Constant" and "value" in stored:
            values[node.output[0]] = numpy_helper.to_array(stored["value"])
        elif node.op_type == "DequantizeLinear" and node.input[0] in values:
            values[node.output[0]] = _dequantised(node, values)
        else:
            operators.append(node)
    [given] = [value for value in graph.input if value.name not in values]
    shape = tuple(dim.dim_value for dim in given.type.tensor_type.shape.dim[1:])
    tensors = {given.name: Shaped(shape, np.dtype(np.float32))}
    found: dict[str, Node] = {}
    for proto, output in ((each, name) for each in operators for name in _written(each)):
        shape = _shape(proto, output, values, tensors, model.opset_import)
        node = replace(_node(proto, values, tensors, shape), output=output)
        tensors[node.output] = Shaped(shape if math.prod(shape) == node.width else (node.width,), node.dtype)
        found[node.output] = node
    return found


def _dequantised(proto: onnx.NodeProto, values: Mapping[str, Array]) -> Array:
    """Return float32 weights that a model stores as integers, with a scale for each place of an axis, or one."""
    codes, scale, *zero_points = (values[name] for name in proto.input if name)
    axis = next((entry.i for entry in proto.attribute if entry.name == "axis"), 1)
    last = np.moveaxis(codes, axis, -1) if scale.size > 1 else codes
    centred = last.astype(np.int64) - (zero_points[0].reshape(-1).astype(np.int64) if zero_points else 0)
    weights = centred.astype(np.float32) * scale.reshape(-1)
    return (np.moveaxis(weights, -1, axis) if scale.size > 1 else weights).reshape(codes.shape)


def _written(proto: onnx.NodeProto) -> list[str]:
    """Return the outputs of a node that are layers."""
    return list(proto.output if proto.op_type == "Split" else proto.output[:1])


def _shape(
    proto: onnx.NodeProto,
    output: str,
    values: Mapping[str, Array],
    tensors: Mapping[str, Shaped],
    opsets: Sequence[onnx.OperatorSetIdProto],
) -> tuple[int, ...]:
    """Return the shape of an output without vectors, as ONNX infers it; of others that of the first input."""
    sources = [name for name in proto.input if name in tensors]
    types = {name: tensors[name].dtype for name in sources}
    if proto.op_type in KNOWN_SHAPES:
        types = dict.fromkeys(sources, np.dtype(np.float32))
        own = [entry for entry in proto.attribute if entry.name != "channels_last"]
        proto = onnx.NodeProto(op_type=KNOWN_SHAPES[proto.op_type], input=sources, output=proto.output, attribute=own)
    elif proto.op_type == "QGemm":
        transposed = any(entry.name == "transB" and entry.i for entry in proto.attribute)
        return (values[proto.input[3]].shape[0 if transposed else 1],)
    elif proto.op_type in NUMBERS:
        return (NUMBERS[proto.op_type],)
    elif proto.domain not in ("", "ai.onnx"):
        shape = list(tensors[sources[0]].shape)
        if proto.op_type in PAIRS:
            return np.broadcast_shapes(*(tensors[name].shape for name in sources))
        if proto.op_type == "Delay":
            attributes = {entry.name: entry.i for entry in proto.attribute}
            shape[attributes["axis"] - 1] += attributes["history"]
        return tuple(shape)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), [1, *tensors[name].shape])
        for name, dtype in types.items()
    ]
    constants = [numpy_helper.from_array(values[name], name) for name in proto.input if name in values]
    graph = helper.make_graph([proto], "shape", inputs, [onnx.ValueInfoProto(name=output)], constants)
    alone = helper.make_model(graph, opset_imports=opsets)
    inferred = onnx.shape_inference.infer_shapes(alone).graph.output[0].type.tensor_type.shape.dim
    return tuple(dim.dim_value for dim in inferred[1:])


def _node(
    proto: onnx.NodeProto, values: Mapping[str, Array], tensors: Mapping[str, Shaped], shape: tuple[int, ...]
) -> Node:
    """Read a node; `shape` is the shape of the output that `_shape` gives."""
    if proto.op_type not in READERS:
        raise RequestError(
            f"node {proto.name or proto.output[0]}: a proof does not know the constants of {proto.op_type}",
            f"compare vectors with harness run, or add {proto.op_type} to harness/analysis/proof/expected_nodes.py; "
            f"it has {', '.join(sorted(READERS))}",
        )
    sources = tuple(name for name in proto.input if name in tensors)
    inputs = [*(values.get(name) for name in proto.input), *[None] * OMITTED]
    first = tensors[sources[0]]
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in proto.attribute}
    window = np.asarray(inputs[3]).shape[1:] if proto.op_type == "QLinearConv" else ()
    if window or "kernel_shape" in attributes:
        attributes |= _explicit(attributes, list(attributes.get("kernel_shape", window[1:])), first.shape, shape)
    node = Node(
        proto.op_type,
        sources,
        proto.output[0],
        math.prod(first.shape),
        first.dtype,
        math.prod(shape),
        _dtype(proto, inputs, first.dtype),
        inputs,
        window=window,
        image=first.shape,
        images=tuple(tensors[name].shape for name in sources),
        shape=shape,
        depth=sum(math.prod(tensors[name].shape) for name in sources),
        attributes=attributes,
    )
    node = replace(node, constants=READERS[proto.op_type](node))
    if proto.op_type in PAIRS and len(sources) > 1 and _repeats_first(node):
        image = node.images[1]
        return replace(node, sources=sources[::-1], image=image, input_width=math.prod(image))
    return node


def _dtype(proto: onnx.NodeProto, inputs: Sequence[Array | None], given: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the output; but for these operators it is that of the first source, `given`."""
    if proto.op_type == "QuantizeLinear":
        [kind] = [entry.i for entry in proto.attribute if entry.name == "output_dtype"] or [0]
        default = helper.tensor_dtype_to_np_dtype(kind or onnx.TensorProto.UINT8)
        return default if inputs[2] is None else inputs[2].dtype
    if proto.op_type == "DequantizeLinear" or (proto.op_type == "QGemm" and inputs[7] is None):
        return np.dtype(np.float32)
    if proto.op_type == "Position":
        return np.dtype(np.uint8)
    integers = ("ArgMax", "ArgMin", *NUMBERS)
    return np.dtype(np.int64) if proto.op_type in integers else given


def _scaled(node: Node) -> Constants:
    """Read QuantizeLinear or DequantizeLinear: x, its scale and zero point."""
    return {
        "scale": _row(node.inputs[1]),
        "zero_point": _integers(np.zeros(1) if node.inputs[2] is None else node.inputs[2]),
    }


def _levels(node: Node) -> Constants:
    """Read CellUnion: the positions, the cells of each, then the levels of the diagram."""
    given = [value for value in node.inputs if value is not None]
    return {"table_cells": given[0]} | {f"table_{axis}": level for axis, level in enumerate(given[1:])}


def _of_two(first: str, second: str) -> Reader:
    """Read Add, Mul, Sub or Div; a constant has the name of its position, and a single number is repeated."""

    def read(node: Node) -> Constants:
        named = zip((first, second), node.inputs, strict=False)
        return {
            name: _row(value, node.width if value.size == 1 else value.size)
            for name, value in named
            if value is not None
        }

    return read


def _operands(node: Node) -> Constants:
    """Read Max, Min or Sum: the constant operands, one after the other."""
    given = [value.reshape(-1) for value in node.inputs if value is not None]
    return {"terms": np.concatenate(given)} if given else {}


def _normalisation(node: Node) -> Constants:
    """Read BatchNormalization: x, scale, B, mean, var."""
    _, scale, offset, mean, variance, *_ = map(np.asarray, node.inputs)
    deviation = np.sqrt(variance + np.float32(node.attributes.get("epsilon", 1e-5)))
    return {"mean": mean, "deviation": deviation.astype(np.float32), "scale": scale, "offset": offset}


def _lrn(node: Node) -> Constants:
    """Read LRN: alpha / size, and the bias."""
    alpha, bias = (np.float32(node.attributes.get(name, value)) for name, value in (("alpha", 1e-4), ("bias", 1.0)))
    return {"factor": np.array([alpha / np.float32(node.attributes["size"])]), "bias": np.array([bias])}


def _numbers(**defaults: float) -> Reader:
    """Read attributes that are float32 numbers; `defaults` are those of ONNX."""
    return lambda node: {
        name: _row(np.array(node.attributes.get(name, value), np.float32)) for name, value in defaults.items()
    }


def _frames(node: Node) -> Constants:
    """Read Delay: the value of frames before a stream."""
    return {"value": _row(np.array(node.attributes["value"], node.dtype))}


def _bounds(node: Node) -> Constants:
    """Read Clip: min and max are inputs, or attributes before opset 11; without them all finite numbers are kept."""
    kept: Any = np.finfo(node.dtype) if node.dtype == np.float32 else np.iinfo(node.dtype)
    low, high = (
        node.attributes.get(name, getattr(kept, name)) if value is None else value
        for name, value in (("min", node.inputs[1]), ("max", node.inputs[2]))
    )
    return {"low": _row(np.asarray(low, node.dtype)), "high": _row(np.asarray(high, node.dtype))}


def _qgemm(node: Node) -> Constants:
    """Read com.microsoft QGemm: a, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point."""
    weights = np.asarray(node.inputs[3])
    return _quantised_sum(
        weights.T if node.attributes.get("transB") else weights,
        node.inputs[1:3] + node.inputs[4:6] + node.inputs[7:9],
        node.inputs[6],
        node.attributes.get("alpha", 1.0),
    )


def _qlinear_matmul(node: Node) -> Constants:
    """Read QLinearMatMul: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point."""
    return _quantised_sum(np.asarray(node.inputs[3]), node.inputs[1:3] + node.inputs[4:8], None)


def _qlinear_conv(node: Node) -> Constants:
    """Read QLinearConv: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B."""
    weights = np.asarray(node.inputs[3])
    return _quantised_sum(weights.reshape(len(weights), -1).T, node.inputs[1:3] + node.inputs[4:8], node.inputs[8])


def _quantised_sum(weights: Array, steps: Sequence[Array | None], bias: Array | None, alpha: float = 1) -> Constants:
    """Return the constants of a sum of `weights` (K, N); `steps` are scale and zero point of a, of b and of y."""
    a_scale, a_zero_point, b_scale, b_zero_point, y_scale, y_zero_point = steps
    width = weights.shape[1]
    constants: Constants = {
        "weights": weights,
        "bias": np.zeros(width, np.int32) if bias is None else _row(bias, width),
        "weights_zero_point": _integers(b_zero_point, width),
        "input_zero_point": _integers(a_zero_point),
        "alpha": np.array([alpha], np.float32),
        "a_scale": _row(a_scale),
        "b_scale": _row(b_scale, width),
    }
    if y_scale is not None:
        constants |= {"y_scale": _row(y_scale), "output_zero_point": _integers(y_zero_point)}
    to_code = None if y_scale is None else constants["y_scale"][0]
    scales = Scales(np.float32(alpha), constants["a_scale"][0], constants["b_scale"], to_code)
    return constants | {"multiplier": scales.multiplier_bits().view(np.float32)}


def _gemm(node: Node) -> Constants:
    """Read Gemm or MatMul: A, B, C."""
    weights = np.asarray(node.inputs[1])
    alpha, beta = (np.float32(node.attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    tables = _float_sum(weights.T if node.attributes.get("transB") else weights, node.inputs[2])
    return {"weights": alpha * tables["weights"], "bias": beta * tables["bias"]}


def _conv(node: Node) -> Constants:
    """Read Conv: X, W, B."""
    weights = np.asarray(node.inputs[1])
    groups = np.array([node.attributes.get("group", 1)])
    return {**_float_sum(weights.reshape(len(weights), -1).T, node.inputs[2]), "groups": groups}


def _conv_transpose(node: Node) -> Constants:
    """Read ConvTranspose: X, W (channels, M / groups, kernel), B; a sum has the channels of one group."""
    given, groups = np.asarray(node.inputs[1]), node.attributes.get("group", 1)
    parts = np.split(given.reshape(*given.shape[:2], -1), groups)
    weights = np.concatenate([part.swapaxes(1, 2).reshape(-1, given.shape[1]) for part in parts], axis=1)
    return {**_float_sum(weights, node.inputs[2]), "groups": np.array([groups])}


def _float_sum(weights: Array, bias: Array | None) -> Constants:
    """Return the constants of a float32 sum of `weights` (K, N)."""
    width = weights.shape[1]
    return {"weights": weights, "bias": np.zeros(width, np.float32) if bias is None else _row(bias, width)}


def _global_mean(node: Node) -> Constants:
    """Read QLinearGlobalAveragePool: x, x_scale, x_zero_point, y_scale, y_zero_point."""
    _, x_scale, x_zero_point, y_scale, y_zero_point, *_ = node.inputs
    return {
        "input_zero_point": _integers(x_zero_point),
        "multiplier": _row(x_scale) / (_row(y_scale) * np.float32(math.prod(node.image[1:]))),
        "output_zero_point": _integers(y_zero_point),
    }


def _mean(node: Node) -> Constants:
    """Read QLinearAveragePool; ONNX Runtime computes a window of the whole image as QLinearGlobalAveragePool."""
    whole = node.attributes["kernel_shape"] == list(node.image[1:])
    if whole and math.prod(node.shape[1:]) == 1 and not any(node.attributes["pads"]):
        return _global_mean(node)
    _, x_scale, x_zero_point, y_scale, y_zero_point, *_ = node.inputs
    return {
        "input_step": _row(x_scale),
        "input_zero_point": _integers(x_zero_point),
        "output_step": _row(y_scale),
        "output_zero_point": _integers(y_zero_point),
    }


def _counted(node: Node) -> Constants:
    return {"count": counts(node.attributes, node.image, node.shape)}


def _share(node: Node) -> Constants:
    """Read GlobalAveragePool or ReduceMean: the number of values of a mean."""
    return {"count": np.array([math.prod(node.image) / node.width], np.float32)}


def _scaled_rows(node: Node) -> Constants:
    """Read LayerNormalization or InstanceNormalization: x, scale, bias."""
    scale = np.asarray(node.inputs[1]).reshape(-1)
    has_bias = len(node.inputs) > 2 and node.inputs[2] is not None
    bias = np.asarray(node.inputs[2]).reshape(-1) if has_bias else np.zeros(scale.shape, np.float32)
    is_layer = node.operator == "LayerNormalization"
    count = scale.size if is_layer else math.prod(node.image[1:])
    epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
    return {"scale": scale, "bias": bias, "epsilon": np.array([epsilon]), "count": np.array([count], np.float32)}


def _slope(node: Node) -> Constants:
    """Read PRelu: x, slope."""
    return {"slope": np.asarray(node.inputs[1]).reshape(-1)}


def _last(node: Node) -> Constants:
    return {"last": np.array([node.attributes.get("select_last_index", 0)])}


def _padding(node: Node) -> Constants:
    """Read Pad: data, pads, its constant, 0 if it is not given; none for modes that take values of the input."""
    if node.attributes.get("mode", b"constant") != b"constant":
        return {}
    value = node.inputs[2]
    return {"value": np.zeros(1, node.dtype) if value is None else _row(value)}


def _resized(node: Node) -> Constants:
    """Read Resize: the places, if they are no copies of each value; of linear ones both places and factors."""
    attributes, image, output = node.attributes, node.image, node.shape
    rank, axes = 1 + len(image), list(attributes.get("axes", ()))
    scales = [np.float32(after) / np.float32(before) for after, before in zip(output, image, strict=True)]
    if node.inputs[2] is not None and node.inputs[2].size:
        for axis, scale in zip(axes or range(rank), node.inputs[2], strict=True):
            if axis % rank:
                scales[axis % rank - 1] = scale
    mode = attributes.get("coordinate_transformation_mode", b"half_pixel")
    found = [_source(*each, mode) for each in zip(image, output, scales, strict=True)]
    if attributes.get("mode", b"nearest") == b"linear":
        inside = [
            np.minimum(np.maximum(at, 0), size - 1).astype(np.float32)
            for at, size in zip(found[1:], image[1:], strict=True)
        ]
        low = [np.floor(at) for at in inside]
        rows, columns = (
            np.array([below, np.minimum(below + 1, size - 1)], np.int32)
            for below, size in zip(low, image[1:], strict=True)
        )
        down, right = (
            np.array([1 - (at - below), at - below], np.float32) for at, below in zip(inside, low, strict=True)
        )
        return {"rows": rows, "columns_of_x": columns, "down": down, "right": right}
    rounding: dict[bytes, Callable[[Array], Array]] = {
        b"floor": np.floor,
        b"ceil": np.ceil,
        b"round_prefer_ceil": lambda at: np.floor(at.astype(np.float64) + 0.5),
        b"round_prefer_floor": lambda at: np.ceil(at.astype(np.float64) - 0.5),
    }
    rounded = rounding[attributes.get("nearest_mode", b"round_prefer_floor")]
    numbers = np.zeros(1, np.int64)
    for at, size, scale in zip(found, image, scales, strict=True):
        index = np.arange(size) if len(at) == size and scale == 1 else np.clip(rounded(at), 0, size - 1)
        numbers = (numbers[:, None] * size + index.astype(np.int64)).reshape(-1)
    copies = np.arange(math.prod(image)).reshape(image)
    for axis, (after, before) in enumerate(zip(output, image, strict=True)):
        copies = copies.repeat(after // before, axis)
    return {} if np.array_equal(copies.reshape(-1), numbers) else {"places": numbers.astype(np.int32)}


def _source(size: int, count: int, scale: np.float32, mode: bytes) -> Array:
    """Return the coordinates of `count` values along an axis of `size`, float32 (ONNX Resize)."""
    i, half = np.arange(count, dtype=np.float32), np.float32(0.5)
    if count == 1 and mode in (b"align_corners", b"pytorch_half_pixel"):
        return np.zeros(1, np.float32)
    if mode == b"align_corners":
        return i * np.float32(size - 1) / np.float32(count - 1)
    return i / scale if mode == b"asymmetric" else (i + half) / scale - half


def _gathered(node: Node) -> Constants:
    """Read Gather: which value of the input each of the output is, (N,), if there are several indices."""
    given = np.asarray(node.inputs[1])
    if given.size == 1:
        return {}
    numbers = np.arange(math.prod(node.image), dtype=np.int32).reshape(1, *node.image)
    return {"places": np.take(numbers, given, node.attributes.get("axis", 0)).reshape(-1)}


def _explicit(
    attributes: Mapping[str, Any], kernel: list[int], image: tuple[int, ...], output: tuple[int, ...]
) -> dict[str, list[int]]:
    """Return the attributes of windows, with the numbers of padding in the place of auto_pad."""
    how, axes = attributes.get("auto_pad", b"NOTSET"), len(kernel)
    strides, dilations = (list(attributes.get(name, [1] * axes)) for name in ("strides", "dilations"))
    pads = list(attributes.get("pads", [0] * (2 * axes)))
    if how != b"NOTSET":
        sizes = zip(output[1:], strides, kernel, dilations, image[1:], strict=True)
        room = [max((count - 1) * stride + (size - 1) * step + 1 - length, 0)
                for count, stride, size, step, length in sizes]  # fmt: skip
        before = [{b"SAME_UPPER": each // 2, b"SAME_LOWER": each - each // 2}.get(how, 0) for each in room]
        pads = [*before, *(all_ - each for all_, each in zip(room, before, strict=True))]
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}


def counts(attributes: Mapping[str, Any], image: tuple[int, ...], output: tuple[int, ...]) -> Array:
    """Return the divisors of AveragePool, one a window: values in the image, with count_include_pad in its padding."""
    kernel, strides, dilations, pads = (attributes[name] for name in ("kernel_shape", "strides", "dilations", "pads"))
    axes = len(kernel)
    include = bool(attributes.get("count_include_pad", 0))
    found = np.ones(1, np.float32)
    for axis in range(axes):
        low, high = -include * pads[axis], image[1 + axis] + include * pads[axes + axis]
        begins = np.arange(output[1 + axis])[:, None] * strides[axis] - pads[axis]
        at = begins + np.arange(kernel[axis]) * dilations[axis]
        found = np.outer(found, ((at >= low) & (at < high)).sum(axis=1)).reshape(-1)
    return found.astype(np.float32)


def _qlinear_add(node: Node) -> Constants:
    """Read com.microsoft QLinearAdd: a, its scale and zero point, b, its scale and zero point, those of y."""
    a, sa, za, b, sb, zb, sy, zy, *_ = node.inputs
    if _repeats_first(node):  # ONNX Runtime exchanges the terms
        a, sa, za, b, sb, zb = b, sb, zb, a, sa, za
    first, second = _row(sa) / _row(sy), _row(sb) / _row(sy)
    zero_points = [_row(each).astype(np.float32) for each in (za, zb, zy)]
    both = fused(first, zero_points[0], second * zero_points[1])
    constants: Constants = {"first_ratio": first, "second_ratio": second, "fixed": zero_points[2] - both}
    operand = b if a is None else a
    return constants if operand is None else constants | {"addend": _spread(operand, node)}


def _spread(value: Array, node: Node) -> Array:
    """Return a constant term as one value for each of the output."""
    axes = value.shape[max(value.ndim - len(node.shape), 0) :]
    return np.broadcast_to(value.reshape(axes), node.shape).reshape(-1).copy()


def _repeats_first(node: Node) -> bool:
    """Return whether the first term has one value along the last axis that is longer than 1, and the second several."""
    rank, operands = len(node.shape), (node.inputs[0], node.inputs[3])
    shapes = iter(node.images)
    sizes = [next(shapes) if value is None else value.shape for value in operands]
    first, second = ((*(1,) * (rank - len(each)), *each[max(len(each) - rank, 0) :]) for each in sizes)
    longer = [axis for axis in range(rank) if node.shape[axis] > 1]
    return bool(longer) and first[longer[-1]] == 1 < second[longer[-1]]


def _qlinear_mul(node: Node) -> Constants:
    """Read com.microsoft QLinearMul; its inputs are those of QLinearAdd, a constant is the second factor."""
    a, sa, za, b, sb, zb, sy, zy, *_ = node.inputs
    operand = b if a is None else a
    exchanged = a is not None or _repeats_first(node)
    zero_points = (zb, za, zy) if exchanged else (za, zb, zy)
    constants: Constants = {"multiplier": _row(sa) * _row(sb) / _row(sy)}
    constants |= {f"{name}_zero_point": _integers(each) for name, each in zip("aby", zero_points, strict=True)}
    return constants if operand is None else constants | {"factor": _spread(operand, node)}


def _table(steps: Sequence[Array | None], dtype: np.dtype[Any], function: Callable[[Array], Array]) -> Array:
    """Return the outputs for all codes, from the lowest on; `steps` are scale and zero point of x and of y."""
    sx, zx, sy, zy = steps
    codes, limits = np.arange(CODES + 1) + np.iinfo(dtype).min, np.iinfo(dtype)
    with np.errstate(over="ignore"):
        v = function((codes - _integers(zx)).astype(np.float32) * _row(sx)) / _row(sy)
    return np.asarray(np.clip(np.rint(v.astype(np.float64)) + _integers(zy), limits.min, limits.max).astype(dtype))


def _leaky_table(node: Node) -> Constants:
    """Read com.microsoft QLinearLeakyRelu: x, its scale and zero point, those of y."""
    alpha = np.float32(node.attributes.get("alpha", 0.01))
    return {"table": _table(node.inputs[1:5], node.dtype, lambda d: np.where(d < 0, alpha * d, d))}


def _logistic_table(node: Node) -> Constants:
    """Read com.microsoft QLinearSigmoid: x, its scale and zero point, those of y."""
    return {"table": _table(node.inputs[1:5], node.dtype, _logistic)}


def _tables(node: Node) -> Constants:
    """Read com.microsoft QLinearConcat: scale and zero point of y, then of each input three; one row an input."""
    y, given = node.inputs[:2], node.inputs[2:-OMITTED]
    steps = [[*given[start + 1 : start + 3], *y] for start in range(0, len(given), 3)]
    return {"table": np.stack([_table(each, node.dtype, lambda d: d) for each in steps])}


def _qlinear_softmax(node: Node) -> Constants:
    """Read com.microsoft QLinearSoftmax: x, its scale and zero point, those of y; exponentials are those of math."""
    _, sx, _, sy, zy, *_ = node.inputs
    scale, largest = float(_row(sx)[0]), np.finfo(np.float32).max
    shift = max(0.0, float(np.float32(math.log(largest / np.float32(node.width)))) - 5) / scale
    table = np.array([math.exp((place - CODES + shift) * scale) for place in range(CODES + 1)], np.float32)
    return {"table": table, "inverse": np.floor(np.float32(1) / _row(sy)), "y_zero_point": _integers(zy)}


def _logistic(d: Array) -> Array:
    """Return MLAS's polynomial for the logistic function (onnxruntime/core/mlas/lib/logistic.cpp) with FMA."""
    alpha = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05, 8.51377133304701e-03,
             2.48287947061529e-01)  # fmt: skip
    beta = (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06, 1.70198817374094e-03,
            1.16817656904453e-01, 9.93151921023180e-01)  # fmt: skip
    d = np.clip(d, np.float32(-18), np.float32(18))
    square = d * d
    p, q = (np.full_like(d, np.float32(coefficients[0])) for coefficients in (alpha, beta))
    for coefficient in alpha[1:]:
        p = fused(p, square, np.full_like(d, coefficient))
    for coefficient in beta[1:]:
        q = fused(q, square, np.full_like(d, coefficient))
    return np.clip(p * d / q + np.float32(0.5), np.float32(0), np.float32(1))


def _row(value: Array | None, width: int = 1) -> Array:
    """Return a constant as `width` values; ONNX broadcasts a single value."""
    return np.broadcast_to(np.asarray(value).reshape(-1), width).copy()


def _integers(value: Array | None, width: int = 1) -> Array:
    return _row(value, width).astype(np.int32)


READERS: dict[str, Reader] = {
    "Add": _of_two("addend", "addend"),
    "ArgMax": _last,
    "ArgMin": _last,
    "AveragePool": _counted,
    "BatchNormalization": _normalisation,
    "CellUnion": _levels,
    "CheckPositions": lambda node: {"table": np.asarray(node.inputs[1])},
    "Clip": _bounds,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Delay": _frames,
    "DequantizeLinear": _scaled,
    "Div": _of_two("dividend", "divisor"),
    "Celu": _numbers(alpha=1.0),
    "Elu": _numbers(alpha=1.0),
    "Selu": _numbers(alpha=1.6732632, gamma=1.050701),
    "ThresholdedRelu": _numbers(alpha=1.0),
    "Gather": _gathered,
    "Gemm": _gemm,
    "GlobalAveragePool": _share,
    "InstanceNormalization": _scaled_rows,
    "LayerNormalization": _scaled_rows,
    "HardSigmoid": _numbers(alpha=0.2, beta=0.5),
    "LRN": _lrn,
    "LeakyRelu": _numbers(alpha=0.01),
    "MatMul": _gemm,
    "Max": _operands,
    "Mean": _operands,
    "Min": _operands,
    "Mul": _of_two("factor", "factor"),
    "PRelu": _slope,
    "Pad": _padding,
    "Position": lambda node: {"table": np.asarray(node.inputs[1])},
    "QGemm": _qgemm,
    "QLinearAdd": _qlinear_add,
    "QLinearAveragePool": _mean,
    "QLinearConcat": _tables,
    "QLinearConv": _qlinear_conv,
    "QLinearGlobalAveragePool": _global_mean,
    "QLinearLeakyRelu": _leaky_table,
    "QLinearMatMul": _qlinear_matmul,
    "QLinearMul": _qlinear_mul,
    "QLinearSigmoid": _logistic_table,
    "QLinearSoftmax": _qlinear_softmax,
    "QuantizeLinear": _scaled,
    "ReduceMean": _share,
    "Resize": _resized,
    "Sub": _of_two("minuend", "subtrahend"),
    "Sum": _operands,
    **dict.fromkeys(WITHOUT_CONSTANTS, lambda _: {}),
}
"""The function that takes the constants of an operator from the file."""

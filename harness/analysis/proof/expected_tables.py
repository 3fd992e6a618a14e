"""The content that every table of a program must have, derived from the bytes of the ONNX file.

Nothing is taken from harness.model, which reads the model for the generators, nor from the generators in
harness.targets.  A layout is a formula: for each place of a table, the model's constant at that place, and 0
where there is none.  It is taken from the headers of the kernels, not from the code that fills the tables.

Every operator has a line in `_node`, which reads its width, type and constants; every target has a line in `RULES`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.operators.contraction import Scales
from harness.operators.exact import fused
from harness.operators.region import Region

CODES = 255  # thresholds of a layer with 8-bit outputs
INFINITY = 0x7F800000
LANES, QUAD = 16, 4  # columns of a panel, inputs of a group: kernels/c/lanes.h, kernels/c/integer/dot4.h
LEVELS = 8  # of the binary search in kernels/vitis/layer.hpp
TIOVX_VERSION = 2  # KERNELS_VERSION in kernels/tiovx/protocol.h
TIOVX_TILE = 1 << 16  # TILE_BYTES in kernels/tiovx/target/windows.h
FLIP = 128  # the offset that the kernels of tiovx add to int8 codes

OPERANDS = ("addend", "factor")
"""The constant operands."""
DENSE = ("QGemm", "QLinearMatMul")
"""The operators with the constants and tables of a QGemm."""
FLOAT_DENSE = ("Gemm", "MatMul")
"""The operators with the constants and tables of a Gemm."""
FLOAT_CONVOLUTIONS = ("Conv", "ConvTranspose")
"""The operators with weights and bias of each channel."""
MOVES = (
    "Cast",
    "Concat",
    "Dropout",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)
"""The operators that move values and have no constants."""
POOLINGS = {"QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool"}
"""The operators of ONNX whose outputs have the shape of those of ONNX Runtime."""


@dataclass(frozen=True)
class Shaped:
    """Shape of a tensor without vectors, and its type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Node:
    """A node of the ONNX file with its constants, or those of some of its columns.

    `constants` are: of QuantizeLinear and DequantizeLinear `scale` and `zero_point`; of an Add of one source
    `addend`, of a Mul `factor`, of a Sub `minuend` or `subtrahend`, of a Div `dividend` or `divisor`, of Max, Min and
    Sum all `terms`; of LeakyRelu and Elu `alpha`; of HardSigmoid `alpha` and `beta`; of Clip `low` and `high`; of
    ArgMax and ArgMin `last`; of a QGemm `weights` (K, N) as stored, `bias`, `weights_zero_point`, `multiplier` and
    `b_scale`, (N,) each, and `alpha`, `a_scale`, `input_zero_point`, for a code as output `y_scale` and
    `output_zero_point`; of Gemm, MatMul, Conv, ConvTranspose `weights` (K, N), `bias`; of QLinearAdd `first_ratio`,
    `second_ratio` and `fixed`, of QLinearMul `multiplier` and three zero points, both with `addend` or `factor` if they
    read one source; of QLinearLeakyRelu and QLinearSigmoid the `table` of all codes, of QLinearConcat one row for each
    input; of QLinearSoftmax `table`, `inverse` and `y_zero_point`; of AveragePool `count`, one a window.  Zero points
    are int32.  `window` of QLinearConv has the channels and the kernel that a sum reads.  `image` is the shape of the
    first source, `shape` that of the output, `depth` the width of all sources; `constant_first` is whether the first
    input is a constant of several values.
    """

    operator: str
    sources: tuple[str, ...]
    output: str
    input_width: int
    input_dtype: np.dtype[Any]
    width: int
    dtype: np.dtype[Any]
    constants: Mapping[str, Array]
    window: tuple[int, ...] = ()
    image: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    depth: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constant_first: bool = False

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


Rule: TypeAlias = Callable[[Node], Mapping[str, Array]]
"""Function from a node to the tables of a target, by the part of their names after the layer's."""


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
    """Return the shape of an output without vectors, as ONNX infers it; of other domains that of the first input."""
    sources = [name for name in proto.input if name in tensors]
    types = {name: tensors[name].dtype for name in sources}
    if proto.op_type in POOLINGS:
        types = {sources[0]: np.dtype(np.float32)}
        own = [entry for entry in proto.attribute if entry.name != "channels_last"]
        proto = onnx.NodeProto(op_type=POOLINGS[proto.op_type], input=sources, output=proto.output, attribute=own)
    elif proto.op_type == "QLinearConcat":
        return (sum(tensors[name].shape[0] for name in sources), *tensors[sources[0]].shape[1:])
    elif proto.domain not in ("", "ai.onnx"):
        return tensors[sources[0]].shape
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
    inferred = math.prod(shape)
    sources = tuple(name for name in proto.input if name in tensors)
    width, dtype = math.prod(tensors[sources[0]].shape), tensors[sources[0]].dtype
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in proto.attribute}
    window = values[proto.input[3]].shape[1:] if proto.op_type == "QLinearConv" else ()
    if window or "kernel_shape" in attributes:
        kernel = attributes.get("kernel_shape", window[1:])
        attributes |= _explicit(attributes, list(kernel), tensors[sources[0]].shape, shape)
    read: dict[str, Callable[[], tuple[int, np.dtype[Any], dict[str, Array]]]] = {
        "QuantizeLinear": lambda: _quantize_linear(_constants(proto, values), attributes, width),
        "DequantizeLinear": lambda: _dequantize_linear(_constants(proto, values), width),
        "QGemm": lambda: _qgemm(_constants(proto, values), attributes, dtype),
        "QLinearMatMul": lambda: _qgemm(_as_qgemm(_constants(proto, values)), {}, dtype),
        "QLinearConv": lambda: (inferred, dtype, _qlinear_conv(_constants(proto, values))),
        "Gemm": lambda: _gemm(_constants(proto, values), attributes),
        "MatMul": lambda: (inferred, *_gemm(_constants(proto, values), {})[1:]),
        "Conv": lambda: (inferred, dtype, _conv(_constants(proto, values), attributes)),
        "ConvTranspose": lambda: (inferred, dtype, _conv_transpose(_constants(proto, values), attributes)),
        "QLinearGlobalAveragePool": lambda: (
            inferred,
            dtype,
            _global_mean(_constants(proto, values), width // inferred),
        ),
        "QLinearAveragePool": lambda: (
            inferred,
            dtype,
            _mean(_constants(proto, values), attributes, tensors[sources[0]].shape, shape),
        ),
        **dict.fromkeys(("MaxPool", "GlobalMaxPool"), lambda: (inferred, dtype, {})),
        "AveragePool": lambda: (inferred, dtype, {"count": _counts(attributes, tensors[sources[0]].shape, shape)}),
        "GlobalAveragePool": lambda: (inferred, dtype, {"count": np.array([width / inferred], np.float32)}),
        "Add": lambda: _of_two(proto, values, inferred, "addend", "addend"),
        "Mul": lambda: _of_two(proto, values, inferred, "factor", "factor"),
        "Sub": lambda: _of_two(proto, values, inferred, "minuend", "subtrahend"),
        "Div": lambda: _of_two(proto, values, inferred, "dividend", "divisor"),
        **dict.fromkeys(("Max", "Min", "Sum"), lambda: (inferred, dtype, _operands(proto, values))),
        "BatchNormalization": lambda: (width, dtype, _normalisation(_constants(proto, values), attributes)),
        "Relu": lambda: (width, dtype, {}),
        **dict.fromkeys(("Exp", "HardSwish", "Sigmoid", "Softmax", "Tanh"), lambda: (width, dtype, {})),
        "PRelu": lambda: (width, dtype, {"slope": values[proto.input[1]].reshape(-1)}),
        "LRN": lambda: (width, dtype, _lrn(attributes)),
        "Elu": lambda: (width, dtype, _numbers(attributes, alpha=1.0)),
        "HardSigmoid": lambda: (width, dtype, _numbers(attributes, alpha=0.2, beta=0.5)),
        "LeakyRelu": lambda: (width, dtype, _numbers(attributes, alpha=0.01)),
        "Clip": lambda: (width, dtype, _bounds(_constants(proto, values), attributes, dtype)),
        "QLinearAdd": lambda: (width, dtype, _qlinear_add(_constants(proto, values), width)),
        "QLinearMul": lambda: (width, dtype, _qlinear_mul(_constants(proto, values), width)),
        "QLinearLeakyRelu": lambda: (
            width,
            dtype,
            _table(_constants(proto, values), dtype, _leaky(attributes.get("alpha", 0.01))),
        ),
        "QLinearSigmoid": lambda: (width, dtype, _table(_constants(proto, values), dtype, _logistic)),
        "QLinearConcat": lambda: (
            sum(math.prod(tensors[name].shape) for name in sources),
            dtype,
            _tables(_constants(proto, values), len(sources), dtype),
        ),
        "QLinearSoftmax": lambda: (width, dtype, _qlinear_softmax(_constants(proto, values), width)),
        "Reshape": lambda: (width, dtype, {}),
        "Flatten": lambda: (width, dtype, {}),
        "Concat": lambda: (inferred, dtype, {}),
        **dict.fromkeys(MOVES, lambda: (inferred, dtype, {})),
        **dict.fromkeys(("ReduceSum", "ReduceMax", "ReduceMin"), lambda: (inferred, dtype, {})),
        "ReduceMean": lambda: (inferred, dtype, {"count": np.array([width / inferred], np.float32)}),
        "Pad": lambda: (inferred, dtype, _padding(_constants(proto, values)[2], attributes, dtype)),
        "Gather": lambda: (
            inferred,
            dtype,
            _gathered(_constants(proto, values)[1], attributes, tensors[sources[0]].shape),
        ),
        "Resize": lambda: (
            inferred,
            dtype,
            _resized(_constants(proto, values), attributes, tensors[sources[0]].shape, shape),
        ),
        "ArgMax": lambda: (1, np.dtype(np.int64), {"last": np.array([attributes.get("select_last_index", 0)])}),
        "ArgMin": lambda: (1, np.dtype(np.int64), {"last": np.array([attributes.get("select_last_index", 0)])}),
    }
    if proto.op_type not in read:
        raise RequestError(
            f"node {proto.name or proto.output[0]}: a proof does not know the constants of {proto.op_type}",
            f"compare vectors with harness run, or add {proto.op_type} to harness/analysis/proof/expected_tables.py; "
            f"it has {', '.join(sorted(read))}",
        )
    return Node(
        proto.op_type,
        sources,
        proto.output[0],
        width,
        dtype,
        *read[proto.op_type](),
        window,
        tensors[sources[0]].shape,
        shape,
        sum(math.prod(tensors[name].shape) for name in sources),
        attributes,
        proto.input[0] in values and values[proto.input[0]].size > 1,
    )


def _constants(proto: onnx.NodeProto, values: Mapping[str, Array]) -> list[Array | None]:
    """Return the constants by their position among the inputs; None for an activation and for an omitted input."""
    return [values.get(name) for name in proto.input] + [None] * 9


def _quantize_linear(
    inputs: Sequence[Array | None], attributes: Mapping[str, Any], width: int
) -> tuple[int, np.dtype[Any], dict[str, Array]]:
    kind = attributes.get("output_dtype") or onnx.TensorProto.UINT8
    zero_point = np.zeros(1, helper.tensor_dtype_to_np_dtype(kind)) if inputs[2] is None else inputs[2]
    return width, zero_point.dtype, {"scale": _row(inputs[1]), "zero_point": _integers(zero_point)}


def _dequantize_linear(inputs: Sequence[Array | None], width: int) -> tuple[int, np.dtype[Any], dict[str, Array]]:
    zero_point = np.zeros(1) if inputs[2] is None else inputs[2]
    return width, np.dtype(np.float32), {"scale": _row(inputs[1]), "zero_point": _integers(zero_point)}


def _of_two(
    proto: onnx.NodeProto, values: Mapping[str, Array], width: int, first: str, second: str
) -> tuple[int, np.dtype[Any], dict[str, Array]]:
    """Read Add, Mul, Sub or Div; a constant has the name of its position, and a single number is repeated."""
    names = zip((first, second), proto.input, strict=True)
    given = {name: values[tensor] for name, tensor in names if tensor in values}
    constants = {name: _row(value, width if value.size == 1 else value.size) for name, value in given.items()}
    return width, np.dtype(np.float32), constants


def _operands(proto: onnx.NodeProto, values: Mapping[str, Array]) -> dict[str, Array]:
    """Read Max, Min or Sum: the constant operands, one after the other."""
    given = [values[name].reshape(-1) for name in proto.input if name in values]
    return {"terms": np.concatenate(given)} if given else {}


def _normalisation(inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> dict[str, Array]:
    """Read BatchNormalization: x, scale, B, mean, var."""
    _, scale, offset, mean, variance, *_ = map(np.asarray, inputs)
    deviation = np.sqrt(variance + np.float32(attributes.get("epsilon", 1e-5)))
    return {"mean": mean, "deviation": deviation.astype(np.float32), "scale": scale, "offset": offset}


def _lrn(attributes: Mapping[str, Any]) -> dict[str, Array]:
    """Read LRN: alpha / size, and the bias."""
    alpha, bias = (np.float32(attributes.get(name, value)) for name, value in (("alpha", 1e-4), ("bias", 1.0)))
    return {"factor": np.array([alpha / np.float32(attributes["size"])]), "bias": np.array([bias])}


def _numbers(attributes: Mapping[str, Any], **defaults: float) -> dict[str, Array]:
    """Return attributes that are float32 numbers; `defaults` are those of ONNX."""
    return {name: _row(np.array(attributes.get(name, value), np.float32)) for name, value in defaults.items()}


def _bounds(inputs: Sequence[Array | None], attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Read Clip: min and max are inputs, or attributes before opset 11; without them all finite numbers are kept."""
    kept: Any = np.finfo(dtype) if dtype == np.float32 else np.iinfo(dtype)
    low = attributes.get("min", kept.min) if inputs[1] is None else inputs[1]
    high = attributes.get("max", kept.max) if inputs[2] is None else inputs[2]
    return {"low": _row(np.asarray(low, dtype)), "high": _row(np.asarray(high, dtype))}


def _qgemm(
    inputs: Sequence[Array | None], attributes: Mapping[str, Any], dtype: np.dtype[Any]
) -> tuple[int, np.dtype[Any], dict[str, Array]]:
    """Read com.microsoft QGemm: a, a_scale, a_zero_point, B, b_scale, b_zero_point, C, y_scale, y_zero_point."""
    _, a_scale, a_zero_point, b, b_scale, b_zero_point, c, y_scale, y_zero_point, *_ = inputs
    weights = np.asarray(b).T if attributes.get("transB") else np.asarray(b)
    width = weights.shape[1]
    constants: dict[str, Array] = {
        "weights": weights,
        "bias": np.zeros(width, np.int32) if c is None else _row(c, width),
        "weights_zero_point": _integers(b_zero_point, width),
        "input_zero_point": _integers(a_zero_point),
        "alpha": np.array([attributes.get("alpha", 1.0)], np.float32),
        "a_scale": _row(a_scale),
        "b_scale": _row(b_scale, width),
    }
    if y_scale is not None:
        constants |= {"y_scale": _row(y_scale), "output_zero_point": _integers(y_zero_point)}
    scales = Scales(
        constants["alpha"][0],
        constants["a_scale"][0],
        constants["b_scale"],
        None if y_scale is None else constants["y_scale"][0],
    )
    constants["multiplier"] = scales.multiplier_bits().view(np.float32)
    return width, np.dtype(np.float32) if y_scale is None else dtype, constants


def _gemm(inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> tuple[int, np.dtype[Any], dict[str, Array]]:
    """Read Gemm or MatMul: A, B, C."""
    weights = np.asarray(inputs[1]).T if attributes.get("transB") else np.asarray(inputs[1])
    width = weights.shape[1]
    bias = np.zeros(width, np.float32) if inputs[2] is None else _row(inputs[2], width)
    alpha, beta = (np.float32(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    return width, np.dtype(np.float32), {"weights": alpha * weights, "bias": beta * bias}


def _conv(inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> dict[str, Array]:
    """Read Conv: X, W, B."""
    weights = np.asarray(inputs[1])
    width = len(weights)
    bias = np.zeros(width, np.float32) if inputs[2] is None else _row(inputs[2], width)
    return {"weights": weights.reshape(width, -1).T, "bias": bias, "groups": np.array([attributes.get("group", 1)])}


def _conv_transpose(inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> dict[str, Array]:
    """Read ConvTranspose: X, W (channels, M / groups, kernel), B; a sum has the channels of one group."""
    given, groups = np.asarray(inputs[1]), attributes.get("group", 1)
    parts = np.split(given.reshape(*given.shape[:2], -1), groups)
    weights = np.concatenate([part.swapaxes(1, 2).reshape(-1, given.shape[1]) for part in parts], axis=1)
    width = weights.shape[1]
    bias = np.zeros(width, np.float32) if inputs[2] is None else _row(inputs[2], width)
    return {"weights": weights, "bias": bias, "groups": np.array([groups])}


def _as_qgemm(inputs: Sequence[Array | None]) -> list[Array | None]:
    """Return the inputs of QLinearMatMul, y_scale and y_zero_point as the last, as those of a QGemm without C."""
    return [*inputs[:6], None, *inputs[6:]]


def _qlinear_conv(inputs: Sequence[Array | None]) -> dict[str, Array]:
    """Read QLinearConv: x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B."""
    _, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, c, *_ = inputs
    weights = np.asarray(b).reshape(len(np.asarray(b)), -1).T
    width = weights.shape[1]
    scales = Scales(np.float32(1), _row(a_scale)[0], _row(b_scale, width), _row(y_scale)[0])
    return {
        "weights": weights,
        "bias": np.zeros(width, np.int32) if c is None else _row(c, width),
        "weights_zero_point": _integers(b_zero_point, width),
        "input_zero_point": _integers(a_zero_point),
        "output_zero_point": _integers(y_zero_point),
        "alpha": np.array([1], np.float32),
        "a_scale": _row(a_scale),
        "b_scale": _row(b_scale, width),
        "y_scale": _row(y_scale),
        "multiplier": scales.multiplier_bits().view(np.float32),
    }


def _global_mean(inputs: Sequence[Array | None], positions: int) -> dict[str, Array]:
    """Read QLinearGlobalAveragePool: x, x_scale, x_zero_point, y_scale, y_zero_point."""
    _, x_scale, x_zero_point, y_scale, y_zero_point, *_ = inputs
    return {
        "input_zero_point": _integers(x_zero_point),
        "multiplier": _row(x_scale) / (_row(y_scale) * np.float32(positions)),
        "output_zero_point": _integers(y_zero_point),
    }


def _padding(value: Array | None, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Return the constant of Pad, 0 if it is not given; none for modes that take values of the input."""
    if attributes.get("mode", b"constant") != b"constant":
        return {}
    return {"value": np.zeros(1, dtype) if value is None else _row(value)}


def _resized(
    inputs: Sequence[Array | None], attributes: Mapping[str, Any], image: tuple[int, ...], output: tuple[int, ...]
) -> dict[str, Array]:
    """Return the places of Resize, if they are no copies of each value; of linear ones both places and factors."""
    rank, axes = 1 + len(image), list(attributes.get("axes", ()))
    scales = [np.float32(after) / np.float32(before) for after, before in zip(output, image, strict=True)]
    if inputs[2] is not None and inputs[2].size:
        for axis, scale in zip(axes or range(rank), inputs[2], strict=True):
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


def _gathered(indices: Array | None, attributes: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Array]:
    """Return which value of the input each of Gather is, (N,), if there are several indices."""
    given, axis = np.asarray(indices), attributes.get("axis", 0)
    if given.size == 1:
        return {}
    numbers = np.arange(math.prod(shape), dtype=np.int32).reshape(1, *shape)
    return {"places": np.take(numbers, given, axis).reshape(-1)}


def _mean(
    inputs: Sequence[Array | None], attributes: Mapping[str, Any], image: tuple[int, ...], output: tuple[int, ...]
) -> dict[str, Array]:
    """Read QLinearAveragePool; ONNX Runtime computes a window of the whole image as QLinearGlobalAveragePool."""
    kernel = attributes["kernel_shape"]
    if kernel == list(image[1:]) and math.prod(output[1:]) == 1 and not any(attributes["pads"]):
        return _global_mean(inputs, math.prod(kernel))
    _, x_scale, x_zero_point, y_scale, y_zero_point, *_ = inputs
    return {
        "input_step": _row(x_scale),
        "input_zero_point": _integers(x_zero_point),
        "output_step": _row(y_scale),
        "output_zero_point": _integers(y_zero_point),
    }


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


def _counts(attributes: Mapping[str, Any], image: tuple[int, ...], output: tuple[int, ...]) -> Array:
    """Return the divisors of AveragePool, one a window: values in the image, with count_include_pad in its padding."""
    kernel, strides, dilations, pads = (attributes[name] for name in ("kernel_shape", "strides", "dilations", "pads"))
    axes = len(kernel)
    include = bool(attributes.get("count_include_pad", 0))
    counts = np.ones(1, np.float32)
    for axis in range(axes):
        low, high = -include * pads[axis], image[1 + axis] + include * pads[axes + axis]
        begins = np.arange(output[1 + axis])[:, None] * strides[axis] - pads[axis]
        at = begins + np.arange(kernel[axis]) * dilations[axis]
        counts = np.outer(counts, ((at >= low) & (at < high)).sum(axis=1)).reshape(-1)
    return counts.astype(np.float32)


def _qlinear_add(inputs: Sequence[Array | None], width: int) -> dict[str, Array]:
    """Read com.microsoft QLinearAdd: a, its scale and zero point, b, its scale and zero point, those of y."""
    a, sa, za, b, sb, zb, sy, zy, *_ = inputs
    if a is not None and a.size == 1:  # ONNX Runtime exchanges the terms
        a, sa, za, b, sb, zb = b, sb, zb, a, sa, za
    first, second = _row(sa) / _row(sy), _row(sb) / _row(sy)
    zero_points = [_row(each).astype(np.float32) for each in (za, zb, zy)]
    both = fused(first, zero_points[0], second * zero_points[1])
    constants: dict[str, Array] = {"first_ratio": first, "second_ratio": second, "fixed": zero_points[2] - both}
    operand = b if a is None else a
    return constants if operand is None else constants | {"addend": _row(operand, width)}


def _qlinear_mul(inputs: Sequence[Array | None], width: int) -> dict[str, Array]:
    """Read com.microsoft QLinearMul; its inputs are those of QLinearAdd, a constant is the second factor."""
    a, sa, za, b, sb, zb, sy, zy, *_ = inputs
    operand = b if a is None else a
    zero_points = (za, zb, zy) if a is None else (zb, za, zy)
    constants: dict[str, Array] = {"multiplier": _row(sa) * _row(sb) / _row(sy)}
    constants |= {f"{name}_zero_point": _integers(each) for name, each in zip("aby", zero_points, strict=True)}
    return constants if operand is None else constants | {"factor": _row(operand, width)}


def _table(
    inputs: Sequence[Array | None], dtype: np.dtype[Any], function: Callable[[Array], Array]
) -> dict[str, Array]:
    """Read x, its scale and zero point, and those of y; return the outputs for all codes, from the lowest on."""
    _, sx, zx, sy, zy, *_ = inputs
    codes, limits = np.arange(CODES + 1) + np.iinfo(dtype).min, np.iinfo(dtype)
    with np.errstate(over="ignore"):
        v = function((codes - _integers(zx)).astype(np.float32) * _row(sx)) / _row(sy)
    return {"table": np.clip(np.rint(v.astype(np.float64)) + _integers(zy), limits.min, limits.max).astype(dtype)}


def _tables(inputs: Sequence[Array | None], count: int, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Read com.microsoft QLinearConcat: scale and zero point of y, then of each input three; one row an input."""
    y, each = inputs[:2], [inputs[2 + 3 * number : 5 + 3 * number] for number in range(count)]
    return {"table": np.concatenate([_table([*one, *y], dtype, lambda d: d)["table"][None] for one in each])}


def _qlinear_softmax(inputs: Sequence[Array | None], width: int) -> dict[str, Array]:
    """Read com.microsoft QLinearSoftmax: x, its scale and zero point, those of y; exponentials are those of math."""
    _, sx, _, sy, zy, *_ = inputs
    scale, largest = float(_row(sx)[0]), np.finfo(np.float32).max
    shift = max(0.0, float(np.float32(math.log(largest / np.float32(width)))) - 5) / scale
    table = np.array([math.exp((place - CODES + shift) * scale) for place in range(CODES + 1)], np.float32)
    return {"table": table, "inverse": np.floor(np.float32(1) / _row(sy)), "y_zero_point": _integers(zy)}


def _leaky(alpha: float) -> Callable[[Array], Array]:
    return lambda d: np.where(d < 0, np.float32(alpha) * d, d)


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


def of_part(node: Node, name: str, target: str) -> dict[str, Array] | None:
    """Return by their names all tables that `target` must have for the layer `name`; None for an unknown target."""
    rule = RULES.get(target)
    return None if rule is None else {f"{name}_{part}": values for part, values in rule(node).items()}


def in_instructions(node: Node, target: str) -> tuple[str, ...]:
    """Return the constants of a node that are in the instructions of `target` and in no table."""
    if target != "c:unrolled":
        return ()
    scales = {"alpha", "a_scale", "b_scale", "y_scale"}
    kept = {
        **dict.fromkeys(DENSE, ("multiplier", "output_zero_point")),
        "QLinearConv": tuple(name for name in node.constants if name not in scales),
        **dict.fromkeys(FLOAT_CONVOLUTIONS, ("weights", "bias")),
        "ArgMax": (),
        "ArgMin": (),
    }
    names = kept.get(node.operator, tuple(node.constants))
    return tuple(name for name in names if name in node.constants and not _is_lookup(name))


def _is_lookup(name: str) -> bool:
    """Return whether a constant is a table for codes, which code without loops reads too."""
    return name.startswith("table")


# The rules, one a target.


def _by_rows(node: Node) -> dict[str, Array]:
    """Return tables of c, c:generic and c:inlined: weights in one row an output (kernels/c/qgemm.h)."""
    if node.operator == "QLinearConv":
        return _of_convolution(node)
    if node.operator in FLOAT_CONVOLUTIONS:
        return {"weights": node.constants["weights"].T, "bias": node.constants["bias"]}
    if node.operator not in DENSE:
        return _of_elements(node)
    return {"weights": node.signed.T, "offset": _offset(node), **_of_columns(node, _signed_zero_points(node))}


def _in_panels(node: Node) -> dict[str, Array]:
    """Return tables of c:vector: zero-padded panels of 16 columns, and a second row of offsets (qgemm_vector.h)."""
    if node.operator == "QLinearConv":
        return _of_windows(node)
    if node.operator == "ConvTranspose":
        return _by_rows(node)
    if node.operator == "Conv":
        return {"weights": _in_quads(node), "bias": node.constants["bias"]}
    if node.operator in FLOAT_DENSE:
        return {"weights": _float_panels(node), "bias": _padded(node.constants["bias"], LANES)}
    if node.operator not in DENSE:
        return _of_elements(node)
    tables = _of_columns(node, _signed_zero_points(node))
    per_column = ("multiplier", "weights_zero_point")
    padded = {name: _padded(tables[name], LANES) for name in per_column if name in tables}
    return {**tables, **padded, "weights": _panels(node.signed), "offset": _padded(_offsets(node), LANES)}


def _in_statements(node: Node) -> dict[str, Array]:
    """Return the tables of c:unrolled: of functions of one code, and what init reads back of a QGemm (unrolled.h)."""
    if node.operator not in DENSE:
        return {name: values for name, values in node.constants.items() if _is_lookup(name)}
    return {"start": _offset(node).view(np.int32), "terms": node.centred.T.astype(np.int32)}


def _by_columns(node: Node) -> dict[str, Array]:
    """Return tables of cuda:layerwise: weights as stored, one column an output (kernels/cuda/layerwise.cuh)."""
    if node.operator == "QLinearConv":
        return _of_convolution(node)
    if node.operator not in DENSE:
        return _of_elements(node)
    tables = {name: node.constants[name] for name in ("weights", "weights_zero_point")}
    return _of_columns(node, tables["weights_zero_point"]) | tables


def _in_fours(node: Node) -> dict[str, Array]:
    """Return tables of cuda:fused: 4 x 4 groups of outputs and inputs, padded with zeros (kernels/cuda/fused.cuh)."""
    if node.operator == "QLinearConv":
        return _of_words(node)
    if node.operator not in DENSE:
        return _of_elements(node)
    weights = node.constants["weights"]
    words, groups = (-(-size // QUAD) for size in weights.shape)
    row, column = np.indices((groups, QUAD * QUAD * words))
    k, n = QUAD * (column // (QUAD * QUAD)) + column % QUAD, QUAD * row + column // QUAD % QUAD
    zero_points = node.constants["weights_zero_point"]
    tables = {
        "weights": _placed(weights, k, n),
        "offset": _padded(_offset(node), QUAD),
        "multiplier": _padded(node.constants["multiplier"], QUAD),
    }
    if zero_points.any():
        tables["weights_zero_point"] = _padded(zero_points, QUAD)
    return tables | _output_zero_point(node)


def _in_parts(node: Node) -> dict[str, Array]:
    """Return tables of tiovx: thresholds, no floating point, and a header with the sizes (kernels/tiovx/protocol.h)."""
    flip = FLIP if node.input_dtype == np.int8 else 0
    parts = TIOVX_PARTS[node.operator](node, flip) if node.operator in TIOVX_PARTS else {}
    lowest = 0 if node.dtype == np.float32 else np.iinfo(node.dtype).min % 256
    order = (
        ("offset",),
        ("weights_zero_point",),
        ("thresholds",),
        ("multiplier",),
        ("weights",),
        ("window",),
        ("codes",),
        ("addend", "factor"),
        ("terms",),
        ("rows",),
    )
    sizes = [sum(parts[part].nbytes for part in each if part in parts) for each in order]
    head = [TIOVX_VERSION, node.depth, node.width, flip, lowest, *sizes]
    return {"head": np.array(head, np.uint32), **parts}


def _contraction_parts(node: Node, flip: int) -> dict[str, Array]:
    """Return the parts of a sum of products but for its weights."""
    zero_points = _signed_zero_points(node)
    parts = {"offset": _offset(node, flip)} | ({"weights_zero_point": zero_points} if zero_points.any() else {})
    if node.dtype == np.float32:
        return parts | {"multiplier": node.constants["multiplier"]}
    return parts | {"thresholds": thresholds(node)}


def _dense_parts(node: Node, flip: int) -> dict[str, Array]:
    return _contraction_parts(node, flip) | {"weights": _panels(node.signed)}


def _convolution_parts(node: Node, flip: int) -> dict[str, Array]:
    groups, outside = node.attributes.get("group", 1), int(node.constants["input_zero_point"][0]) + flip
    tiles = _tiles(node, groups, node.window[0], node.shape[0] // groups, outside)
    return _contraction_parts(node, flip) | {"weights": _padded(node.signed.T, QUAD), "window": tiles}


def _pair_parts(node: Node, flip: int) -> dict[str, Array]:  # noqa: ARG001 - the table has the order of the codes
    operand = {name: node.constants[name].view(np.uint8) for name in OPERANDS if name in node.constants}
    return {"codes": np.ascontiguousarray(_pairs(node).astype(node.dtype)).view(np.uint8), **operand}


def _tiles(node: Node, groups: int, inputs: int, outputs: int, outside: int, exponent: int = 0) -> Array:
    """Return struct windows of kernels/tiovx/target/windows.h, uint32."""
    axes = len(node.image) - 1
    one, none = [1] * (2 - axes), [0] * (2 - axes)
    sizes = [node.attributes[name] for name in ("kernel_shape", "strides", "dilations")]
    rows = [[*one, *each] for each in (node.image[1:], *sizes)]
    rows += [[*none, *node.attributes["pads"][:axes]], [*one, *node.shape[1:]]]
    _, (high, wide), (down, right), (step, aside), _, (count, columns) = rows
    width = (columns - 1) * right + (wide - 1) * aside + 1
    bands = [band for band in range(1, count + 1)
             if inputs * ((band - 1) * down + (high - 1) * step + 1) * width <= TIOVX_TILE]  # fmt: skip
    sizes_of_group = [groups, inputs, outputs, max(bands, default=1), outside, exponent]
    return np.array([*np.concatenate(rows), *sizes_of_group], np.int64).astype(np.uint32)


def _mean_parts(node: Node, flip: int) -> dict[str, Array]:
    """Return the parts of a QLinearAveragePool: kernels/c/integer/rounded_sum.h has the unit of the terms."""
    constants = node.constants
    if "input_step" not in constants:
        return _global_mean_parts(node, flip)
    outside = int(constants["input_zero_point"][0]) + flip
    thresholds_of, terms, rows, exponent = _means(node)
    return {
        "thresholds": thresholds_of,
        "window": _tiles(node, node.image[0], 1, 1, outside, exponent),
        "terms": terms,
        "rows": rows.astype(np.uint32),
    }


def _means(node: Node) -> tuple[Array, Array, Array, int]:
    """Return thresholds of QLinearAveragePool, terms by their codes, rows, and the exponent of the terms' unit."""
    constants = node.constants
    step, y_scale, y_zero_point = (constants[name] for name in ("input_step", "output_step", "output_zero_point"))
    counts = _counts(node.attributes, node.image, node.shape).astype(np.int64)
    if node.attributes.get("count_include_pad"):
        counts = np.full_like(counts, math.prod(node.attributes["kernel_shape"]))
    different = np.unique(counts)
    codes = np.arange(CODES + 1) + np.iinfo(node.dtype).min - constants["input_zero_point"]
    exponent = max(int(np.frexp(step[0])[1]) - 24, -149)
    terms = np.ldexp((codes.astype(np.float32) * step).astype(np.float64), -exponent).astype(np.int64)
    wanted = _codes_above_lowest(node)

    def reached(numbers: Array) -> Array:
        with np.errstate(over="ignore"):
            v = _numbered(numbers) / different[:, None].astype(np.float32) / y_scale + y_zero_point.astype(np.float32)
        return np.asarray(np.rint(v) >= wanted)

    shape = (len(different), CODES)
    least = _least(reached, np.full(shape, 1 - INFINITY), np.full(shape, INFINITY))
    return least.astype(np.int32), terms, np.searchsorted(different, counts), exponent


def _global_mean_parts(node: Node, flip: int) -> dict[str, Array]:
    """Return the parts of a QLinearGlobalAveragePool, a contraction with weights of 1; its channels are alike."""
    width = node.width
    of_contraction: dict[str, Array] = {
        "weights": np.ones((node.input_width // width, width), np.int8),
        "weights_zero_point": np.zeros(width, np.int32),
        "bias": np.zeros(width, np.int32),
        "multiplier": np.repeat(node.constants["multiplier"], width),
    }
    parts = _contraction_parts(replace(node, constants={**node.constants, **of_contraction}), flip)
    return parts | {"thresholds": parts["thresholds"][:1]}


def _in_levels(node: Node, fold: int = 1) -> dict[str, Array]:
    """Return tables of vitis: weights minus zero points, thresholds in search order (kernels/vitis/layer.hpp).

    The weights of a convolution and of a folded QGemm stand in blocks (kernels/vitis/window.hpp); functions of codes
    are tables (look_up.hpp), and codes that are only moved or compared have none.
    """
    constants = node.constants
    if node.operator in ("QLinearAdd", "QLinearMul"):
        return _pairs_beside(node)
    if node.operator == "QLinearConcat":
        return {"codes": constants["table"].astype(np.int32)}
    if "input_step" in constants:
        steps, terms, rows, exponent = _means(node)
        halves = np.roll(terms, np.iinfo(node.dtype).min)[:, None] >> np.array([0, 32])
        own = {"terms": halves.astype(np.int32), "rows": rows, "exponent": np.array([exponent])}
        return {**{name: each.astype(np.int32) for name, each in own.items()}, **_levels(node, steps)}
    if "input_zero_point" not in constants:
        return {}
    tables = {"input_zero_point": constants["input_zero_point"]}
    if node.operator == "QLinearConv" or (node.operator in DENSE and fold > 1):
        tables |= _in_blocks(node, fold)
    elif node.operator in DENSE:
        tables |= {"weights": node.centred.astype(np.int32), "bias": constants["bias"]}
    if node.dtype == np.float32:
        return tables | {"multiplier": constants["multiplier"]}
    shared = len(np.unique(constants["multiplier"].view(np.uint32))) == 1
    return {**tables, **_levels(node, thresholds(node, shared=shared))}


def _levels(node: Node, steps: Array) -> dict[str, Array]:
    """Return thresholds in search order, and the lowest code."""
    places = ((2 * np.arange(1 << level) + 1) * (1 << (LEVELS - 1 - level)) - 1 for level in range(LEVELS))
    tables = {f"level_{level}": steps[:, of_level] for level, of_level in enumerate(places)}
    return tables | {"lowest": np.array([np.iinfo(node.dtype).min], np.int32)}


def _pairs_beside(node: Node) -> dict[str, Array]:
    """Return all pairs of codes, or those beside the values of a constant and, by elements of a stream, their places.

    In a stream the channels of a position stand side by side.
    """
    pairs = _pairs(node)
    operand = [node.constants[name].reshape(-1) for name in OPERANDS if name in node.constants]
    if not operand:
        return {"pairs": pairs}
    values = np.unique(operand[0])
    by_position = operand[0].reshape(node.shape[0], -1).swapaxes(0, 1).reshape(-1)
    columns = values.astype(np.int64) - np.iinfo(node.dtype).min
    return {"pairs": pairs[:, columns], "columns": np.searchsorted(values, by_position).astype(np.int32)}


TIOVX_PARTS: dict[str, Callable[[Node, int], dict[str, Array]]] = {
    "QuantizeLinear": lambda node, _: {"thresholds": quantize_thresholds(node)[None]},
    **dict.fromkeys(DENSE, _dense_parts),
    "QLinearConv": _convolution_parts,
    "QLinearAdd": _pair_parts,
    "QLinearMul": _pair_parts,
    "QLinearConcat": lambda node, _: {"codes": node.constants["table"].view(np.uint8)},
    "MaxPool": lambda node, _: {"window": _tiles(node, node.image[0], 1, 1, 0)},
    "QLinearAveragePool": _mean_parts,
    "QLinearGlobalAveragePool": _global_mean_parts,
}
"""The parts of a layer of tiovx (enum part in kernels/tiovx/protocol.h), by operator; others have none."""


RULES: dict[str, Rule] = {
    "c": _by_rows,
    "c:generic": _by_rows,
    "c:inlined": _by_rows,
    "c:vector": _in_panels,
    "c:unrolled": _in_statements,
    "cuda:layerwise": _by_columns,
    "cuda:fused": _in_fours,
    "tiovx:c7x": _in_parts,
    "tiovx:mpu": _in_parts,
    "vitis": _in_levels,
    **{f"vitis:fold{fold}": functools.partial(_in_levels, fold=fold) for fold in (2, 4, 8, 16)},
}


# What they have in common.


def _of_convolution(node: Node) -> dict[str, Array]:
    """Return the tables of a QLinearConv, its weights in one row a channel (kernels/c/qlinear_conv.h)."""
    tables = {"weights": node.signed.T, "weights_zero_point": _signed_zero_points(node)[:1]}
    return tables | {
        name: node.constants[name] for name in ("bias", "input_zero_point", "multiplier", "output_zero_point")
    }


def _of_windows(node: Node) -> dict[str, Array]:
    """Return the tables of a QLinearConv of c:vector, its weights in groups of QUAD (qlinear_conv_vector.h)."""
    tables = _of_convolution(node) | {"weights": _in_groups(node), "offset": _offsets(node)}
    return {part: values for part, values in tables.items() if part != "weights_zero_point" or values.any()}


def _of_words(node: Node) -> dict[str, Array]:
    """Return the tables of a QLinearConv of cuda:fused: rows of four channels, by place and word of four inputs."""
    inputs, *kernel = node.window
    size, width = math.prod(kernel), node.signed.shape[1]
    share = width * inputs // node.image[0]
    first = np.arange(width) // share * inputs
    by_fours = np.arange(-(-width // QUAD))
    begins = np.minimum.reduceat(first, QUAD * by_fours) // QUAD
    count = int((np.maximum.reduceat(first + inputs - 1, QUAD * by_fours) // QUAD - begins).max()) + 1
    begins = np.minimum(begins, -(-node.image[0] // QUAD) - count)
    row, place, word, n, i = np.indices((len(by_fours), size, count, QUAD, QUAD)).reshape(5, len(by_fours), -1)
    channel = QUAD * row + n
    c = QUAD * (begins[row] + word) + i - channel // share * inputs
    k = np.where((c >= 0) & (c < inputs), c * size + place, len(node.signed))
    tables = {name: _padded(values, QUAD) for name, values in _of_convolution(node).items() if name == "multiplier"}
    tables |= {name: node.constants[name] for name in ("input_zero_point", "output_zero_point")}
    tables |= {"weights": _placed(node.signed, k, channel), "offset": _padded(_offset(node), QUAD)}
    zero_point = _signed_zero_points(node)[:1]
    if not zero_point.any():
        return tables
    return tables | {"weights_zero_point": zero_point, "ones": _placed(np.ones_like(node.signed), k, channel)}


def _in_groups(node: Node) -> Array:
    """Return the weights in rows of groups (c, i, j), in each QUAD columns of the kernel or QUAD channels, or zeros."""
    channels, *kernel = node.window
    rows, columns = [1, *kernel][-2:]
    by_fours = -(-channels // QUAD), -(-columns // QUAD)
    if channels * rows * by_fours[1] <= by_fours[0] * rows * columns:
        c, i, j, _ = np.indices((channels, rows, by_fours[1], QUAD)).reshape(4, -1)
        j = QUAD * j + np.arange(len(j)) % QUAD
    else:
        c, i, j, _ = np.indices((by_fours[0], rows, columns, QUAD)).reshape(4, -1)
        c = QUAD * c + np.arange(len(c)) % QUAD
    k = np.where((c < channels) & (j < columns), (c * rows + i) * columns + j, node.signed.shape[0])
    return _placed(node.signed, *np.broadcast_arrays(k, np.arange(node.signed.shape[1])[:, None]))


def _in_blocks(node: Node, fold: int) -> dict[str, Array]:
    """Return weights, by rows and columns of the kernel, then channels, and bias, in blocks of adjacent columns.

    A block has a share of 1 / fold of a group's columns, rounded up, and 0 where a group ends; of groups with one
    channel it has all columns of such a share of the groups, unless that is one.
    """
    channels, *kernel = node.window or (len(node.centred),)
    depth, width = node.centred.shape
    part, at_once = width // node.attributes.get("group", 1), -(-node.attributes.get("group", 1) // fold)
    lanes = -(-part // fold)
    if channels == 1 and at_once > 1:
        part, lanes = width, part * at_once
    k = np.moveaxis(np.arange(depth).reshape(channels, *kernel), 0, -1).reshape(-1)
    starts = [(first, at) for first in range(0, width, part) for at in range(0, part, lanes)]
    n = np.array([[first + at + lane if at + lane < part else width for lane in range(lanes)] for first, at in starts])
    rows = [_placed(node.centred, *np.broadcast_arrays(k[:, None], of_block)) for of_block in n]
    bias = _placed(node.constants["bias"][None], np.zeros_like(n), n)
    return {"weights": np.concatenate(rows).astype(np.int32), "bias": bias}


def _pairs(node: Node) -> Array:
    """Return the code of all pairs of codes of QLinearAdd or QLinearMul, int32 (256, 256), by that of an activation."""
    limits, constants = np.iinfo(node.dtype), node.constants
    codes = np.arange(limits.min, limits.max + 1)
    if node.operator == "QLinearAdd":
        numbers = codes.astype(np.float32)
        second = fused(constants["second_ratio"], numbers[None], constants["fixed"])
        v = fused(constants["first_ratio"], numbers[:, None], second)
    else:
        products = np.outer(codes - constants["a_zero_point"], codes - constants["b_zero_point"]).astype(np.float32)
        v = products * constants["multiplier"] + constants["y_zero_point"].astype(np.float32)
    code: Array = np.clip(np.rint(v), limits.min, limits.max).astype(np.int32)
    return code.T if node.operator == "QLinearAdd" and node.constant_first else code


def _of_elements(node: Node) -> dict[str, Array]:
    """Return the tables of an operator that is no QGemm."""
    names = {"zero_point": "zero"}
    return {names.get(name, name): values for name, values in node.constants.items() if name not in ("last", "groups")}


def _of_columns(node: Node, zero_points: Array) -> dict[str, Array]:
    """Return the tables with one value a column or one in all; the weights' `zero_points` unless all are 0."""
    tables = {name: node.constants[name] for name in ("bias", "input_zero_point", "multiplier")}
    if zero_points.any():
        tables["weights_zero_point"] = zero_points
    return tables | _output_zero_point(node)


def _output_zero_point(node: Node) -> dict[str, Array]:
    return {name: node.constants[name] for name in ("output_zero_point",) if name in node.constants}


def _signed_zero_points(node: Node) -> Array:
    zero_points: Array = node.constants["weights_zero_point"] - np.int32(node.signed_shift)
    return zero_points


def _offset(node: Node, shift: int = 0) -> Array:
    """Return each column's accumulator for codes that are 0 after `shift` was added to them, modulo 2^32: uint32."""
    code = -shift - int(node.constants["input_zero_point"][0])
    sums: Array = node.constants["bias"] + (code * node.centred).sum(axis=0)
    return sums.astype(np.uint32)


def _offsets(node: Node) -> Array:
    """Return `_offset`, and the same for codes with their highest bit flipped: uint32 (2, N)."""
    offset = _offset(node)
    flipped = (128 if node.input_dtype == np.uint8 else -128) * node.signed.astype(np.int64).sum(axis=0)
    return np.stack([offset, (offset.astype(np.int64) + flipped).astype(np.uint32)])


def _panels(weights: Array) -> Array:
    """Return weights (K, N) in the order that qgemm_vector.h and dot4.h state, one row a group of inputs.

    b[16 p + lane][4 g + i]  at  ((p * groups + g) * 16 + lane) * 4 + i
    """
    groups, panels = -(-weights.shape[0] // QUAD), -(-weights.shape[1] // LANES)
    row, column = np.indices((panels * groups, LANES * QUAD))
    return _placed(weights, QUAD * (row % groups) + column % QUAD, LANES * (row // groups) + column // QUAD)


def _float_panels(node: Node) -> Array:
    """Return the weights of a Gemm as gemm_vector.h states: w[k][16 p + lane] at (p * K + k) * 16 + lane."""
    weights = node.constants["weights"]
    row, column = np.indices((-(-weights.shape[1] // LANES) * len(weights), LANES))
    return _placed(weights, row % len(weights), LANES * (row // len(weights)) + column)


def _in_quads(node: Node) -> Array:
    """Return the weights of a Conv as conv_vector.h states: w[4 q + i][k] at (q * K + k) * 4 + i, group by group."""
    weights, groups = node.constants["weights"], int(node.constants["groups"][0])
    depth, share = len(weights), weights.shape[1] // groups
    row, column = np.indices((-(-share // QUAD) * depth, QUAD))
    of_groups = (weights[:, group * share : (group + 1) * share] for group in range(groups))
    return np.concatenate([_placed(each, row % depth, QUAD * (row // depth) + column) for each in of_groups])


def _placed(weights: Array, k: Array, n: Array) -> Array:
    """Return a table with weight (k, n) at each place, 0 for places without one; `k` and `n` have the table's shape."""
    depth, width = weights.shape
    there = weights[np.minimum(k, depth - 1), np.minimum(n, width - 1)]
    return np.where((k < depth) & (n < width), there, 0).astype(weights.dtype)


def _padded(values: Array, unit: int) -> Array:
    """Return the values with zeros after the last column, padded to a multiple of `unit`."""
    padded = np.zeros((*values.shape[:-1], -(-values.shape[-1] // unit) * unit), values.dtype)
    padded[..., : values.shape[-1]] = values
    return padded


def thresholds(node: Node, *, shared: bool = False) -> Array:
    """Return the least accumulator of each column that reaches each code above the lowest: int32 (N, 255).

    v = float32(acc) * m[n] in float32;  code = round_half_even(v) + zero point.  They are clipped to the bounds of the
    column, where one above the highest means "never"; with `shared` to those of all columns, as one row (1, 255).
    """
    limits, constants = np.iinfo(node.input_dtype), node.constants
    weights = node.centred if "weights" in constants else np.ones((node.input_width // node.width, 1), np.int64)
    terms = [(int(code) - constants["input_zero_point"][0]) * weights for code in (limits.min, limits.max)]
    low = constants.get("bias", 0) + np.minimum(*terms).sum(axis=0)
    high = constants.get("bias", 0) + np.maximum(*terms).sum(axis=0)
    multiplier = constants["multiplier"][:, None]
    if shared:
        low, high, multiplier = low.min(keepdims=True), high.max(keepdims=True), multiplier[:1]
    wanted = _codes_above_lowest(node) - constants["output_zero_point"][0]

    def reached(acc: Array) -> Array:
        return np.asarray(np.rint(acc.astype(np.float32) * multiplier) >= wanted)

    shape = (len(multiplier), CODES)
    least = _least(reached, np.broadcast_to(low[:, None], shape), np.broadcast_to(high[:, None] + 1, shape))
    return least.astype(np.int32)


def quantize_thresholds(node: Node) -> Array:
    """Return the least float32 that becomes each code above the lowest, int32 (255,).

    Floats are numbered in their order, 0 for zero; one below zero has minus the number of its absolute value.
    """
    wanted = _codes_above_lowest(node) - node.constants["zero_point"][0]

    def reached(numbers: Array) -> Array:
        with np.errstate(over="ignore"):
            v = _numbered(numbers) / node.constants["scale"]
        return np.asarray(np.rint(v) >= wanted)

    return _least(reached, np.full(CODES, 1 - INFINITY), np.full(CODES, INFINITY)).astype(np.int32)


def _numbered(numbers: Array) -> Array:
    """Return the float32 of these numbers, which have their order."""
    magnitude = np.abs(numbers).astype(np.uint32).view(np.float32)
    return np.copysign(magnitude, numbers.astype(np.float32))


def _codes_above_lowest(node: Node) -> Array:
    return np.arange(1, CODES + 1) + np.iinfo(node.dtype).min


def _least(reached: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the least integer from `low` on that is reached, `high` where none below it is."""
    while (low < high).any():
        middle = (low + high) >> 1
        at_middle = (low == high) | reached(middle)
        low, high = np.where(at_middle, low, middle + 1), np.where(at_middle, middle, high)
    return low


def columns_of(widths: Sequence[tuple[str, int]]) -> Iterator[Region]:
    """Yield the columns of each part of a layer.

    `widths` are the output tensor and the width of every part, those of one layer in the order of their columns.
    """
    done: dict[str, int] = {}
    for output, width in widths:
        start = done.get(output, 0)
        done[output] = start + width
        yield Region(start, start + width)

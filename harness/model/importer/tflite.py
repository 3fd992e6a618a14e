"""A TFLite file -> ONNX nodes: float32 operators, and int8 or uint8 codes as ONNX Runtime's quantised operators.

Images get the channels first.  A node of codes has the formula of its ONNX operator, which is XNNPACK's for sums of
products.  Where LiteRT rounds in another way, `harness models import` counts the values that differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.importer import expansions
from harness.model.importer.tflite_wide import FLOAT, INT16, NOTE, reals, with_float_operators
from harness.model.tflite.file import OperatorCall, Scales, TensorValue, TfliteFile, decode

OPSET, IR_VERSION = 21, 10
MICROSOFT = "com.microsoft"
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3  # ActivationFunctionType
SAME = 0  # Padding
IMAGE_AXES = 4
TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # orders of axes that move the channels of an image
CODES = (np.dtype(np.int8), np.dtype(np.uint8), INT16)


@dataclass(frozen=True, eq=False)
class Imported:
    """The model; for each activation of the file its name in the model, and whether it is an image."""

    model: onnx.ModelProto
    activations: Mapping[int, str]
    images: frozenset[int]
    notes: tuple[str, ...]


def bring_in(file: TfliteFile, name: str) -> Imported:
    """Return the model; raise RequestError for an operator without an ONNX form here, with its place and the reason."""
    read = _without_shapes(_with_constants(_with_quantisers(file)))
    reader = _Reader(with_float_operators(read), name)
    if reader.file.operators != read.operators:
        reader.notes.append(NOTE)
    imported = reader.model()
    expansions.expand(imported.model, OPSET)  # quantisers of int16 codes
    return imported


def as_onnx(content: bytes, path: Path) -> bytes:
    """Return the bytes of an ONNX file, or the ONNX form of a TFLite file; RequestError if it has none."""
    if path.suffix != ".tflite":
        return content
    return bytes(bring_in(decode(content, str(path)), path.stem).model.SerializeToString())


def _with_constants(file: TfliteFile) -> TfliteFile:
    """Return the file with the float32 values of DEQUANTIZE of constants, which LiteRT computes in the same way."""
    tensors, calls = list(file.tensors), []
    for call in file.operators:
        source = file.tensors[call.inputs[0]] if call.name == "DEQUANTIZE" else None
        if source is None or source.values is None:
            calls.append(call)
            continue
        [output] = call.outputs
        tensors[output] = replace(tensors[output], values=reals(source))
    return replace(file, tensors=tuple(tensors), operators=tuple(calls))


def _without_shapes(file: TfliteFile) -> TfliteFile:
    """Return the file without SHAPE and what is computed from shapes alone: a RESHAPE states its output's shape."""
    shapes: set[int] = set()
    calls = []
    for call in file.operators:
        variables = [number for number in call.inputs if number >= 0 and file.tensors[number].values is None]
        if call.name == "SHAPE" or (variables and shapes.issuperset(variables)):
            shapes |= set(call.outputs)
        else:
            calls.append(call)
    return replace(file, operators=tuple(calls))


def _with_quantisers(file: TfliteFile) -> TfliteFile:
    """Return the file with QUANTIZE in place of DIV, ROUND, MUL and QUANTIZE with one scale: QuantizeLinear's bits."""
    writers = {output: call for call in file.operators for output in call.outputs}
    replaced: dict[int, OperatorCall] = {}
    dropped: set[int] = set()
    for call in file.operators:
        chain = _chain_before(call, writers, ("MUL", "ROUND", "DIV")) if call.name == "QUANTIZE" else None
        if chain is None:
            continue
        scales = file.tensors[call.outputs[0]].scales
        factors = [file.tensors[chain[at].inputs[1]].values for at in (0, 2)]
        if scales is not None and all(factor is not None and (factor == scales.scale).all() for factor in factors):
            replaced[id(call)] = replace(call, inputs=(chain[2].inputs[0],))
            dropped |= {id(each) for each in chain}
    kept = (replaced.get(id(call), call) for call in file.operators if id(call) not in dropped)
    return replace(file, operators=tuple(kept))


def _chain_before(
    call: OperatorCall, writers: Mapping[int, OperatorCall], names: Sequence[str]
) -> list[OperatorCall] | None:
    """Return the operators with these names before a call, the nearest first; None if others stand there."""
    found: list[OperatorCall] = []
    for name in names:
        call = writers.get(call.inputs[0], call)
        if call.name != name:
            return None
        found.append(call)
    return found


@dataclass(frozen=True)
class _Call:
    """An operator of the file with what it reads and writes."""

    place: int
    call: OperatorCall
    inputs: tuple[TensorValue, ...]
    output: TensorValue

    @property
    def name(self) -> str:
        """The operator."""
        return self.call.name

    def option(self, name: str, default: Any = 0) -> Any:
        """Return an option."""
        return self.call.options.get(name, default)

    def refusal(self, reason: str, advice: str) -> RequestError:
        """Return the error for this operator."""
        return RequestError(f"operator {self.place} ({self.name}, output {self.output.name!r}): {reason}", advice)

    def scales(self, tensor: TensorValue) -> Scales:
        """Return the quantisation of codes."""
        if tensor.scales is None:
            raise self.refusal(f"the codes of {tensor.name!r} have no scale", "a quantised file with scales")
        return tensor.scales


@dataclass
class _Reader:
    """The nodes that are read so far."""

    file: TfliteFile
    name: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    images: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def model(self) -> Imported:
        """Return the model of all operators."""
        if len(self.file.inputs) != 1:
            raise RequestError(f"file {self.name} has {len(self.file.inputs)} inputs", "one is supported")
        [number] = self.file.inputs
        given = self.file.tensors[number]
        shape = self._shape(number, given)
        self.names[number] = "input"
        if given.dtype in CODES:
            if given.scales is None:
                raise RequestError(f"input {given.name!r} has codes without a scale", "a quantised file with scales")
            self.names[number] = self.quantised("input", given.scales, given.dtype, "quantize_input")
            self.notes.append("the input is float32: QuantizeLinear makes the codes that the file reads")
        elif given.dtype != FLOAT:
            raise RequestError(f"input {given.name!r} is {given.dtype}", "float32, int8, uint8 or int16")
        if number in self.images and math.prod(shape[1:]) > 1 and shape[0] > 1:
            self.notes.append("the input has the channels first, as all images of the model")
        for place, call in enumerate(self.file.operators):
            self._read(place, call)
        outputs = [self._output(output) for output in self.file.outputs]
        value = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["vectors", *shape])
        graph = helper.make_graph(self.nodes, "network", [value], outputs, self.initializers)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="harness")
        return Imported(model, dict(self.names), frozenset(self.images), tuple(self.notes))

    def _output(self, number: int) -> onnx.ValueInfoProto:
        tensor, name = self.file.tensors[number], self.names[number]
        kind = TensorProto.INT64 if tensor.dtype.kind == "i" and tensor.dtype not in CODES else TensorProto.FLOAT
        if tensor.dtype in CODES:
            if tensor.scales is None:
                raise RequestError(f"output {tensor.name!r} has codes without a scale", "a quantised file with scales")
            name = self.node(
                "DequantizeLinear",
                [name, *self.quantisation("dequantize_output", tensor.scales, tensor.dtype)],
                "dequantize_output",
            )
            self.notes.append("the output is float32: DequantizeLinear reads the codes that the file writes")
        return helper.make_tensor_value_info(name, kind, ["vectors", *self._shape(number, tensor)])

    def _shape(self, number: int, tensor: TensorValue) -> tuple[int, ...]:
        """Return the shape of one vector, an image with the channels first."""
        if not tensor.shape or tensor.shape[0] not in (1, -1):
            raise RequestError(f"tensor {tensor.name!r} has shape {list(tensor.shape)}", "a first size of 1")
        if len(tensor.shape) == IMAGE_AXES:
            self.images.add(number)
            return (tensor.shape[3], *tensor.shape[1:3])
        return tensor.shape[1:]

    def _read(self, place: int, call: OperatorCall) -> None:
        if len(call.outputs) != 1:
            raise RequestError(f"operator {place} ({call.name}) has {len(call.outputs)} outputs", "one is supported")
        inputs = tuple(self.file.tensors[number] for number in call.inputs if number >= 0)
        at = _Call(place, call, inputs, self.file.tensors[call.outputs[0]])
        read = READERS.get(call.name)
        if read is None:
            raise at.refusal("it has no ONNX form here", f"operators that have one: {', '.join(sorted(READERS))}")
        name = read(self, at)
        number = call.outputs[0]
        if len(at.output.shape) == IMAGE_AXES:
            self.images.add(number)
        self.names[number] = self.activated(at, name)

    def activated(self, at: _Call, name: str) -> str:
        """Return the value after the function that an operator has at its end."""
        function = at.option("fusedActivationFunction")
        if function == NONE:
            return name
        if function not in (RELU, RELU6):
            raise at.refusal(f"it ends with the function {function} (ActivationFunctionType)", "NONE, RELU or RELU6")
        if at.output.dtype == FLOAT:
            if function == RELU:
                return self.node("Relu", [name], f"{name}_relu")
            limits = [self.add(f"{name}_{of}", np.array(value, np.float32)) for of, value in (("min", 0), ("max", 6))]
            return self.node("Clip", [name, *limits], f"{name}_clip")
        scales, codes = at.scales(at.output), np.iinfo(at.output.dtype)
        low = max(codes.min, scales.zero_point)
        high = codes.max
        if function == RELU6:
            high = min(high, int(np.rint(np.float32(6) / scales.scale[0])) + scales.zero_point)
        if (low, high) == (codes.min, codes.max):  # the codes end there
            return name
        limits = [
            self.add(f"{name}_{of}", np.array(value, at.output.dtype)) for of, value in (("min", low), ("max", high))
        ]
        return self.node("Clip", [name, *limits], f"{name}_clip")

    def node(self, operator: str, inputs: Sequence[str], name: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output, which is the node's."""
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def add(self, name: str, values: Array) -> str:
        """Add a constant, of the shape that it has, and return its name."""
        self.initializers.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def quantisation(self, name: str, scales: Scales, dtype: np.dtype[Any], role: str = "") -> list[str]:
        """Add a scale and a zero point; of several scales one for each channel."""
        values = scales.scale if len(scales.scale) > 1 else scales.scale[0]
        zero_points = np.full(np.shape(values), scales.zero_point, dtype)
        return [
            self.add(f"{name}{role}_scale", np.array(values, np.float32)),
            self.add(f"{name}{role}_zero_point", zero_points),
        ]

    def both_quantisations(self, at: _Call, name: str) -> list[str]:
        """Add scale and zero point of the first input and of the output."""
        ends = ((at.inputs[0], "_x"), (at.output, "_y"))
        return [part for end, role in ends for part in self.quantisation(name, at.scales(end), end.dtype, role)]

    def quantised(self, value: str, scales: Scales, dtype: np.dtype[Any], name: str) -> str:
        """Add QuantizeLinear."""
        return self.node("QuantizeLinear", [value, *self.quantisation(name, scales, dtype)], name)

    def new_name(self, at: _Call) -> str:
        """Return a name for the node of an operator: that of its output if it is a word, else operator and place."""
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", at.output.name):
            return at.output.name
        return f"{at.name.lower()}_{at.place}"

    def value(self, at: _Call, position: int, *, image: bool | None = None) -> str:
        """Return the name of an activation; in ONNX's order unless `image` is False: then as the file has it."""
        number = at.call.inputs[position]
        if number not in self.names:
            raise at.refusal(f"input {position} is a constant", "an activation")
        if image is not False or number not in self.images:
            return self.names[number]
        _, height, width, channels = self.file.tensors[number].shape
        if height * width == 1 or channels == 1:
            return self.names[number]
        return self.node("Transpose", [self.names[number]], f"{self.new_name(at)}_order", perm=TO_LAST)

    def constant(self, at: _Call, position: int) -> Array | None:
        """Return the values of a constant input; None if it is left out."""
        if position >= len(at.call.inputs) or at.call.inputs[position] < 0:
            return None
        tensor = self.file.tensors[at.call.inputs[position]]
        if tensor.values is None:
            raise at.refusal(f"input {tensor.name!r} is no constant", "constant weights, bias, shapes and axes")
        return tensor.values


def _convolution(reader: _Reader, at: _Call) -> str:
    depthwise, name = at.name == "DEPTHWISE_CONV_2D", reader.new_name(at)
    weights, bias = reader.constant(at, 1), reader.constant(at, 2)
    if weights is None:
        raise at.refusal("it has no weights", "constant weights")
    channels = at.inputs[0].shape[3]
    kernel = weights.transpose(3, 0, 1, 2) if depthwise else weights.transpose(0, 3, 1, 2)
    groups = channels if depthwise else channels // kernel.shape[1]
    attributes = {
        "group": groups,
        "strides": [at.option("strideH"), at.option("strideW")],
        "dilations": [at.option("dilationHFactor", 1), at.option("dilationWFactor", 1)],
        "pads": _pads(at, kernel.shape[2:]),
    }
    return _sums(reader, at, name, kernel, bias, ("Conv", "QLinearConv"), attributes)


def _sums(
    reader: _Reader,
    at: _Call,
    name: str,
    weights: Array,
    bias: Array | None,
    operators: tuple[str, str],
    attributes: Mapping[str, Any],
) -> str:
    x, kind = reader.value(at, 0), at.inputs[1].dtype
    if at.inputs[0].dtype == FLOAT:
        if kind != FLOAT:
            raise at.refusal(
                f"it has float32 activations and {kind} weights: LiteRT quantises them while it computes",
                "a file that is float32 throughout, or int8 throughout",
            )
        constants = [reader.add(f"{name}_weights", weights)]
        if bias is not None:
            constants.append(reader.add(f"{name}_bias", bias))
        return reader.node(operators[0], [x, *constants], name, **attributes)
    own, y = at.scales(at.inputs[1]), at.scales(at.output)
    inputs = [
        *(x, *reader.quantisation(name, at.scales(at.inputs[0]), at.inputs[0].dtype, "_x")),
        *(reader.add(f"{name}_weights", weights), *reader.quantisation(name, own, kind, "_weights")),
    ]
    added = np.zeros(len(weights), np.int32) if bias is None else bias
    output = reader.quantisation(name, y, at.output.dtype, "_y")
    if operators[1] == "QGemm":
        inputs = [*inputs, reader.add(f"{name}_bias", added), *output]
        return reader.node("QGemm", inputs, name, MICROSOFT, transB=1)
    inputs = [*inputs, *output, reader.add(f"{name}_bias", added)]
    return reader.node(operators[1], inputs, name, **attributes)


def _pads(at: _Call, kernel: Sequence[int]) -> list[int]:
    """Return ONNX's pads: all begins, then all ends."""
    if at.option("padding") != SAME:
        return [0, 0, 0, 0]
    strides = (at.option("strideH"), at.option("strideW"))
    dilations = (at.option("dilationHFactor", 1), at.option("dilationWFactor", 1))
    begins, ends = [], []
    for size, extent, stride, step in zip(at.inputs[0].shape[1:3], kernel, strides, dilations, strict=True):
        missing = max((-(-size // stride) - 1) * stride + (extent - 1) * step + 1 - size, 0)
        begins.append(missing // 2)
        ends.append(missing - missing // 2)
    return [*begins, *ends]


def _fully_connected(reader: _Reader, at: _Call) -> str:
    weights, bias, name = reader.constant(at, 1), reader.constant(at, 2), reader.new_name(at)
    if weights is None:
        raise at.refusal("it has no weights", "constant weights")
    depth = weights.shape[1]
    if math.prod(at.inputs[0].shape) != depth:
        raise at.refusal(
            f"its input has shape {list(at.inputs[0].shape)}, its weights {list(weights.shape)}", "one row"
        )
    number = at.call.inputs[0]
    if len(at.inputs[0].shape) > 2:
        flat = reader.node("Flatten", [reader.value(at, 0, image=False)], f"{name}_flat")
        reader.names[number], kept = flat, reader.names[number]
        was_image = number in reader.images
        reader.images.discard(number)
        made = _sums(reader, at, name, weights, bias, ("Gemm", "QGemm"), {"transB": 1})
        reader.names[number] = kept
        if was_image:
            reader.images.add(number)
        return made
    return _sums(reader, at, name, weights, bias, ("Gemm", "QGemm"), {"transB": 1})


def _binary(operator: str, quantised: str | None = None) -> Callable[[_Reader, _Call], str]:
    def read(reader: _Reader, at: _Call) -> str:
        name = reader.new_name(at)
        operands = [_operand(reader, at, position) for position in range(2)]
        if at.output.dtype == FLOAT:
            return reader.node(operator, operands, name)
        if quantised is None or any(number not in reader.names for number in at.call.inputs):
            raise at.refusal(
                f"it reads {at.output.dtype} codes, or a constant of them", "two activations of ADD or MUL"
            )
        terms = [
            part
            for operand, tensor, role in zip(operands, at.inputs, "ab", strict=True)
            for part in (operand, *reader.quantisation(name, at.scales(tensor), tensor.dtype, f"_{role}"))
        ]
        output = reader.quantisation(name, at.scales(at.output), at.output.dtype, "_y")
        return reader.node(quantised, [*terms, *output], name, MICROSOFT)

    return read


def _operand(reader: _Reader, at: _Call, position: int) -> str:
    number = at.call.inputs[position]
    if number in reader.names:
        return reader.names[number]
    values = reader.constant(at, position)
    if values is None:
        raise at.refusal(f"input {position} is left out", "two operands")
    if any(number in reader.images for number in at.call.inputs) and values.ndim > 0 and values.size > 1:
        axes = values.reshape((1,) * (IMAGE_AXES - values.ndim) + values.shape)
        values = axes.transpose(TO_FIRST)
    return reader.add(f"{reader.new_name(at)}_term_{position}", values)


def _pool(reader: _Reader, at: _Call) -> str:
    name, largest = reader.new_name(at), at.name == "MAX_POOL_2D"
    kernel = [at.option("filterHeight"), at.option("filterWidth")]
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [at.option("strideH"), at.option("strideW")],
        "pads": _pads(at, kernel),
    }
    x = reader.value(at, 0)
    if largest or at.output.dtype == FLOAT:
        return reader.node("MaxPool" if largest else "AveragePool", [x], name, **attributes)
    both = reader.both_quantisations(at, name)
    if kernel == list(at.inputs[0].shape[1:3]):
        return reader.node("QLinearGlobalAveragePool", [x, *both], name, MICROSOFT, channels_last=0)
    return reader.node("QLinearAveragePool", [x, *both], name, MICROSOFT, **attributes)


def _mean(reader: _Reader, at: _Call) -> str:
    axes, name, x = reader.constant(at, 1), reader.new_name(at), reader.value(at, 0)
    rank = len(at.inputs[0].shape)
    if axes is None or rank != IMAGE_AXES or sorted(int(axis) % rank for axis in axes.reshape(-1)) != [1, 2]:
        raise at.refusal(
            f"it is over the axes {None if axes is None else axes.tolist()}", "the mean of an image: 1 and 2"
        )
    kept = len(at.output.shape) == rank
    made = name if kept else f"{name}_image"
    if at.output.dtype == FLOAT:
        reader.node("GlobalAveragePool", [x], made)
    else:
        both = reader.both_quantisations(at, name)
        reader.node("QLinearGlobalAveragePool", [x, *both], made, MICROSOFT, channels_last=0)
    return made if kept else reader.node("Flatten", [made], name)


def _reshape(reader: _Reader, at: _Call) -> str:
    name, given, shape = reader.new_name(at), at.inputs[0].shape, at.output.shape
    if len(shape) == IMAGE_AXES and len(given) != IMAGE_AXES:
        _, height, width, channels = shape
        flat = [0, height, width, channels]
        made = reader.node(
            "Reshape", [reader.value(at, 0), reader.add(f"{name}_shape", np.array(flat))], f"{name}_last"
        )
        return reader.node("Transpose", [made], name, perm=TO_FIRST)
    x = reader.value(at, 0, image=False)
    asked = reader.add(f"{name}_shape", np.array([0, *shape[1:]], np.int64))
    made = reader.node("Reshape", [x, asked], name if len(shape) != IMAGE_AXES else f"{name}_last")
    return made if len(shape) != IMAGE_AXES else reader.node("Transpose", [made], name, perm=TO_FIRST)


def _softmax(reader: _Reader, at: _Call) -> str:
    name, x = reader.new_name(at), reader.value(at, 0)
    if at.option("beta", 1.0) != 1.0:
        raise at.refusal(f"beta is {at.option('beta')}", "beta 1")
    axis = 1 if at.call.inputs[0] in reader.images else -1
    if at.output.dtype == FLOAT:
        return reader.node("Softmax", [x], name, axis=axis)
    scales = reader.both_quantisations(at, name)
    return reader.node("QLinearSoftmax", [x, *scales], name, MICROSOFT, axis=axis, opset=OPSET)


def _quantize(reader: _Reader, at: _Call) -> str:
    name, x = reader.new_name(at), reader.value(at, 0)
    if at.inputs[0].dtype in CODES:
        scales = reader.quantisation(name, at.scales(at.inputs[0]), at.inputs[0].dtype, "_x")
        x = reader.node("DequantizeLinear", [x, *scales], f"{name}_real")
    return reader.quantised(x, at.scales(at.output), at.output.dtype, name)


def _dequantize(reader: _Reader, at: _Call) -> str:
    name = reader.new_name(at)
    scales = reader.quantisation(name, at.scales(at.inputs[0]), at.inputs[0].dtype)
    return reader.node("DequantizeLinear", [reader.value(at, 0), *scales], name)


def _function(operator: str, quantised: str | None = None, **names: str) -> Callable[[_Reader, _Call], str]:
    """Return the reader of a function of each value; `names` are those of its options by the ONNX attribute."""

    def read(reader: _Reader, at: _Call) -> str:
        attributes: dict[str, Any] = {attribute: float(at.option(option)) for attribute, option in names.items()}
        name, x = reader.new_name(at), reader.value(at, 0)
        if at.output.dtype == FLOAT:
            return reader.node(operator, [x], name, **attributes)
        if quantised is None:
            raise at.refusal(f"it reads {at.output.dtype} codes", "float32, or LOGISTIC or LEAKY_RELU of codes")
        return reader.node(quantised, [x, *reader.both_quantisations(at, name)], name, MICROSOFT, **attributes)

    return read


def _transpose(reader: _Reader, at: _Call) -> str:
    order = reader.constant(at, 1)
    axes = [] if order is None else [int(axis) for axis in order.reshape(-1)]
    if axes[:1] != [0]:
        raise at.refusal(f"its axes are {axes}", "the axis of the vectors first")
    if len(axes) == IMAGE_AXES:  # the file has the channels last before and after, the model first
        axes = [TO_LAST[axes[axis]] for axis in TO_FIRST]
    return reader.node("Transpose", [reader.value(at, 0)], reader.new_name(at), perm=axes)


def _relu(reader: _Reader, at: _Call) -> str:
    x = reader.value(at, 0)
    function = RELU if at.name == "RELU" else RELU6
    options = {**at.call.options, "fusedActivationFunction": function}
    call = OperatorCall(at.name, at.call.inputs, at.call.outputs, options)
    made = reader.activated(_Call(at.place, call, at.inputs, at.output), x)
    return reader.node("Identity", [made], reader.new_name(at)) if made == x else made


def _pad(reader: _Reader, at: _Call) -> str:
    name, widths = reader.new_name(at), reader.constant(at, 1)
    if widths is None:
        raise at.refusal("it has no widths", "constant widths")
    pairs = widths.tolist()
    if at.call.inputs[0] in reader.images:
        pairs = [pairs[axis] for axis in TO_FIRST]
    pads = reader.add(f"{name}_pads", np.array(pairs, np.int64).T.reshape(-1))
    dtype = at.output.dtype
    given = reader.constant(at, 2) if at.name == "PADV2" else None
    value = at.scales(at.output).zero_point if dtype in CODES else 0
    filler = np.array(value, dtype) if given is None else given.reshape(()).astype(dtype)
    return reader.node("Pad", [reader.value(at, 0), pads, reader.add(f"{name}_value", filler)], name)


def _concatenation(reader: _Reader, at: _Call) -> str:
    rank, name = len(at.output.shape), reader.new_name(at)
    axis = at.option("axis") % rank
    if rank == IMAGE_AXES:
        axis = TO_LAST[axis]
    values = [reader.value(at, position) for position in range(len(at.inputs))]
    if at.output.dtype not in CODES or all(_alike(at.scales(each), at.scales(at.output)) for each in at.inputs):
        return reader.node("Concat", values, name, axis=axis)
    parts = [
        part
        for value, tensor, number in zip(values, at.inputs, range(len(values)), strict=True)
        for part in (value, *reader.quantisation(name, at.scales(tensor), tensor.dtype, f"_{number}"))
    ]
    output = reader.quantisation(name, at.scales(at.output), at.output.dtype, "_y")
    return reader.node("QLinearConcat", [*output, *parts], name, MICROSOFT, axis=axis)


def _alike(one: Scales, other: Scales) -> bool:
    return bool(one.scale[0] == other.scale[0]) and one.zero_point == other.zero_point


def _arg_extremum(reader: _Reader, at: _Call) -> str:
    axis = reader.constant(at, 1)
    rank = len(at.inputs[0].shape)
    if rank != 2 or axis is None or int(axis.reshape(-1)[0]) % rank != 1:
        raise at.refusal(f"its input has shape {list(at.inputs[0].shape)}", "vectors (1, N), along axis 1")
    operator = "ArgMax" if at.name == "ARG_MAX" else "ArgMin"
    return reader.node(operator, [reader.value(at, 0)], reader.new_name(at), axis=1, keepdims=1)


READERS: Mapping[str, Callable[[_Reader, _Call], str]] = {
    "ADD": _binary("Add", "QLinearAdd"),
    "ARG_MAX": _arg_extremum,
    "ARG_MIN": _arg_extremum,
    "AVERAGE_POOL_2D": _pool,
    "CONCATENATION": _concatenation,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "DEQUANTIZE": _dequantize,
    "DIV": _binary("Div"),
    "ELU": _function("Elu"),
    "FULLY_CONNECTED": _fully_connected,
    "HARD_SWISH": _function("HardSwish"),
    "LEAKY_RELU": _function("LeakyRelu", "QLinearLeakyRelu", alpha="alpha"),
    "LOGISTIC": _function("Sigmoid", "QLinearSigmoid"),
    "MAX_POOL_2D": _pool,
    "MEAN": _mean,
    "MUL": _binary("Mul", "QLinearMul"),
    "PAD": _pad,
    "PADV2": _pad,
    "QUANTIZE": _quantize,
    "RELU": _relu,
    "RELU6": _relu,
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SUB": _binary("Sub"),
    "TANH": _function("Tanh"),
    "TRANSPOSE": _transpose,
}

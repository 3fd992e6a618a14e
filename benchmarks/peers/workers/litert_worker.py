"""LiteRT with XNNPACK.  Arguments: float or int8.

Its file is written from the network's constants.  `int8` has the codes and scales of the model, all activations less
128, because LiteRT's are signed; the multiplication by the scales and the rounding are LiteRT's own.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import worker

OPTIONS = {
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "SOFTMAX": "SoftmaxOptions",
    "ADD": "AddOptions",
}
NAMES = {
    "conv": "CONV_2D",
    "depthwise": "DEPTHWISE_CONV_2D",
    "pool": "MAX_POOL_2D",
    "mean": "AVERAGE_POOL_2D",
    "tanh": "TANH",
    "softmax": "SOFTMAX",
    "add": "ADD",
    "dense": "FULLY_CONNECTED",
}
VERSIONS = (4, 3, 3, 2, 2, 1, 2)  # of these operators, the first with int8
SHIFT = 128  # from the model's uint8 activations to LiteRT's int8


class LiteRt:
    """One interpreter of one thread."""

    def __init__(self, content: bytes, vectors: worker.Floats, computes: str) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.version = f"ai-edge-litert {version('ai-edge-litert')}"
        self.computes = computes
        self._vectors = vectors[:, None]
        self._interpreter = Interpreter(model_content=content, num_threads=1)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._output = self._interpreter.get_output_details()[0]["index"]
        self.run = self._interpreter._interpreter.Invoke  # noqa: SLF001 - what invoke() calls after checks of its own
        self._require_delegate()

    def _require_delegate(self) -> None:
        """All operators are XNNPACK's, one node of the graph."""
        operators = [each["op_name"] for each in self._interpreter._get_ops_details()]  # noqa: SLF001 - no other way
        if operators[-1] != "DELEGATE":
            raise RuntimeError(f"XNNPACK did not take the network: {operators}")

    def put(self, index: int) -> None:
        """Copy the vector into the interpreter's tensor."""
        self._interpreter.set_tensor(self._input, self._vectors[index])

    def output(self) -> worker.Floats:
        """Return the scores, float32 (width,)."""
        return self._interpreter.get_tensor(self._output)[0]


class Writer:
    """A LiteRT file under construction: tensors and operators in their order, by the schema's generated classes."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema = schema
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.buffers = [schema.BufferT()]
        self.codes: list[int] = []

    def tensor(self, shape: list[int], kind: str, values: Any = None, quantisation: Any = None, axis: int = 0) -> int:
        """Add a tensor, constant where it has values; its index.

        `quantisation` is (scale, zero point), or one scale for each place along an axis.
        """
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape = f"t{len(self.graph.tensors)}", shape
        tensor.type = getattr(self.schema.TensorType, kind)
        tensor.buffer = self._buffer(values)
        if quantisation:
            scales = np.atleast_1d(quantisation[0]).astype(float).tolist()
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale = scales
            tensor.quantization.zeroPoint = [int(quantisation[1])] * len(scales)
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _buffer(self, values: Any) -> int:
        if values is None:
            return 0
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def operator(self, name: str, inputs: list[int], output: int, *, relu: bool = False, **options: Any) -> int:
        """Add an operator with these fields of its options; its output, for the next one."""
        code = getattr(self.schema.BuiltinOperator, name)
        if code not in self.codes:
            self.codes.append(code)
        operator = self.schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = self.codes.index(code), inputs, [output]
        if name in OPTIONS:
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, OPTIONS[name])
            operator.builtinOptions = getattr(self.schema, f"{OPTIONS[name]}T")()
            options["fusedActivationFunction"] = int(relu)  # ActivationFunctionType: NONE, RELU
            vars(operator.builtinOptions).update(options)
        self.graph.operators.append(operator)
        return output

    def content(self, first: int, last: int) -> bytes:
        """Return the file, whose input and output are these tensors."""
        import flatbuffers

        model, builder = self.schema.ModelT(), flatbuffers.Builder(1 << 16)
        self.graph.inputs, self.graph.outputs = [first], [last]
        model.version, model.subgraphs, model.buffers = 3, [self.graph], self.buffers
        model.operatorCodes = [self._operator_code(code) for code in self.codes]
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _operator_code(self, code: int) -> Any:
        operator_code = self.schema.OperatorCodeT()
        operator_code.builtinCode = operator_code.deprecatedBuiltinCode = code
        versions = dict(zip((getattr(self.schema.BuiltinOperator, name) for name in OPTIONS), VERSIONS, strict=True))
        operator_code.version = versions.get(code, 1)
        return operator_code


def float_file(constants: Any) -> bytes:
    """FULLY_CONNECTED with RELU, but for the last."""
    writer, count = Writer(), int(constants["layers"])
    tensor = first = writer.tensor([1, len(constants["weights_0"])], "FLOAT32")
    for i in range(count):
        weights, bias = constants[f"weights_{i}"].T, constants[f"bias_{i}"]
        tables = [writer.tensor(list(each.shape), "FLOAT32", each.astype("<f4")) for each in (weights, bias)]
        output = writer.tensor([1, len(bias)], "FLOAT32")
        tensor = writer.operator("FULLY_CONNECTED", [tensor, *tables], output, relu=i < count - 1)
    return writer.content(first, tensor)


def int8_file(constants: Any) -> bytes:
    """QUANTIZE, FULLY_CONNECTED of int8, DEQUANTIZE; no RELU, because the codes end at it as in the model."""
    writer, count = Writer(), int(constants["layers"])
    scales, zero_points = constants["scales"], constants["zero_points"].astype(int) - SHIFT
    width = len(constants["weights_0"])
    first = writer.tensor([1, width], "FLOAT32")
    tensor = writer.operator("QUANTIZE", [first], writer.tensor([1, width], "INT8", None, (scales[0], zero_points[0])))
    for i in range(count):
        codes, bias, scale = constants[f"codes_{i}"].T, constants[f"bias_codes_{i}"], constants["weight_scales"][i]
        tables = [
            writer.tensor(list(codes.shape), "INT8", codes.astype("i1"), (scale, 0)),
            writer.tensor(list(bias.shape), "INT32", bias.astype("<i4"), (scales[i] * scale, 0)),
        ]
        output = writer.tensor([1, len(bias)], "INT8", None, (scales[i + 1], zero_points[i + 1]))
        tensor = writer.operator("FULLY_CONNECTED", [tensor, *tables], output)
    scores = writer.tensor([1, len(bias)], "FLOAT32")
    return writer.content(first, writer.operator("DEQUANTIZE", [tensor], scores))


def convolutional_file(steps: list[dict[str, Any]], constants: Any, kind: str) -> bytes:
    """Images with the channels last; codes end at the model's, and float values at ReLU."""
    writer, exact = Writer(), kind == "int8"
    quantisation = (float(constants["scale"]), int(constants["zero_point"])) if exact else None
    element = "INT8" if exact else "FLOAT32"
    image = [1, *steps[0]["image"]]
    first = writer.tensor(image, "FLOAT32")
    begin = writer.operator("QUANTIZE", [first], writer.tensor(image, element, None, quantisation)) if exact else first
    outputs = [begin]  # of each step, after the image itself
    for number, step in enumerate(steps[1:]):
        inputs = [outputs[source + 1] for source in step["inputs"]]
        if f"codes_{number}" in constants:
            inputs += _tables(writer, constants, number, step["operator"], exact=exact)
        output = writer.tensor([1, *step["shape"]], element, None, quantisation)
        if step["padding"] == "PAD":
            inputs[0] = _padded(writer, inputs[0], step["pads"])
        relu, name = not exact and step["relu"], NAMES[step["operator"]]
        outputs.append(writer.operator(name, inputs, output, relu=relu, **_options(writer, step)))
    if not exact:
        return writer.content(first, outputs[-1])
    scores = writer.tensor([1, *steps[-1]["shape"]], "FLOAT32")
    return writer.content(first, writer.operator("DEQUANTIZE", [outputs[-1]], scores))


def _padded(writer: Writer, tensor: int, pads: list[int]) -> int:
    """Add zeros around an image: rows and columns before it, then those behind it."""
    _, rows, columns, channels = writer.graph.tensors[tensor].shape
    table = np.array([[0, 0], pads[0::2], pads[1::2], [0, 0]], "<i4")
    shape = [1, rows + pads[0] + pads[2], columns + pads[1] + pads[3], channels]
    inputs = [tensor, writer.tensor([4, 2], "INT32", table)]
    return writer.operator("PAD", inputs, writer.tensor(shape, "FLOAT32"))


def _options(writer: Writer, step: dict[str, Any]) -> dict[str, Any]:
    more = {"depthwise": {"depthMultiplier": 1}, "softmax": {"beta": 1.0}}.get(step["operator"], {})
    if step["operator"] in {"pool", "mean"}:
        more = dict(zip(("filterHeight", "filterWidth"), step["kernel"], strict=True))
    if not step["kernel"]:
        return more
    padding = getattr(writer.schema.Padding, step["padding"].replace("PAD", "VALID"))
    return {"strideH": step["stride"], "strideW": step["stride"], "padding": padding} | more


def _tables(writer: Writer, constants: Any, number: int, operator: str, *, exact: bool) -> list[int]:
    """Add the weights and the bias of a step, as codes or as the numbers that these stand for."""
    codes, bias = (constants[f"{name}_{number}"] for name in ("codes", "bias"))
    if f"scales_{number}" not in constants:
        return [writer.tensor(list(each.shape), "FLOAT32", each.astype("<f4")) for each in (codes, bias)]
    scales = constants[f"scales_{number}"]
    axis, scale = 3 if operator == "depthwise" else 0, constants["scale"]
    if exact:
        return [
            writer.tensor(list(codes.shape), "INT8", codes.astype("i1"), (scales, 0), axis),
            writer.tensor(list(bias.shape), "INT32", bias.astype("<i4"), (scales * np.float32(scale), 0)),
        ]
    weights = codes * scales.reshape([-1 if place == axis else 1 for place in range(codes.ndim)])
    values = bias * (float(scale) * scales.astype(float))
    return [writer.tensor(list(each.shape), "FLOAT32", each.astype("<f4")) for each in (weights, values)]


def open_contender(folder: Path, vectors: worker.Floats, arguments: list[str]) -> LiteRt:
    """Write the file and open it."""
    constants, layers = np.load(folder / "network.npz"), folder / "network.json"
    if layers.exists():
        steps = json.loads(layers.read_text())
        *sides, channels = steps[0]["image"]
        images = np.moveaxis(vectors.reshape(-1, channels, *sides), 1, -1)
        content = convolutional_file(steps, constants, arguments[0])
        return LiteRt(content, np.ascontiguousarray(images), arguments[0])
    write = {"float": float_file, "int8": int8_file}[arguments[0]]
    return LiteRt(write(constants), vectors, arguments[0])


worker.main("ai-edge-litert", open_contender)

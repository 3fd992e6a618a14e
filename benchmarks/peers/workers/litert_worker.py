"""LiteRT with XNNPACK.  Arguments: float or int8.

Its file is written from the network's constants.  `int8` has the codes and scales of the model, all activations less
128, because LiteRT's are signed; the multiplication by the scales and the rounding are LiteRT's own.
"""  # noqa: INP001 - a script

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import worker

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

    def tensor(self, shape: list[int], kind: str, values: Any = None, quantisation: Any = None) -> int:
        """Add a tensor, constant where it has values; `quantisation` is (scale, zero point).  Its index."""
        tensor = self.schema.TensorT()
        tensor.name, tensor.shape = f"t{len(self.graph.tensors)}", shape
        tensor.type = getattr(self.schema.TensorType, kind)
        tensor.buffer = self._buffer(values)
        if quantisation:
            tensor.quantization = self.schema.QuantizationParametersT()
            tensor.quantization.scale = [float(quantisation[0])]
            tensor.quantization.zeroPoint = [int(quantisation[1])]
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def _buffer(self, values: Any) -> int:
        if values is None:
            return 0
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def operator(self, name: str, inputs: list[int], output: int, *, relu: bool = False) -> int:
        """Add an operator; its output, for the next one."""
        code = getattr(self.schema.BuiltinOperator, name)
        if code not in self.codes:
            self.codes.append(code)
        operator = self.schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = self.codes.index(code), inputs, [output]
        if name == "FULLY_CONNECTED":
            operator.builtinOptionsType = self.schema.BuiltinOptions.FullyConnectedOptions
            operator.builtinOptions = self.schema.FullyConnectedOptionsT()
            operator.builtinOptions.fusedActivationFunction = int(relu)  # ActivationFunctionType: NONE, RELU
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
        operator_code.version = 4 if code == self.schema.BuiltinOperator.FULLY_CONNECTED else 1  # 4: int8
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


def open_contender(folder: Path, vectors: worker.Floats, arguments: list[str]) -> LiteRt:
    """Write the file and open it."""
    constants = np.load(folder / "network.npz")
    write = {"float": float_file, "int8": int8_file}[arguments[0]]
    return LiteRt(write(constants), vectors, arguments[0])


worker.main("ai-edge-litert", open_contender)

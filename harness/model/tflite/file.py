"""The content of a TFLite file, as plain values, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.core.errors import RequestError, ToolError
from harness.core.installation import install_extra

IDENTIFIER = b"TFL3"
VERSION = 3
VERSIONS: Mapping[str, int] = {
    "ADD": 2,
    "AVERAGE_POOL_2D": 2,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "DEQUANTIZE": 2,
    "FULLY_CONNECTED": 4,
    "GATHER": 2,
    "MAX_POOL_2D": 2,
    "PAD": 2,
    "PADV2": 2,
    "TRANSPOSE": 2,
}
"""Versions of operators, the first that has int8; 1 for others."""
OPTIONS: Mapping[str, str] = {
    "AVERAGE_POOL_2D": "Pool2D",
    "MAX_POOL_2D": "Pool2D",
    "MEAN": "Reducer",
    "REDUCE_MAX": "Reducer",
    "REDUCE_MIN": "Reducer",
    "SUM": "Reducer",
}
"""Names of the options that are not those of the operator."""


@dataclass(frozen=True)
class Scales:
    """The quantisation of a tensor: real = scale * (code - zero_point), along `axis` if there are several scales."""

    scale: npt.NDArray[np.float32]
    zero_point: int
    axis: int = 0


@dataclass(frozen=True, eq=False)
class TensorValue:
    """A tensor of a file: `values` are those of a constant."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scales: Scales | None = None
    values: Array | None = None


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """An operator of a file, with numbers of tensors; -1 stands for an input that is left out."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TfliteFile:
    """One subgraph, in the order of execution."""

    tensors: tuple[TensorValue, ...]
    operators: tuple[OperatorCall, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    description: str = ""


def schema() -> ModuleType:
    """Return the generated classes; raise RequestError if the package is not installed."""
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError as error:
        raise RequestError(f"TFLite files need the package ai-edge-litert: {error}", install_extra("litert")) from None
    return schema_py_generated  # type: ignore[no-any-return] # it has no types


def encode(file: TfliteFile) -> bytes:
    """Return the bytes of a file: the same for equal content."""
    import flatbuffers

    codes = sorted({call.name for call in file.operators})
    names = schema()
    model, graph = names.ModelT(), names.SubGraphT()
    buffers = [names.BufferT()]  # the first is that of tensors without values
    graph.name = "main"
    graph.tensors = [_tensor(names, tensor, buffers) for tensor in file.tensors]
    graph.operators = [_operator(names, call, codes) for call in file.operators]
    graph.inputs, graph.outputs = list(file.inputs), list(file.outputs)
    model.version, model.description, model.subgraphs, model.buffers = VERSION, file.description, [graph], buffers
    model.operatorCodes = [_operator_code(names, name) for name in codes]
    model.metadata = [_metadata(names, name, content, buffers) for name, content in file.metadata.items()]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def decode(content: bytes, path: str) -> TfliteFile:
    """Return the content of a file; raise RequestError if it is none, or has several subgraphs."""
    names = schema()
    if content[4:8] != IDENTIFIER:
        raise RequestError(f"{path} is no TFLite file: bytes 4 to 8 are {content[4:8]!r}", f"{IDENTIFIER!r} is needed")
    try:
        model = names.ModelT.InitFromObj(names.Model.GetRootAsModel(content, 0))
    except Exception as error:  # noqa: BLE001 - the generated code raises whatever a broken offset leads to
        raise RequestError(f"cannot read {path}: {type(error).__name__}: {error}", "the file is damaged") from None
    if len(model.subgraphs or []) != 1:
        raise RequestError(f"{path} has {len(model.subgraphs or [])} subgraphs", "one is supported")
    [graph] = model.subgraphs
    buffers = [b"" if buffer.data is None else bytes(buffer.data) for buffer in model.buffers]
    calls = [_call(names, operator, model.operatorCodes) for operator in graph.operators or []]
    return TfliteFile(
        tuple(_value(names, tensor, buffers, path) for tensor in graph.tensors),
        tuple(calls),
        tuple(int(each) for each in graph.inputs),
        tuple(int(output) for output in graph.outputs),
        {text(entry.name): buffers[entry.buffer] for entry in model.metadata or []},
        text(model.description),
    )


def text(value: bytes | str | None) -> str:
    """Return the text of a string of the generated classes, which have bytes if they come from a file."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def types(names: ModuleType) -> dict[int, np.dtype[Any]]:
    """Return the numpy type of each TensorType that numpy has."""
    kinds = {name: value for name, value in vars(names.TensorType).items() if name.isupper()}
    own = {"FLOAT16", "FLOAT32", "FLOAT64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"}
    return {value: np.dtype(name.lower()) for name, value in kinds.items() if name in own | {"BOOL"}}


def _tensor(names: ModuleType, tensor: TensorValue, buffers: list[Any]) -> Any:
    made = names.TensorT()
    made.name, made.shape = tensor.name, list(tensor.shape)
    made.type = {kind: number for number, kind in types(names).items()}[tensor.dtype]
    made.buffer = 0 if tensor.values is None else _buffer(names, tensor.values.astype(tensor.dtype).tobytes(), buffers)
    if tensor.scales is not None:
        made.quantization = names.QuantizationParametersT()
        made.quantization.scale = [float(each) for each in tensor.scales.scale]
        made.quantization.zeroPoint = [tensor.scales.zero_point] * len(tensor.scales.scale)
        made.quantization.quantizedDimension = tensor.scales.axis
    return made


def _buffer(names: ModuleType, content: bytes, buffers: list[Any]) -> int:
    buffer = names.BufferT()
    buffer.data = np.frombuffer(content, np.uint8)
    buffers.append(buffer)
    return len(buffers) - 1


def _operator(names: ModuleType, call: OperatorCall, codes: Sequence[str]) -> Any:
    made = names.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = codes.index(call.name), list(call.inputs), list(call.outputs)
    if call.options:
        kind = _options_of(call.name)
        made.builtinOptionsType = getattr(names.BuiltinOptions, kind)
        made.builtinOptions = getattr(names, f"{kind}T")()
        unknown = set(call.options) - set(vars(made.builtinOptions))
        if unknown:
            raise ToolError(
                f"{kind} of the package ai-edge-litert has no {', '.join(sorted(unknown))}", "install 2.1.2"
            )
        vars(made.builtinOptions).update(call.options)
    return made


def _options_of(name: str) -> str:
    words = OPTIONS.get(name, name.title().replace("_", "").replace("2D", "2D"))
    return f"{words}Options"


def _operator_code(names: ModuleType, name: str) -> Any:
    made = names.OperatorCodeT()
    made.builtinCode = getattr(names.BuiltinOperator, name)
    made.deprecatedBuiltinCode = min(made.builtinCode, 127)
    made.version = VERSIONS.get(name, 1)
    return made


def _metadata(names: ModuleType, name: str, content: bytes, buffers: list[Any]) -> Any:
    made = names.MetadataT()
    made.name, made.buffer = name, _buffer(names, content, buffers)
    return made


def _value(names: ModuleType, tensor: Any, buffers: Sequence[bytes], path: str) -> TensorValue:
    kinds = types(names)
    if tensor.type not in kinds:
        found = {number: name for name, number in vars(names.TensorType).items() if name.isupper()}
        raise RequestError(
            f"{path}: tensor {text(tensor.name)} has the type {found.get(tensor.type, tensor.type)}",
            f"supported: {', '.join(sorted(map(str, kinds.values())))}",
        )
    dtype, shape = kinds[tensor.type], () if tensor.shape is None else tuple(int(each) for each in tensor.shape)
    content, values = buffers[tensor.buffer], None
    if content:
        if len(content) != dtype.itemsize * int(np.prod(shape)):
            raise RequestError(
                f"{path}: tensor {text(tensor.name)} of {dtype} {list(shape)} has {len(content)} bytes", "it is damaged"
            )
        values = np.frombuffer(content, dtype.newbyteorder("<")).reshape(shape).astype(dtype)
    return TensorValue(text(tensor.name), shape, dtype, _scales(tensor, path), values)


def _scales(tensor: Any, path: str) -> Scales | None:
    own = tensor.quantization
    if own is None or own.scale is None or not len(own.scale):
        return None
    zero_points = {int(each) for each in own.zeroPoint}
    if len(zero_points) != 1:
        raise RequestError(
            f"{path}: tensor {text(tensor.name)} has the zero points {sorted(zero_points)}", "one for all is supported"
        )
    return Scales(np.asarray(own.scale, np.float32), zero_points.pop(), int(own.quantizedDimension))


def _call(names: ModuleType, operator: Any, codes: Sequence[Any]) -> OperatorCall:
    code = codes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    known = {value: name for name, value in vars(names.BuiltinOperator).items() if name.isupper()}
    options = {} if operator.builtinOptions is None else dict(vars(operator.builtinOptions))
    name = text(code.customCode) if number == names.BuiltinOperator.CUSTOM else known.get(number, str(number))
    inputs, outputs = (tuple(int(each) for each in side) for side in (operator.inputs, operator.outputs))
    return OperatorCall(name, inputs, outputs, options)

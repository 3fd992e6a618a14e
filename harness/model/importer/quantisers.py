"""QuantizeLinear and DequantizeLinear of other types, axes and blocks than our definitions, by single operations.

    y = (x - zero point) * scale                            in float32; the difference of integers is one of int32
    y = saturate(round half to even(x / scale) + zero point)

Scale and zero point are constants.  A result that is float16 is the float32 number, rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.importer.replacement import Replacement, attributes_of, operators_of, replace_nodes
from harness.operators.tensor import INT8, INT32, UINT8, integer_limits, is_float

OPERATORS = ("QuantizeLinear", "DequantizeLinear")
LARGEST = 1 << 16
"""The limit of codes: beside them float32 has all integers."""


def expand(model: onnx.ModelProto, types: Mapping[str, onnx.TypeProto]) -> list[str]:
    """Write such nodes in place, whose inputs have these types; return their operators."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def write(to: Replacement, node: onnx.NodeProto) -> None:
        if not all(name in constants for name in node.input[1:] if name):
            return
        if _is_weight(node, constants):
            values = _weights(
                [numpy_helper.to_array(constants[name]) for name in node.input if name], attributes_of(node)
            )
            model.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
            to.constants[node.output[0]] = values
        elif node.input[0] in types and node.input[0] not in constants:
            parameters = [numpy_helper.to_array(constants[name]) for name in node.input[1:] if name]
            _write(to, node, parameters, types[node.input[0]].tensor_type)

    return operators_of(replace_nodes(model.graph, dict.fromkeys(OPERATORS, write)))


def _write(to: Replacement, node: onnx.NodeProto, parameters: Sequence[Array], source: onnx.TypeProto.Tensor) -> None:
    """Add the nodes of a node with these constants and a source of this type; none for one that stays."""
    stated, (scale, *others) = attributes_of(node), parameters
    is_code = node.op_type == "DequantizeLinear"
    kind = source.elem_type if is_code else _result(stated, others)
    if kind not in TensorProto.DataType.values():
        return
    if _is_defined(helper.tensor_dtype_to_np_dtype(kind), scale, others, stated, is_code=is_code):
        return
    rank = len(source.shape.dim) if source.HasField("shape") else scale.ndim
    factor, *zeros = (_spread(values, rank, stated).astype(np.float32) for values in (scale, *others))
    zero = zeros[0] if zeros and zeros[0].any() else None
    if is_code:
        result = _dequantised(to, node.input[0], kind, factor, zero)
        _cast(to, result, TensorProto.FLOAT, stated.get("output_dtype") or _number(scale.dtype))
    else:
        number = _cast(to, node.input[0], source.elem_type, TensorProto.FLOAT)
        quotient = to.add("Div", [number, to.constant(factor, np.float32)])
        _quantise(to, quotient, kind, zero, saturate=stated.get("saturate", 1))


def _cast(to: Replacement, tensor: str, source: int, kind: int) -> str:
    """Return the tensor in an ONNX type."""
    return tensor if source == kind else to.add("Cast", [tensor], to=kind)


def _is_weight(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Return whether a node dequantises constants of types or blocks that `harness.model.parse` does not read."""
    stated = attributes_of(node)
    if node.op_type != "DequantizeLinear" or node.input[0] not in constants or stated.get("output_dtype", 0) > 1:
        return False
    kind = helper.tensor_dtype_to_np_dtype(constants[node.input[0]].data_type)
    is_single = constants[node.input[1]].data_type == TensorProto.FLOAT
    return is_single and (bool(stated.get("block_size", 0)) or kind not in (INT8, UINT8, INT32))


def _weights(inputs: Sequence[Array], stated: Mapping[str, Any]) -> Array:
    """Return the float32 numbers of codes with their scales and zero points."""
    codes, *parameters = inputs
    scale, *zeros = (_spread(values, codes.ndim, stated) for values in parameters)
    wide = np.dtype(np.float32 if is_float(codes.dtype) else np.int64)
    zero = zeros[0] if zeros else np.zeros(())
    difference: Array = codes.astype(wide) - zero.astype(wide)
    return np.asarray(difference.astype(np.float32) * scale.astype(np.float32))


def _dequantised(to: Replacement, x: str, kind: int, factor: Array, zero: Array | None) -> str:
    is_integer = not is_float(helper.tensor_dtype_to_np_dtype(kind))
    x = _cast(to, x, kind, TensorProto.INT32 if is_integer else TensorProto.FLOAT)
    if zero is not None:
        x = to.add("Sub", [x, to.constant(zero, np.int32 if is_integer else np.float32)])
    if is_integer:
        x = to.add("Cast", [x], to=TensorProto.FLOAT)
    return to.add("Mul", [x, to.constant(factor, np.float32)])


def _quantise(to: Replacement, x: str, kind: int, zero: Array | None, *, saturate: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if is_float(dtype):
        to.add("Cast", [x], to=kind, saturate=saturate)
        return
    x = to.add("Round", [x])
    if zero is not None:
        x = to.add("Add", [x, to.constant(zero, np.float32)])
    limits = [to.constant(limit, np.float32) for limit in integer_limits(dtype)]
    to.add("Cast", [to.add("Clip", [x, *limits])], to=kind)


def _result(stated: Mapping[str, Any], others: Sequence[Array]) -> int:
    """Return the ONNX type of codes: that of the zero point, of the attribute, or uint8."""
    return _number(others[0].dtype) if others else int(stated.get("output_dtype", 0)) or TensorProto.UINT8


def _number(dtype: np.dtype[Any]) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _is_defined(
    dtype: np.dtype[Any], scale: Array, others: Sequence[Array], stated: Mapping[str, Any], *, is_code: bool
) -> bool:
    """Return whether our definition reads the node, or refuses it rightly: codes beyond float32 and zero points."""
    is_whole = scale.size == 1 and all(values.size == 1 for values in others)
    if not is_float(dtype) and integer_limits(dtype)[1] >= LARGEST:
        return True
    is_plain = is_whole and scale.dtype == np.float32 and not stated.get("block_size", 0)
    return is_plain and dtype in (INT8, UINT8) and (is_code or stated.get("output_dtype", 0) in (0, _number(dtype)))


def _spread(values: Array, rank: int, stated: Mapping[str, Any]) -> Array:
    """Return scales or zero points in a shape that is broadcast to that of the input, of so many axes."""
    if values.size == 1:
        return values.reshape(())
    axis, block = int(stated.get("axis", 1)), int(stated.get("block_size", 0))
    if block:
        return np.repeat(values, block, axis)
    return values.reshape([-1 if place == axis % rank else 1 for place in range(rank)])

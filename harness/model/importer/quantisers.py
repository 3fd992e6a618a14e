"""QuantizeLinear and DequantizeLinear of other types, axes and blocks than our definitions, by single operations.

    y = (x - zero point) * scale                            in float32; the difference of integers is one of int32
    y = saturate(round half to even(x / scale) + zero point)

Scale and zero point are constants.  A result that is float16 is the float32 number, rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.transforms.edit import add_constant
from harness.operators.node import domain_of
from harness.operators.tensor import INT8, INT32, UINT8, integer_limits, is_float

OPERATORS = ("QuantizeLinear", "DequantizeLinear")
LARGEST = 1 << 16
"""The limit of codes: beside them float32 has all integers."""


@dataclass(eq=False)
class _Steps:
    """The nodes of one node of the file, each of the result before it."""

    graph: onnx.GraphProto
    name: str
    result: str
    nodes: list[onnx.NodeProto]

    def add(self, operator: str, *constants: Array, **attributes: Any) -> None:
        """Add a node that reads the result and constants."""
        name = f"{self.name}/{operator.lower()}_{len(self.nodes)}"
        read = [add_constant(self.graph, values, f"{name}/{place}") for place, values in enumerate(constants)]
        self.nodes.append(helper.make_node(operator, [self.result, *read], [name], name, **attributes))
        self.result = name

    def cast(self, source: int, kind: int, **attributes: Any) -> None:
        """Add a Cast to an ONNX type, if the result has another one."""
        if source != kind:
            self.add("Cast", to=kind, **attributes)


def expand(model: onnx.ModelProto, kinds: Mapping[str, int], ranks: Mapping[str, int]) -> list[str]:
    """Write such nodes in place, whose inputs have ONNX types `kinds` and `ranks`; return their operators."""
    graph = model.graph
    written: dict[str, None] = {}
    if not any(node.op_type in OPERATORS for node in graph.node):
        return []
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        parameters = [name for name in node.input[1:] if name]
        is_other = node.op_type not in OPERATORS or domain_of(node) or not all(name in constants for name in parameters)
        if not is_other and _is_weight(node, constants):
            values = _weights([numpy_helper.to_array(constants[name]) for name in node.input if name], _stated(node))
            graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
            written[node.op_type] = None
            continue
        steps = None if is_other else _steps(graph, node, constants, kinds, ranks)
        if steps:
            steps[-1].output[0] = node.output[0]
            written[node.op_type] = None
        nodes += steps or [node]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return [*written]


def _steps(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    constants: Mapping[str, TensorProto],
    kinds: Mapping[str, int],
    ranks: Mapping[str, int],
) -> list[onnx.NodeProto] | None:
    """Return the nodes of a node, None for one that stays."""
    stated = _stated(node)
    scale, *others = (numpy_helper.to_array(constants[name]) for name in node.input[1:] if name)
    if node.input[0] not in kinds or node.input[0] in constants:
        return None
    is_code = node.op_type == "DequantizeLinear"
    kind = kinds[node.input[0]] if is_code else _result(stated, others)
    if kind not in TensorProto.DataType.values():
        return None
    if _is_defined(helper.tensor_dtype_to_np_dtype(kind), scale, others, stated, is_code=is_code):
        return None
    rank = ranks.get(node.input[0], scale.ndim)
    factor, *zeros = (_spread(values, rank, stated).astype(np.float32) for values in (scale, *others))
    steps = _Steps(graph, node.output[0], node.input[0], [])
    zero = zeros[0] if zeros and zeros[0].any() else None
    if is_code:
        _dequantise(steps, kind, factor, zero)
        steps.cast(
            TensorProto.FLOAT, _number(scale.dtype) if not stated.get("output_dtype") else stated["output_dtype"]
        )
    else:
        steps.cast(kinds[node.input[0]], TensorProto.FLOAT)
        steps.add("Div", factor)
        _quantise(steps, kind, zero, saturate=stated.get("saturate", 1))
    return steps.nodes


def _stated(node: onnx.NodeProto) -> dict[str, Any]:
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def _is_weight(node: onnx.NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Return whether a node dequantises constants of types or blocks that `harness.model.parse` does not read."""
    if node.op_type != "DequantizeLinear" or node.input[0] not in constants or _stated(node).get("output_dtype", 0) > 1:
        return False
    kind = helper.tensor_dtype_to_np_dtype(constants[node.input[0]].data_type)
    is_single = constants[node.input[1]].data_type == TensorProto.FLOAT
    return is_single and (bool(_stated(node).get("block_size", 0)) or kind not in (INT8, UINT8, INT32))


def _weights(inputs: Sequence[Array], stated: Mapping[str, Any]) -> Array:
    """Return the float32 numbers of codes with their scales and zero points."""
    codes, *parameters = inputs
    scale, *zeros = (_spread(values, codes.ndim, stated) for values in parameters)
    wide = np.dtype(np.float32 if is_float(codes.dtype) else np.int64)
    zero = zeros[0] if zeros else np.zeros(())
    difference: Array = codes.astype(wide) - zero.astype(wide)
    return np.asarray(difference.astype(np.float32) * scale.astype(np.float32))


def _dequantise(steps: _Steps, kind: int, factor: Array, zero: Array | None) -> None:
    is_integer = not is_float(helper.tensor_dtype_to_np_dtype(kind))
    steps.cast(kind, TensorProto.INT32 if is_integer else TensorProto.FLOAT)
    if zero is not None:
        steps.add("Sub", zero.astype(np.int32 if is_integer else np.float32))
    if is_integer:
        steps.add("Cast", to=TensorProto.FLOAT)
    steps.add("Mul", factor)


def _quantise(steps: _Steps, kind: int, zero: Array | None, *, saturate: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if is_float(dtype):
        steps.add("Cast", to=kind, saturate=saturate)
        return
    steps.add("Round")
    if zero is not None:
        steps.add("Add", zero)
    steps.add("Clip", *(np.array(limit, np.float32) for limit in integer_limits(dtype)))
    steps.add("Cast", to=kind)


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

"""Nodes that are written as nodes of other operators or types, of which ONNX says the same.

An operator on float16 or bfloat16 that has no definition of its own becomes that of float32 numbers, whose result is
rounded once.  What ONNX Runtime does not have in a type is written in one that it has.

QuantizeLinear and DequantizeLinear of other types, axes and blocks than our definitions become single operations:

    y = (x - zero point) * scale                            in float32; the difference of integers is one of int32
    y = saturate(round half to even(x / scale) + zero point)

Scale and zero point are constants.  A result that is float16 is the float32 number, rounded once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from harness import operators
from harness.core.arrays import Array
from harness.model.importer import opsets, selections
from harness.model.importer.replacement import Replacement, attributes_of, operators_of, replace_nodes, with_attributes
from harness.operators.half_elements import OPERANDS
from harness.operators.tensor import INT8, INT32, UINT8, integer_limits, is_float
from harness.operators.traits import Trait

LEFT = """\
    x = Cast <to = 13> (a)
    n = Cast <to = 13> (b)
    s = BitShift <direction = "LEFT"> (x, n)
"""
RIGHT = """\
    x = Cast <to = 7> (a)
    zero = Constant <value_int = 0> ()
    is_negative = Less (x, zero)
    one = Cast <to = 7> (is_negative)
    sign = Neg (one)
    size = BitwiseXor (x, sign)
    whole = Cast <to = 13> (size)
    n = Cast <to = 13> (b)
    shifted = BitShift <direction = "RIGHT"> (whole, n)
    rest = Cast <to = 7> (shifted)
    s = BitwiseXor (rest, sign)
"""
"""A shift of signed numbers: the bits of uint64; a number of places that is negative, or large, shifts all of them."""
SHIFTED = (TensorProto.UINT8, TensorProto.UINT32, TensorProto.UINT64)
"""The types of BitShift that ONNX Runtime has."""
UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
"""Types of exponents that ONNX Runtime does not have."""
END = "3.4028234663852886e38"
INFINITIES = {
    (1, 1): f"    size = Abs (a)\n    end = Constant <value_float = {END}> ()\n    y = Greater (size, end)\n",
    (1, 0): f"    end = Constant <value_float = {END}> ()\n    y = Greater (a, end)\n",
    (0, 1): f"    end = Constant <value_float = -{END}> ()\n    y = Less (a, end)\n",
}
"""IsInf, by detect_positive and detect_negative."""
BODIES = ("BitShift", "IsNaN", "IsInf")
"""The operators that have bodies here."""
NAN = "    is_number = Equal (a, a)\n    y = Not (is_number)\n"
HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
NARROW = (TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16)
"""Types whose greatest and least values are found among int32 numbers."""
ENDS = ("Max", "Min", "ReduceMax", "ReduceMin")
QUANTISERS = ("QuantizeLinear", "DequantizeLinear")
LARGEST_CODE = 1 << 16
"""The limit of codes: beside them float32 has all integers."""
WIDENED = ("Pad", "Where")
"""Operators that choose or move values, and of which no layer reads float16."""
OF_WIDER = ("Compress", "Einsum", "Gather", "OneHot", "ReverseSequence")
"""Operators without a layer that choose or move values, and that ONNX Runtime does not have for bfloat16."""
EXACT = frozenset((*BODIES, *ENDS, *QUANTISERS, *WIDENED, "Relu", "Abs", "Neg"))
"""Operators whose results ONNX Runtime rounds as they are written here."""
KEEPING = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
"""Reductions that keep their input where they have no axes, if an attribute says so."""


def _body(node: onnx.NodeProto, kinds: Mapping[str, int], empty: Collection[str]) -> str | None:
    """Return the body of a node in ONNX's text form, from a, b, ... to y; None for a node that stays."""
    kind = kinds.get(node.input[0], TensorProto.UNDEFINED) if node.input else TensorProto.UNDEFINED
    if node.op_type == "BitShift" and kind not in SHIFTED:
        is_left = helper.get_node_attr_value(node, "direction") == b"LEFT"
        return f"{LEFT if is_left else RIGHT}    y = Cast <to = {kind}> (s)\n"
    if node.op_type in KEEPING and all(tensor in empty for tensor in node.input[1:] if tensor):
        stated = {entry.name: entry for entry in node.attribute}
        keeps = "axes" not in stated and "noop_with_empty_axes" in stated and stated["noop_with_empty_axes"].i
        return "    y = Identity (a)\n" if keeps else None
    if node.op_type == "Pow" and kinds.get(node.input[1]) in UNSIGNED:
        return "    e = Cast <to = 7> (b)\n    y = Pow (a, e)\n"
    if node.op_type == "IsNaN" and kind == TensorProto.FLOAT:
        return NAN
    if node.op_type == "IsInf" and kind == TensorProto.FLOAT:
        stated = {entry.name: entry.i for entry in node.attribute}
        return INFINITIES.get((stated.get("detect_positive", 1), stated.get("detect_negative", 1)))
    return None


def _wide(node: onnx.NodeProto, kinds: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the type of a node's numbers, and the wider one in which it is computed; None for a node that stays."""
    values = node.input[1:] if node.op_type == "Where" else node.input
    kind = next((kinds[tensor] for tensor in values if kinds.get(tensor, 0) in (*HALVES, *NARROW)), 0)
    if kind in NARROW:
        is_reduced = node.op_type.startswith("Reduce")
        return (kind, TensorProto.INT32) if node.op_type in ENDS and is_reduced == (kind == TensorProto.BOOL) else None
    is_defined = node.op_type in OPERANDS and kind == TensorProto.FLOAT16
    return (kind, TensorProto.FLOAT) if kind in HALVES and not is_defined and _widens(node, kind) else None


def _widens(node: onnx.NodeProto, kind: int) -> bool:
    """Return whether a node computes with float32 numbers, or moves values of a type that it does not have."""
    operator = operators.of_node(node)
    if node.op_type in WIDENED:
        return True
    if operator is None:
        return node.op_type in BODIES or (node.op_type in OF_WIDER and kind == TensorProto.BFLOAT16)
    is_move = Trait.MOVES in operator.traits
    return node.op_type not in (*QUANTISERS, "Cast") and (not is_move or kind == TensorProto.BFLOAT16)


def _write_body(to: Replacement, node: onnx.NodeProto, body: str, opset: int) -> None:
    """Add the nodes of a body for a node."""
    letters = "abcdefgh"[: len(node.input)]
    head = f'<domain: "harness", opset_import: ["" : {opset}]>\nf ({", ".join(letters)}) => (y)'
    names = dict(zip([*letters, "y"], [*node.input, *node.output], strict=True))
    for inner in onnx.parser.parse_function(f"{head}\n{{\n{body}}}").node:
        names |= {tensor: to.free(f"{to.name}/{tensor}") for tensor in inner.output if tensor not in names}
        for tensors in (inner.input, inner.output):
            tensors[:] = [names[tensor] for tensor in tensors]
        inner.name = inner.output[0]
        to.nodes.append(inner)


def _widened(to: Replacement, node: onnx.NodeProto, kinds: dict[str, int], narrow: int, wide: int) -> onnx.NodeProto:
    """Return a node in a wider type, whose inputs have Casts; `kinds` gets the types of new tensors."""
    copy = with_attributes(node)
    for place, tensor in enumerate(node.input):
        if kinds.get(tensor) == narrow:
            copy.input[place] = to.add("Cast", [tensor], to=wide)
            kinds[copy.input[place]] = wide
    if kinds.get(node.output[0]) == narrow:
        copy.output[0] = to.free(f"{node.output[0]}/wide")
        kinds[copy.output[0]] = wide
    return copy


def expand(model: onnx.ModelProto, opset: int) -> list[str]:
    """Write such nodes in place; return their operators."""
    types = opsets.types_of(model)
    quantised = _write_quantisers(model, types)
    types = opsets.types_of(model) if quantised else types
    kinds = {name: value.tensor_type.elem_type for name, value in types.items()}
    empty = {tensor.name for tensor in model.graph.initializer if 0 in tensor.dims}

    def write(to: Replacement, node: onnx.NodeProto) -> None:
        if len(node.output) != 1:
            return
        pair = _wide(node, kinds)
        own = node if pair is None else _widened(to, node, kinds, *pair)
        body = _body(own, kinds, empty)
        if body is not None:
            _write_body(to, own, body, opset)
        elif pair is not None:
            to.nodes.append(own)
        if pair is not None and own.output[0] != node.output[0]:
            to.add("Cast", [own.output[0]], output=node.output[0], to=pair[0])

    operators_of_graph = operators_of(model.graph.node)
    written = operators_of(replace_nodes(model.graph, dict.fromkeys(operators_of_graph, write)))
    return [*quantised, *written]


def _write_quantisers(model: onnx.ModelProto, types: Mapping[str, onnx.TypeProto]) -> list[str]:
    """Write such nodes in place, whose inputs have these types; return their operators."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    tables = {node.input[0] for node in model.graph.node if node.op_type in selections.RULES and node.input}

    def write(to: Replacement, node: onnx.NodeProto) -> None:
        if not all(name in constants for name in node.input[1:] if name):
            return
        if _is_weight(node, constants, tables):
            values = _weights(
                [numpy_helper.to_array(constants[name]) for name in node.input if name], attributes_of(node)
            )
            model.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
            to.constants[node.output[0]] = values
        elif node.input[0] in types and node.input[0] not in constants:
            parameters = [numpy_helper.to_array(constants[name]) for name in node.input[1:] if name]
            _write_quantiser(to, node, parameters, types[node.input[0]].tensor_type)

    return operators_of(replace_nodes(model.graph, dict.fromkeys(QUANTISERS, write)))


def _write_quantiser(
    to: Replacement, node: onnx.NodeProto, parameters: Sequence[Array], source: onnx.TypeProto.Tensor
) -> None:
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


def _is_weight(node: onnx.NodeProto, constants: Mapping[str, TensorProto], tables: Collection[str]) -> bool:
    """Return whether a node dequantises constants that are stored as float32.

    These are tables of selections, and constants of types or blocks that `harness.model.parse` does not read.
    """
    stated = attributes_of(node)
    if node.op_type != "DequantizeLinear" or node.input[0] not in constants or stated.get("output_dtype", 0) > 1:
        return False
    kind = helper.tensor_dtype_to_np_dtype(constants[node.input[0]].data_type)
    is_single = constants[node.input[1]].data_type == TensorProto.FLOAT
    is_table = node.output[0] in tables
    return is_single and (is_table or bool(stated.get("block_size", 0)) or kind not in (INT8, UINT8, INT32))


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
    if not is_float(dtype) and integer_limits(dtype)[1] >= LARGEST_CODE:
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

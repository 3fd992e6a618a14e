"""Nodes that are written as nodes of other operators or types, of which ONNX says the same.

An operator on float16 or bfloat16 that has no definition of its own becomes that of float32 numbers, whose result is
rounded once.  What ONNX Runtime does not have in a type is written in one that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx
import onnx.parser
from onnx import TensorProto, helper

from harness import operators
from harness.model.importer import opsets, quantisers
from harness.model.importer.replacement import Replacement, operators_of, replace_nodes, with_attributes
from harness.operators.cast import Cast
from harness.operators.half_elements import OPERANDS
from harness.operators.move import Move
from harness.operators.rename import Rename

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
EXACT = frozenset((*BODIES, *ENDS, *quantisers.OPERATORS, "Relu", "Abs", "Neg"))
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
    if node.op_type == "IsNaN" and kind == TensorProto.FLOAT:
        return NAN
    if node.op_type == "IsInf" and kind == TensorProto.FLOAT:
        stated = {entry.name: entry.i for entry in node.attribute}
        return INFINITIES.get((stated.get("detect_positive", 1), stated.get("detect_negative", 1)))
    return None


def _wide(node: onnx.NodeProto, kinds: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the type of a node's numbers, and the wider one in which it is computed; None for a node that stays."""
    kind = next((kinds[tensor] for tensor in node.input if kinds.get(tensor, 0) in (*HALVES, *NARROW)), 0)
    if kind in NARROW:
        is_reduced = node.op_type.startswith("Reduce")
        return (kind, TensorProto.INT32) if node.op_type in ENDS and is_reduced == (kind == TensorProto.BOOL) else None
    is_defined = node.op_type in OPERANDS and kind == TensorProto.FLOAT16
    return (kind, TensorProto.FLOAT) if kind in HALVES and not is_defined and _computes(node) else None


def _computes(node: onnx.NodeProto) -> bool:
    """Return whether a node computes with float32 numbers: it neither moves, nor converts or quantises values."""
    operator = operators.of_node(node)
    if operator is None or "Quantize" in node.op_type:
        return node.op_type in BODIES
    return not issubclass(operator, (Move, Rename, Cast))


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
    quantised = quantisers.expand(model, types)
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

"""Nodes that are written as nodes of other operators, of which ONNX says the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import onnx
import onnx.parser
import onnx.shape_inference
from onnx import TensorProto, helper

from harness.operators.node import NEWEST_OPSET, domain_of

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
WIDE = (TensorProto.UINT8, TensorProto.UINT32, TensorProto.UINT64)
"""The types of BitShift that ONNX Runtime has."""


def types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the ONNX types of all tensors whose type is stated or can be inferred."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    known = {tensor.name: tensor.data_type for tensor in inferred.initializer}
    return known | {value.name: value.type.tensor_type.elem_type for value in values}


def written(node: onnx.NodeProto, body: str, outputs: str) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a body of ONNX's text form for a node, whose inputs are a, b, ...; `outputs` are its last."""
    letters = "abcdefgh"[: len(node.input)]
    head = f'<domain: "harness", opset_import: ["" : {NEWEST_OPSET}]>\nf ({", ".join(letters)}) => ({outputs})'
    names = dict(zip([*letters, *outputs.split(", ")], [*node.input, *node.output], strict=True))
    for inner in onnx.parser.parse_function(f"{head}\n{{\n{body}}}").node:
        for tensors in (inner.input, inner.output):
            tensors[:] = [names.get(tensor, f"{node.output[0]}/{tensor}") for tensor in tensors]
        inner.name = inner.output[0]
        yield inner


def _shift(node: onnx.NodeProto, kinds: Mapping[str, int]) -> str | None:
    """Return the body of a BitShift of a type that ONNX Runtime does not have."""
    kind = kinds.get(node.input[0], TensorProto.UINT8)
    if kind in WIDE:
        return None
    is_left = helper.get_node_attr_value(node, "direction") == b"LEFT"
    return f"{LEFT if is_left else RIGHT}    y = Cast <to = {kind}> (s)\n"


BODIES: Mapping[str, Callable[[onnx.NodeProto, Mapping[str, int]], str | None]] = {"BitShift": _shift}
"""The body of a node by its operator, with the output y; None for a node that stays."""


def expand(model: onnx.ModelProto) -> list[str]:
    """Write such nodes as their bodies, in place; return their operators."""
    if not any(node.op_type in BODIES and not domain_of(node) for node in model.graph.node):
        return []
    kinds, nodes = types(model), []
    expanded: dict[str, None] = {}
    for node in model.graph.node:
        body = BODIES[node.op_type](node, kinds) if node.op_type in BODIES and not domain_of(node) else None
        if body is None:
            nodes.append(node)
            continue
        expanded[node.op_type] = None
        nodes += written(node, body, "y")
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return [*expanded]

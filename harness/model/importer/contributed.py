"""Operators of ONNX Runtime (com.microsoft) that become nodes of ONNX's own operators, by attributes and shapes.

FusedConv, FusedGemm                        the sum, another summand, and the activation
FusedMatMul                                 transposed factors and a scale
MatMulNBits                                 codes of 2, 4 or 8 bits with scales of blocks, which become float32 weights
MatMulIntegerToFloat, DynamicQuantizeMatMul MatMulInteger, scales and a bias
SimplifiedLayerNormalization                the quotient by the root of the mean square
Attention, MultiHeadAttention, QAttention   products, scale, masks and Softmax; without states of past tokens
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from harness.core.arrays import Array
from harness.model.graph import opsets_of
from harness.model.importer.constants import facts_of
from harness.model.importer.replacement import (
    Replacement,
    Rule,
    attributes_of,
    has_rule,
    operators_of,
    replace_nodes,
)
from harness.model.transforms.edit import outputs
from harness.operators.node import NEWEST_OPSET, domain_of
from harness.operators.tensor import FLOAT32, UINT8

DOMAIN = "com.microsoft"
"""The domain of these operators."""
ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""Activations of fused sums, and their attributes."""
WITHOUT_PAST = "no past state, cache or rotation; masks of 1 and 0 for each key"


def _input(node: onnx.NodeProto, place: int) -> str:
    """Return the name of an input, "" for one that is left out."""
    return node.input[place] if place < len(node.input) else ""


def _sum(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a FusedConv or a FusedGemm."""
    stated = attributes_of(node)
    own = {name: value for name, value in stated.items() if not name.startswith("activation")}
    y = to.add(node.op_type.removeprefix("Fused"), node.input[:3], **own)
    y = to.add("Add", [y, node.input[3]]) if _input(node, 3) else y
    name = stated.get("activation", b"").decode()
    single = [stated[key] for key in ("activation_alpha", "activation_beta") if key in stated]
    numbers = stated.get("activation_params", single)
    if name == "Clip":
        to.add("Clip", [y, *(to.constant(number, FLOAT32) for number in numbers)])
    elif name in ACTIVATIONS:
        to.add(name, [y], **dict(zip(ACTIVATIONS[name], numbers, strict=False)))
    elif name:
        raise to.refusal(node, f"its activation is {name}", f"{', '.join((*ACTIVATIONS, 'Clip'))}, or none")


def _fused_mat_mul(to: Replacement, node: onnx.NodeProto) -> None:
    stated = attributes_of(node)
    if stated.get("transBatchA", 0) or stated.get("transBatchB", 0):
        raise to.refusal(node, "it exchanges axes of several matrices", "transBatchA and transBatchB 0")
    factors = list(node.input)
    for place, name in enumerate(("transA", "transB")):
        rank = len(to.shape(factors[place]))
        if stated.get(name, 0) and rank > 1:
            factors[place] = to.add("Transpose", [factors[place]], perm=[*range(rank - 2), rank - 1, rank - 2])
    _scaled(to, to.add("MatMul", factors), stated.get("alpha", 1.0))


def _scaled(to: Replacement, x: str, factor: float) -> str:
    return x if factor == 1 else to.add("Mul", [x, to.constant(factor, FLOAT32)])


def _unpacked(values: Array, bits: int) -> Array:
    """Return codes of some bits, of which the first one of a byte has its last bits, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=UINT8)
    codes: Array = (values[..., None] >> shifts) & UINT8.type((1 << bits) - 1)
    return codes.reshape(*values.shape[:-1], -1)


def _blocks(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a MatMulNBits, of which the weights are (code - zero point) * scale of a block, rounded to float32."""
    stated = attributes_of(node)
    depth, width, size, bits = stated["K"], stated["N"], stated["block_size"], stated.get("bits", 4)
    scale = to.required(node, 2)
    is_known = bits in (2, 4, 8) and scale.dtype == FLOAT32 and not _input(node, 4)
    if not is_known or stated.get("accuracy_level", 0) > 1:
        raise to.refusal(
            node,
            f"it has {bits} bits, scales of {scale.dtype}, accuracy_level {stated.get('accuracy_level', 0)}",
            "2, 4 or 8 bits, float32 scales, accuracy_level 0 or 1, no g_idx: the activations stay float32",
        )
    codes = _unpacked(to.required(node, 1).reshape(width, -1), bits)
    zero_point = np.full((width, 1), 1 << (bits - 1))
    if _input(node, 3):
        stored = to.required(node, 3).reshape(width, -1)
        zero_point = _unpacked(stored, bits) if stored.dtype == UINT8 else stored
        zero_point = np.repeat(zero_point[:, : -(-depth // size)], size, axis=1)[:, :depth]
    steps = np.repeat(scale.reshape(width, -1), size, axis=1)[:, :depth]
    weights = (codes[:, :depth].astype(FLOAT32) - zero_point.astype(FLOAT32)) * steps
    y = to.add("MatMul", [node.input[0], to.constant(weights.T, FLOAT32)])
    if _input(node, 5):
        to.add("Add", [y, node.input[5]])


def _integer_product(
    to: Replacement, codes: Sequence[str], scales: Sequence[str], bias: str, zero_points: Sequence[str]
) -> str:
    """Add the product of codes with two scales, and a bias."""
    total = to.add("MatMulInteger", [*codes, *zero_points])
    y = to.add("Mul", [to.add("Cast", [total], to=TensorProto.FLOAT), to.add("Mul", scales)])
    return to.add("Add", [y, bias]) if bias else y


def _dequantised_product(to: Replacement, node: onnx.NodeProto) -> None:
    a, b, a_scale, b_scale = node.input[:4]
    _integer_product(to, (a, b), (a_scale, b_scale), _input(node, 6), (_input(node, 4), _input(node, 5)))


def _dynamic_product(to: Replacement, node: onnx.NodeProto) -> None:
    parts = [to.free(f"{to.name}/{name}") for name in ("codes", "scale", "zero_point")]
    to.nodes.append(helper.make_node("DynamicQuantizeLinear", node.input[:1], parts, f"{to.name}/quantiser"))
    codes, scale, zero_point = parts
    pair = (codes, node.input[1]), (scale, node.input[2])
    _integer_product(to, *pair, _input(node, 4), (zero_point, _input(node, 3)))


def _attention(to: Replacement, node: onnx.NodeProto) -> None:
    """Write an Attention, whose query, key and value are parts of one product."""
    _require_no_past(to, node, (4, 6))
    x = to.add("MatMul", node.input[:2])
    if _input(node, 2):
        x = to.add("Add", [x, node.input[2]])
    _of_parts(to, node, x, node.input[1], _input(node, 3), _input(node, 5))


def _quantised_attention(to: Replacement, node: onnx.NodeProto) -> None:
    _require_no_past(to, node, (8,))
    codes, weights, bias, scale, weight_scale = node.input[:5]
    if to.values(scale) is not None:
        raise to.refusal(node, "its scale is constant", "DynamicQuantizeLinear, or Attention with QDQ groups")
    x = _integer_product(to, (codes, weights), (scale, weight_scale), bias, (_input(node, 6), _input(node, 7)))
    _of_parts(to, node, x, weights, _input(node, 5), "")


def _of_parts(to: Replacement, node: onnx.NodeProto, x: str, weights: str, mask: str, bias: str) -> None:
    """Add the attention of query, key and value side by side."""
    third = to.shape(weights)[-1] // 3
    sizes = attributes_of(node).get("qkv_hidden_sizes") or [third] * 3
    ends = np.cumsum([0, *sizes]).tolist()
    limits = [[to.constant([number]) for number in (*pair, -1)] for pair in pairwise(ends)]
    query, key, value = (to.add("Slice", [x, *part]) for part in limits)
    length = to.shape(node.input[0])[1]
    _attend(to, node, (query, key, value), (sizes[0], sizes[2]), (length, length), mask, bias)


def _multi_head_attention(to: Replacement, node: onnx.NodeProto) -> None:
    _require_no_past(to, node, range(6, len(node.input)))
    tensors = [_input(node, place) for place in range(3)]
    if not all(tensors) or any(len(to.shape(tensor)) != 3 for tensor in tensors):
        raise to.refusal(node, "query, key and value are packed", "three activations (vectors, tokens, values)")
    shapes, bias = [to.shape(tensor) for tensor in tensors], _input(node, 3)
    if bias:
        parts = np.split(to.required(node, 3), np.cumsum([shape[2] for shape in shapes[:2]]))
        tensors = [to.add("Add", [x, to.constant(part, FLOAT32)]) for x, part in zip(tensors, parts, strict=True)]
    widths, lengths = (shapes[0][2], shapes[2][2]), (shapes[0][1], shapes[1][1])
    _attend(to, node, tensors, widths, lengths, _input(node, 4), _input(node, 5))


def _require_no_past(to: Replacement, node: onnx.NodeProto, places: Sequence[int]) -> None:
    others = any(_input(node, place) for place in places) or any(node.output[1:])
    if others or attributes_of(node).get("do_rotary", 0):
        raise to.refusal(node, "it has inputs or outputs beside those of all tokens", WITHOUT_PAST)


def _attend(
    to: Replacement,
    node: onnx.NodeProto,
    tensors: Sequence[str],
    widths: tuple[int, int],
    lengths: tuple[int, int],
    mask: str,
    bias: str,
) -> None:
    """Add the attention of query, key and value.

    `widths` are the values of a query and a value of all heads, `lengths` the tokens of queries and of keys.
    """
    stated = attributes_of(node)
    heads = stated["num_heads"]
    sizes = [width // heads for width in (widths[0], *widths)]
    query, key, value = (
        to.add("Transpose", [to.add("Reshape", [x, to.constant([0, -1, heads, size])])], perm=perm)
        for x, size, perm in zip(tensors, sizes, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = _scaled(to, to.add("MatMul", [query, key]), stated.get("scale", 0) or 1 / float(np.sqrt(sizes[0])))
    if bias:
        scores = to.add("Add", [scores, bias])
    if mask:
        scores = to.add("Add", [scores, _bias_of_mask(to, node, mask, stated.get("mask_filter_value", -10000.0))])
    if stated.get("unidirectional", 0):
        later = ~np.tri(*lengths, lengths[1] - lengths[0], dtype=bool)
        scores = to.add("Add", [scores, to.constant(np.where(later, -np.inf, 0), FLOAT32)])
    result = to.add("MatMul", [to.add("Softmax", [scores], axis=-1), value])
    to.add("Reshape", [to.add("Transpose", [result], perm=[0, 2, 1, 3]), to.constant([0, -1, widths[1]])])


def _bias_of_mask(to: Replacement, node: onnx.NodeProto, mask: str, least: float) -> str:
    """Return the number that a score of each key gets: 0 where the mask is above 0."""
    if len(to.shape(mask)) != 2:
        raise to.refusal(node, f"its mask has shape {to.shape(mask)}", WITHOUT_PAST)
    is_read = to.add("Greater", [mask, to.constant(0, to.dtype(mask))])
    bias = to.add("Where", [is_read, to.constant(0, FLOAT32), to.constant(least, FLOAT32)])
    return to.add("Reshape", [bias, to.constant([0, 1, 1, -1])])


def _normalisation(opset: int) -> Rule:
    """Return the rule of SimplifiedLayerNormalization, and of that of a sum, for an opset."""

    def write(to: Replacement, node: onnx.NodeProto) -> None:
        stated: dict[str, Any] = attributes_of(node)
        of_sum = node.op_type.startswith("Skip")
        total = node.output[3] if of_sum and len(node.output) > 3 else ""
        if any(name for name in node.output[1:] if name != total):
            raise to.refusal(node, "its mean or deviation is in use", "the normalised values, and their sum")
        x, scale, axis = node.input[0], node.input[1 + of_sum], stated.get("axis", -1)
        axes = [axis] if axis < 0 else [*range(axis, len(to.shape(x)))]
        if of_sum:
            terms = [x, node.input[1], *filter(None, [_input(node, 3)])]
            x = to.add("Add", terms[:2])
            x = to.add("Add", [x, terms[2]]) if terms[2:] else x
        if total:
            to.nodes[-1].output[0] = x = total
        squares = to.add("Mul", [x, x])
        mean = to.reduced("ReduceMean", squares, axes, opset)
        shifted = to.add("Add", [mean, to.constant(stated.get("epsilon", 1e-12 if of_sum else 1e-5), FLOAT32)])
        to.add("Mul", [to.add("Div", [x, to.add("Sqrt", [shifted])]), scale])

    return write


RULES: Mapping[str, Rule] = {
    "FusedConv": _sum,
    "FusedGemm": _sum,
    "FusedMatMul": _fused_mat_mul,
    "MatMulNBits": _blocks,
    "MatMulIntegerToFloat": _dequantised_product,
    "DynamicQuantizeMatMul": _dynamic_product,
    "Attention": _attention,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _quantised_attention,
}
"""The rules of operators of com.microsoft."""


def _leave_out_unread(graph: onnx.GraphProto, operators: Container[str]) -> None:
    """Leave out the optional outputs of nodes that nothing reads."""
    read = {tensor for node in graph.node for tensor in node.input} | outputs(graph)
    for node in graph.node:
        if node.op_type in operators and domain_of(node) in ("", DOMAIN):
            node.output[1:] = [tensor if tensor in read else "" for tensor in node.output[1:]]


def expand(model: onnx.ModelProto) -> list[str]:
    """Write such nodes in place, as often as shapes of more tensors become known; return their operators."""
    normalisation = _normalisation(opsets_of(model).get("", NEWEST_OPSET))
    of_onnx = {"SimplifiedLayerNormalization": normalisation}
    rules, names = {**RULES, "SkipSimplifiedLayerNormalization": normalisation}, list[str]()
    _leave_out_unread(model.graph, {*rules, *of_onnx})
    while has_rule(model.graph, rules, DOMAIN) or has_rule(model.graph, of_onnx):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        facts = facts_of(copy)
        written = replace_nodes(model.graph, rules, facts, DOMAIN) + replace_nodes(model.graph, of_onnx, facts)
        if not written:
            break
        names += operators_of(written)
    return [*dict.fromkeys(names)]

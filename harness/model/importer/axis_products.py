"""Products and image operators behind a new axis of vectors; see `axis_rules`."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.model.importer.replacement import Shape, attribute, with_attributes
from harness.model.importer.rewriting import Rewriting, stated

MATRIX = 2
"""The axes of a matrix."""
MOST_COPIES = 16
"""Places of an operator's own batch axis, each of which gets a node."""


def mat_mul(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write a product of matrices; a constant left factor becomes a right one."""
    constant = None if to.is_activation(node.input[0]) else to.required_values(node, 0)
    if constant is not None and constant.ndim <= MATRIX:
        _multiplied_from_left(to, node, constant, node.input[1])
        return
    left, right = (to.shape_of(tensor) for tensor in node.input)
    left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
    rank = max(len(left), len(right))
    if rank == MATRIX and left[0] == 1 and not to.is_activation(node.input[1]):
        left = left[1:]  # one row is a vector
    rows = (*np.broadcast_shapes(left[:-2], right[:-2]), *left[-2:-1])
    factors = [_factor(to, node, position, shape, rank) for position, shape in enumerate((left, right))]
    to.write(node, factors, (*rows, right[-1]))


def _factor(to: Rewriting, node: onnx.NodeProto, position: int, shape: Shape, rank: int) -> str:
    """Return a factor of this shape: an activation with `rank` axes, but for one row, or a constant."""
    tensor = str(node.input[position])
    if to.is_activation(tensor):
        return to.form(tensor, (1,) * (rank - len(shape)) * (len(shape) > 1) + shape)
    if to.shape_of(tensor) == shape:
        return tensor
    values = to.required_values(node, position)
    return to.constant(values.reshape(shape), values.dtype)


def _multiplied_from_left(to: Rewriting, node: onnx.NodeProto, constant: Array, right: str) -> None:
    """Write the product of a constant matrix, or of a row, and an activation, A x, as (x^T A^T)^T."""
    own = to.shapes[right]
    weights = to.constant(np.atleast_2d(constant).T, constant.dtype)
    if len(own) == 1:
        to.write(node, [to.form(right), weights], (constant.size // own[0],))
        return
    axes = list(range(len(own) + 1))
    perm = [*axes[:-2], axes[-1], axes[-2]]
    source = to.add("Transpose", [to.form(right)], perm=perm)
    if constant.ndim == 1:
        to.write(node, [source, weights], (*own[:-2], own[-1], 1))
        return
    product = to.add("MatMul", [source, weights])
    to.write(helper.make_node("Transpose", [product], node.output, node.name, perm=perm), [product])


def gemm(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write one row as it is, several as MatMul and Add of float32."""
    flags = [bool(attribute(node, name, 0)) for name in ("transA", "transB")]
    alpha, beta = (np.float32(attribute(node, name, 1.0)) for name in ("alpha", "beta"))
    if not to.is_activation(node.input[0]) or any(to.is_activation(tensor) for tensor in node.input[1:]):
        _gemm_of_activations(to, node, flags, (alpha, beta))
        return
    rows, depth = to.shapes[node.input[0]][:: -1 if flags[0] else 1]
    width = to.shapes[node.output[0]][1]
    if rows == 1:
        to.write(node, [to.form(node.input[0], (depth,)), *node.input[1:]], (width,), {"transA": 0})
        return
    source = to.form(node.input[0])
    if flags[0]:
        source = to.add("Transpose", [source], perm=[0, 2, 1])
    weights, bias = to.required_values(node, 1), to.input_values(node, 2)
    weights = weights.T if flags[1] else weights
    factor = to.constant(weights if alpha == 1 else alpha * weights, weights.dtype)
    if bias is None:
        to.write(helper.make_node("MatMul", [], node.output, node.name), [source, factor])
        return
    product = to.add("MatMul", [source, factor])
    offset = to.constant(bias if beta == 1 else beta * bias, bias.dtype)
    to.write(helper.make_node("Add", [], node.output, node.name), [product, offset])


def _gemm_of_activations(
    to: Rewriting, node: onnx.NodeProto, flags: list[bool], factors: tuple[np.float32, np.float32]
) -> None:
    """Write a product of two activations, or of a constant first factor, as MatMul, Mul and Add."""
    sources = []
    for tensor, flag in zip(node.input[:2], flags, strict=True):
        source = to.form(tensor) if to.is_activation(tensor) else tensor
        if flag:
            perm = [0, 2, 1] if to.is_activation(tensor) else [1, 0]
            source = to.add("Transpose", [source], perm=perm)
        sources.append(source)
    terms = [to.add("MatMul", sources)]
    for bias in filter(None, node.input[2:]):
        own = stated(to.shape_of(bias))
        terms.append(to.form(bias, (1,) * (MATRIX - len(own)) + own) if to.is_activation(bias) else bias)
    scaled = []
    for term, factor in zip(terms, factors, strict=False):
        number = to.constant(factor, np.float32)
        scaled.append(term if factor == 1 else to.add("Mul", [term, number]))
    operator = "Add" if len(scaled) > 1 else "Identity"
    to.write(helper.make_node(operator, scaled, node.output, node.name), scaled)


def rows_of_codes(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write a product of codes with constant weights; one row is a vector."""
    shape = to.one_activation(node)
    if len(shape) == MATRIX and shape[0] == 1:
        width = to.shapes[node.output[0]][1]
        to.write(node, [to.form(node.input[0], shape[1:]), *node.input[1:]], (width,))
    elif len(shape) == MATRIX and node.op_type == "QGemm":
        images(to, node)
    else:
        to.write(node, to.own_forms(node))


def images(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write an operator with a batch axis of its own, the first of its input."""
    shape, result = to.one_activation(node), to.shapes[node.output[0]]
    if sum(map(bool, node.output)) > 1:
        raise to.refusal(node, "has several outputs", "one output")
    if len(shape) < 2 or result[:1] != shape[:1]:
        raise to.refusal(node, f"changes the first axis of its input, {shape}", "an axis that stays")
    if shape[0] == 1:
        to.write(node, [to.form(node.input[0], shape[1:]), *node.input[1:]], result[1:])
        return
    if shape[0] > MOST_COPIES:
        raise to.refusal(
            node, f"its own batch axis has {shape[0]} places, and each would be a node", f"up to {MOST_COPIES}"
        )
    sizes = to.constant([1] * shape[0])
    names = [to.free(f"{node.name}/part") for _ in range(shape[0])]
    to.nodes.append(helper.make_node("Split", [to.form(node.input[0]), sizes], names, names[0], axis=1))
    of_input, of_output = (to.constant(sizes) for sizes in ([0, *shape[1:]], [0, 1, *result[1:]]))
    results = []
    for name in names:
        copy = with_attributes(node)
        copy.input[0] = to.add("Reshape", [name, of_input])
        copy.name = copy.output[0] = to.free(f"{node.name}/place")
        to.nodes.append(copy)
        results.append(to.add("Reshape", [copy.output[0], of_output]))
    to.write(helper.make_node("Concat", results, node.output, node.name, axis=1), results)

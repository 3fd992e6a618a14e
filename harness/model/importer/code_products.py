"""Products of codes with several rows, or of two activations, as operators that layers read.

    QLinearMatMul of rows and constant weights    QLinearConv of windows of one value, between two Transposes
    QLinearMatMul of two activations              MatMul of the integers as float32, Mul, QuantizeLinear of scale 1

float32 has every integer up to 2^24: sums of products of codes within that are exact in each order, and the Mul is the
only rounding before that to codes, as in QLinearMatMul.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from harness.core.arrays import Array
from harness.model.importer.constants import facts_of
from harness.model.importer.replacement import Replacement, Unknown, replace_nodes
from harness.operators.tensor import FLOAT32

LARGEST_INTEGER = 1 << 24
MATRIX = 2
"""The axes of a matrix."""


def expand(model: onnx.ModelProto) -> None:
    """Write such nodes in place; raise RequestError for sums that float32 may round."""
    replace_nodes(model.graph, {"QLinearMatMul": _mat_mul}, facts_of(model))


def _mat_mul(to: Replacement, node: onnx.NodeProto) -> None:
    if to.values(node.input[3]) is None:
        _of_activations(to, node)
    elif len(to.shape(node.input[0])) > MATRIX:
        _of_rows(to, node)


def _of_rows(to: Replacement, node: onnx.NodeProto) -> None:
    """Add a QLinearConv along the rows, whose channels are the columns."""
    shape, weights, scale, zero_point = to.shape(node.input[0]), *(to.required(node, place) for place in (3, 4, 5))
    if weights.ndim != MATRIX or np.ptp(zero_point.astype(np.int64)):
        raise Unknown(node.name)
    depth, width = weights.shape
    rows = to.reshaped(node.input[0], (shape[0], to.size_of(node.input[0]) // depth // shape[0], depth))
    lead, count, _ = to.shape(rows)
    channels = to.add("Transpose", [rows], (lead, depth, count), perm=[0, 2, 1])
    kernels = to.constant(weights.T[..., None], weights.dtype)
    steps = [to.constant(scale.reshape(-1) if scale.size > 1 else scale.reshape(()), scale.dtype)]
    steps.append(to.constant(zero_point.reshape(-1)[0], zero_point.dtype))
    inputs = [channels, *node.input[1:3], kernels, *steps, *node.input[6:]]
    product = to.add("QLinearConv", inputs, (lead, width, count))
    result = to.add("Transpose", [product], (lead, count, width), perm=[0, 2, 1])
    to.reshaped(result, (*shape[:-1], width))


def _of_activations(to: Replacement, node: onnx.NodeProto) -> None:
    """Add a product of integers in float32, its multiplier and its rounding."""
    parameters = [to.required(node, place) for place in (1, 2, 4, 5, 6)]
    if any(values.size > 1 for values in parameters):
        raise to.refusal(node, "its factors have several scales", "one scale and one zero point for each activation")
    a_scale, a_zero_point, b_scale, b_zero_point, y_scale = (values.reshape(()) for values in parameters)
    depth, width = to.shape(node.input[3])[-2:]
    largest = depth * _largest(a_zero_point) * _largest(b_zero_point)
    if largest > LARGEST_INTEGER:
        raise to.refusal(
            node,
            f"its sums of {depth} products reach {largest:,}",
            f"sums of up to {LARGEST_INTEGER:,}: fewer products",
        )
    factors = [_integers(to, node.input[0], a_zero_point), _integers(to, node.input[3], b_zero_point)]
    multiplier = np.full(width, a_scale * b_scale / y_scale, FLOAT32)  # of one value, ONNX Runtime scales a factor
    values = to.add("Mul", [to.add("MatMul", factors), to.constant(multiplier, FLOAT32)])
    to.add("QuantizeLinear", [values, to.constant(1, FLOAT32), node.input[7]])


def _largest(zero_point: Array) -> int:
    """Return the greatest magnitude of a code less its zero point."""
    limits = np.iinfo(zero_point.dtype)
    return max(limits.max - int(zero_point), int(zero_point) - limits.min)


def _integers(to: Replacement, codes: str, zero_point: Array) -> str:
    """Add the codes less their zero point, as float32."""
    values = to.add("Cast", [codes], to=TensorProto.FLOAT)
    return to.add("Sub", [values, to.constant(zero_point, FLOAT32)]) if zero_point else values

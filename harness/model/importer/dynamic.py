"""Networks of onnxruntime.quantization.quantize_dynamic: the scale of an activation follows from its values.

    DynamicQuantizeLinear    the least and the greatest value of a vector, scale and zero point, and the codes
    MatMulInteger            MatMul of the codes less their zero points, as float32
    ConvInteger              Conv of the same; padding is the zero point, and so 0

All operations are those of ONNX's function of DynamicQuantizeLinear, on float32, for each vector alone.  float32 has
every integer up to 2^24: sums of products within that are exact in each order.  Others are added in parts, as int32.
A range below 2^-142, of which a 255th is 0, has the scale 2^-149 in the place of 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto

from harness.core.arrays import Array
from harness.model.graph import opsets_of
from harness.model.importer.constants import facts_of
from harness.model.importer.replacement import Replacement, Unknown, attributes_of, operators_of, replace_nodes
from harness.operators.node import NEWEST_OPSET
from harness.operators.tensor import FLOAT32, UINT8

EXACT = 1 << 24
"""Below it float32 has every integer."""
GREATEST = 255
"""The greatest code, and the greatest difference of a code and a zero point."""
LEAST_SCALE = 2.0**-149


@dataclass(eq=False)
class _Dynamic:
    """The rules; `centred` are codes less their zero points, as float32, by the codes and the zero point of the file.

    `products` are operator, inputs and attributes of the sums of a tensor of int32 that float32 has exactly.
    """

    opset: int
    centred: dict[tuple[str, str], str] = field(default_factory=dict)
    products: dict[str, onnx.NodeProto] = field(default_factory=dict)

    def quantise(self, to: Replacement, node: onnx.NodeProto) -> None:
        """Write the codes, the scale and the zero point of each vector, of the shape (vectors, 1, ...)."""
        [x], shape = node.input, to.shape(node.input[0])
        axes = [*range(shape[0] == 1, len(shape))]
        if not axes:
            raise Unknown(node.name)
        ends = (1,) * len(shape)
        zero, greatest = to.constant(0, FLOAT32), to.constant(GREATEST, FLOAT32)
        low = to.add("Min", [to.reduced("ReduceMin", x, axes, self.opset, ends), zero], ends)
        high = to.add("Max", [to.reduced("ReduceMax", x, axes, self.opset, ends), zero], ends)
        width = to.add("Sub", [high, low], ends)
        step = to.add("Max", [to.add("Div", [width, greatest], ends), to.constant(LEAST_SCALE, FLOAT32)], ends)
        is_empty = to.add("Equal", [width, zero], ends, np.bool_)
        codes, scale, zero_point = node.output
        to.add("Where", [is_empty, to.constant(1, FLOAT32), step], ends, FLOAT32, output=scale)
        place = to.add("Sub", [zero, to.add("Div", [low, scale], ends)], ends)
        offset = to.add("Round", [to.add("Clip", [place, zero, greatest], ends)], ends)
        nearest = to.add("Round", [to.add("Div", [x, scale], shape)], shape)
        code = to.add("Clip", [to.add("Add", [nearest, offset], shape), zero, greatest], shape)
        self.centred[codes, zero_point] = to.add("Sub", [code, offset], shape)
        to.add("Cast", [offset], ends, UINT8, output=zero_point, to=TensorProto.UINT8)
        to.add("Cast", [code], shape, UINT8, output=codes, to=TensorProto.UINT8)

    def multiply(self, to: Replacement, node: onnx.NodeProto) -> None:
        """Write the sums of products of codes of a quantiser above and constant weights."""
        codes = (node.input[0], node.input[2] if len(node.input) > 2 else "")
        if codes not in self.centred and codes[1] in {zero_point for _, zero_point in self.centred}:
            raise to.refusal(node, "its codes are moved behind DynamicQuantizeLinear", "a move of the floats before it")
        if codes not in self.centred:
            raise Unknown(node.name)
        is_image = node.op_type == "ConvInteger"
        operator, axis, stated = ("Conv", 1, attributes_of(node)) if is_image else ("MatMul", 0, {})
        weights = _centred_weights(to, node)
        parts = [weights] if stated.get("group", 1) > 1 else _parts(weights, axis)
        if any(_largest(part, axis) >= EXACT for part in parts):
            raise to.refusal(node, f"a sum can reach {_largest(weights, axis):,}", f"sums below {EXACT:,} in groups")
        source, first, sums = self.centred[codes], 0, list[str]()
        for part in parts:
            limits = first, first + part.shape[axis], axis if is_image else -1
            taken = [to.add("Slice", [source, *(to.constant([limit]) for limit in limits)])] if parts[1:] else [source]
            sums.append(to.add(operator, [*taken, to.constant(part, FLOAT32)], **stated))
            first = limits[1]
        if not parts[1:]:
            self.products[node.output[0]] = to.nodes[-1]
        total, *others = (to.add("Cast", [part], to=TensorProto.INT32) for part in sums)
        for other in others:
            total = to.add("Add", [total, other])
        to.nodes[-1].output[0] = node.output[0]

    def cast(self, to: Replacement, node: onnx.NodeProto) -> None:
        """Write the product itself in the place of a Cast of its int32 numbers to float32."""
        if node.input[0] not in self.products or attributes_of(node)["to"] != TensorProto.FLOAT:
            raise Unknown(node.name)
        product = self.products[node.input[0]]
        to.add(product.op_type, product.input, **attributes_of(product))


def _centred_weights(to: Replacement, node: onnx.NodeProto) -> Array:
    """Return constant weights less their zero points; raise RequestError for others."""
    weights, is_image = to.values(node.input[1]), node.op_type == "ConvInteger"
    zero_point = to.values(node.input[3]) if len(node.input) > 3 else np.zeros((), np.int64)
    if weights is None or zero_point is None or (weights.ndim != 2 and not is_image):
        raise to.refusal(node, "its second factor is no constant matrix", "an activation and constant weights")
    if zero_point.size > 1 and is_image:
        zero_point = zero_point.reshape(-1, *(1,) * (weights.ndim - 1))
    return weights.astype(np.int64) - zero_point.astype(np.int64)


def _largest(weights: Array, axis: int) -> int:
    """Return the greatest magnitude of a sum along the axis, and along axes behind it that are not outputs."""
    summed = tuple(range(1, weights.ndim)) if axis else 0
    return int(np.abs(weights).sum(axis=summed).max()) * GREATEST


def _parts(weights: Array, axis: int) -> list[Array]:
    """Return parts of the weights along the summed axis, halved until float32 has their sums or their length is 1."""
    length = weights.shape[axis]
    if _largest(weights, axis) < EXACT or length == 1:
        return [weights]
    halves = np.split(weights, [length // 2], axis)
    return [part for half in halves for part in _parts(half, axis)]


def expand(model: onnx.ModelProto) -> list[str]:
    """Write such nodes in place; return the operators of the quantisers."""
    if all(node.op_type != "DynamicQuantizeLinear" for node in model.graph.node):
        return []
    dynamic = _Dynamic(opsets_of(model).get("", NEWEST_OPSET))
    rules = {
        "DynamicQuantizeLinear": dynamic.quantise,
        "MatMulInteger": dynamic.multiply,
        "ConvInteger": dynamic.multiply,
        "Cast": dynamic.cast,
    }
    return operators_of(replace_nodes(model.graph, rules, facts_of(model)))

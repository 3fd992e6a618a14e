"""An already quantised ONNX network -> the form that harness.model.parse accepts, of the same value bit for bit.

    QGemm                                                     unchanged
    QLinearMatMul                                             QGemm without bias: its multiplier is the same,
                                                              (a_scale * b_scale) / y_scale in float32
    QGemm [Add float32] [Relu] QuantizeLinear                 QGemm with float32 output, Add, QuantizeLinear
    DequantizeLinear Gemm [Relu] QuantizeLinear (QDQ)         QGemm, as which ONNX Runtime runs it

A ReLU before a QuantizeLinear whose zero point is the least code has no effect and is omitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.importer import qdq
from harness.model.importer.conversion import (
    CODES,
    INT32,
    Conversion,
    Output,
    factors,
    int32_bias,
    leave_out_relu,
    output_quantisation,
    require_weights_on_the_right,
    scalar,
)
from harness.model.importer.graph import MOVES, SIZES, Graph, Link, matrix
from harness.operators.node import Node, domain_of
from harness.operators.tensor import FLOAT32

ACCEPTED = (
    "accepted: QuantizeLinear, QGemm, QLinearMatMul, MatMulInteger, QDQ of Gemm and MatMul, Relu, DequantizeLinear"
)


@dataclass(frozen=True, eq=False)
class Canonical:
    """The converted model; its 8-bit tensors have the names that they have in the file.

    `codes` are those names; `from_qdq` says that the file's own value depends on ONNX Runtime's fusion, `int8_groups`
    that it is the value of a session with this option.
    """

    model: onnx.ModelProto
    codes: tuple[str, ...]
    from_qdq: bool
    notes: tuple[str, ...]
    int8_groups: bool = False


def is_known(node: Node) -> bool:
    """Return whether a chain of dense layers may have the node."""
    operator = (domain_of(node.proto), node.operator)
    return operator in READERS or (operator[0] == "" and node.operator in MOVES)


def canonical(graph: Graph) -> Canonical:
    """Convert a quantised model.

    Raises RequestError, with the node, the reason and the accepted alternatives, where a value could change.
    """
    for node in graph.nodes:
        if not is_known(node):
            raise node.refusal("is no part of a chain of dense layers", ACCEPTED)
    if graph.dtype != FLOAT32:
        raise RequestError(f"model {graph.name!r}: the input is {graph.dtype}", "float32 vectors")
    if sum(size > 1 for size in graph.input_shape) > 1:  # an image: its operators keep its axes
        raise RequestError(f"model {graph.name!r}: input {graph.input_name!r} has shape {graph.input_shape}", SIZES)
    conversion = Conversion(graph)
    if not conversion.links:
        raise RequestError(f"model {graph.name!r} has no layer that computes", ACCEPTED)
    first = conversion.links[0]
    if first.operator != ("", "QuantizeLinear"):
        raise first.node.refusal("reads the network's input", "a network starts with QuantizeLinear on its input")
    while conversion.links:
        link = conversion.links.popleft()
        READERS[link.operator](conversion, link)
    return Canonical(conversion.model(), conversion.codes(), conversion.from_qdq, tuple(conversion.notes))


def _qgemm(conversion: Conversion, link: Link) -> None:
    require_weights_on_the_right(link)
    node = link.node
    node.require_inputs(6, 9)
    attributes = node.attributes({"alpha": 1.0, "transA": 0, "transB": 0})
    a = scalar(link.node, 1, "scale of a", [FLOAT32]), scalar(link.node, 2, "zero point of a", CODES)
    weight = matrix(link, node.constant(3, "weight", CODES))
    scale, zero_point = node.constant(4, "scale of b", [FLOAT32]), node.constant(5, "zero point of b", CODES)
    bias = int32_bias(link, node.constant(6, "bias", [INT32])) if node.has(6) else None
    output = Output(link.output)
    if node.has(7) and node.has(8):
        output = Output(
            link.output, scalar(link.node, 7, "scale of y", [FLOAT32]), scalar(link.node, 8, "zero point of y", CODES)
        )
    elif node.has(7) or node.has(8):
        raise node.refusal("has only one of y_scale and y_zero_point", "both, or none for a float32 output")
    made = factors(link, a, weight, scale, zero_point)
    conversion.emit_qgemm(link, made, bias, output, float(attributes["alpha"]))
    conversion.float_product = output.scale is None


def _qlinear_matmul(conversion: Conversion, link: Link) -> None:
    require_weights_on_the_right(link)
    node = link.node
    node.require_inputs(8, 8)
    a = scalar(link.node, 1, "scale of a", [FLOAT32]), scalar(link.node, 2, "zero point of a", CODES)
    weight = matrix(link, node.constant(3, "weight", CODES))
    scale, zero_point = node.constant(4, "scale of b", [FLOAT32]), node.constant(5, "zero point of b", CODES)
    output = Output(
        link.output, scalar(link.node, 6, "scale of y", [FLOAT32]), scalar(link.node, 7, "zero point of y", CODES)
    )
    conversion.emit_qgemm(link, factors(link, a, weight, scale, zero_point), None, output)
    conversion.notes.append(f"QLinearMatMul {node.name!r} is a QGemm without bias")


def _add(conversion: Conversion, link: Link) -> None:
    if not conversion.float_product:
        raise link.node.refusal(
            "adds to values that were rounded to codes already: no QGemm has that value",
            "MatMul and Add written as one Gemm before quantising, or no rounding to codes between product and bias",
        )
    dtype, width = conversion.types[conversion.source]
    addend = link.node.constant(1 - link.position, "bias", [FLOAT32])
    addend = np.ascontiguousarray(np.broadcast_to(addend, link.output_shape)).reshape(-1)
    conversion.emit("Add", link, {"bias": addend}, link.output)
    conversion.types[link.output] = (dtype, width)


def _input_quantisation(link: Link, codes: np.dtype[Any]) -> tuple[Array, Array]:
    """Return scale and zero point of a DequantizeLinear on activations, of shape () each."""
    attributes = link.node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    if attributes["block_size"] or attributes["output_dtype"] not in (0, TensorProto.FLOAT):
        raise link.node.refusal("dequantises blocks, or not to float32", "one float32 scale for the tensor")
    scale = scalar(link.node, 1, "scale", [FLOAT32])
    return scale, scalar(link.node, 2, "zero point", [codes]) if link.node.has(2) else np.zeros((), codes)


def _quantize_linear(conversion: Conversion, link: Link) -> None:
    scale, zero_point = output_quantisation(link.node)
    width = conversion.types[conversion.source][1]
    conversion.emit("QuantizeLinear", link, {"scale": scale, "zero_point": zero_point}, link.output)
    conversion.types[link.output] = (zero_point.dtype, width)
    conversion.float_product = False


def _dequantize_linear(conversion: Conversion, link: Link) -> None:
    scale, zero_point = _input_quantisation(link, conversion.types[conversion.source][0])
    if conversion.follows("MatMul", "Gemm"):
        qdq.read(conversion, (scale, zero_point))
        return
    relu = 1 if conversion.follows("Relu") else 0
    following = conversion.links[relu] if len(conversion.links) > relu else None
    if following is not None and following.operator == ("", "QuantizeLinear"):
        if relu:
            leave_out_relu(conversion, conversion.links.popleft())
        if (
            _undoes(output_quantisation(following.node), (scale, zero_point))
            and link.output not in conversion.graph.outputs
        ):
            conversion.alias[conversion.links.popleft().output] = conversion.source
            return
    _, width = conversion.types[conversion.source]
    conversion.emit("DequantizeLinear", link, {"scale": scale, "zero_point": zero_point}, link.output)
    conversion.types[link.output] = (FLOAT32, width)


def _undoes(quantise: tuple[Array, Array], dequantise: tuple[Array, Array]) -> bool:
    """Return whether q(d(code)) is the code: the same constants, and no product beyond float32."""
    same = quantise[0] == dequantise[0] and quantise[1] == dequantise[1] and quantise[1].dtype == dequantise[1].dtype
    return bool(same and 255.0 * float(quantise[0]) <= np.finfo(np.float32).max)


def _arg_extremum(conversion: Conversion, link: Link) -> None:
    attributes = link.node.attributes({"axis": 0, "keepdims": 1, "select_last_index": 0})
    if math.prod(link.shape) != link.shape[attributes["axis"]]:
        raise link.node.refusal(
            f"looks along axis {attributes['axis']} of shape {link.shape}", "the axis of the vector's values"
        )
    last = attributes["select_last_index"]
    conversion.emit(link.node.operator, link, {}, link.output, axis=1, keepdims=1, select_last_index=last)
    conversion.types[link.output] = (np.dtype(np.int64), 1)
    if conversion.links:
        raise conversion.links[0].node.refusal(f"comes after {link.node.name!r}", "ArgMax or ArgMin is the last node")


def _stray(_conversion: Conversion, link: Link) -> None:
    raise link.node.refusal("is not part of a known pattern", ACCEPTED)


READERS: dict[tuple[str, str], Callable[[Conversion, Link], None]] = {
    ("", "QuantizeLinear"): _quantize_linear,
    ("com.microsoft", "QGemm"): _qgemm,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "DequantizeLinear"): _dequantize_linear,
    ("", "Add"): _add,
    ("", "Relu"): leave_out_relu,
    ("", "ArgMax"): _arg_extremum,
    ("", "ArgMin"): _arg_extremum,
    **dict.fromkeys([("", "Gemm"), ("", "MatMul"), ("", "Mul"), ("", "Cast")], _stray),
}

"""One reader an operator: a node of the graph -> a layer, or a refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from harness.core.arrays import Array
from harness.operators.layers import (
    FLOAT32,
    INT8,
    INT64,
    UINT8,
    Add,
    ArgExtremum,
    DequantizeLinear,
    Layer,
    QGemm,
    QuantizeLinear,
    Scales,
    accumulator_bounds,
)
from harness.operators.node import Node, Tensor, element_type

CODE_TYPES = {onnx.TensorProto.UINT8: UINT8, onnx.TensorProto.INT8: INT8}


def _layer(node: Node, sources: Sequence[Tensor], width: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The fields that all layers have."""
    return {
        "name": node.name,
        "node": node.name,
        "operator": node.operator,
        "sources": tuple(source.name for source in sources),
        "output": node.proto.output[0],
        "input_width": sources[0].width,
        "input_dtype": sources[0].dtype,
        "width": width,
        "dtype": dtype,
    }


def _require_per_tensor(node: Node, attributes: Mapping[str, Any], output_types: Sequence[int]) -> None:
    """No blocks, and the element type that ONNX gives by default or one of `output_types`."""
    if attributes["block_size"] != 0:
        raise node.refusal(f"block_size is {attributes['block_size']}", "per-tensor quantisation: no block_size")
    for name, accepted in (("output_dtype", output_types), ("precision", (0, onnx.TensorProto.FLOAT))):
        if attributes.get(name, 0) not in (0, *accepted):
            kinds = " or ".join(element_type(kind) for kind in accepted if kind)
            raise node.refusal(f"{name} is {attributes[name]}", f"{kinds}, or none")


def _quantize_linear(node: Node) -> QuantizeLinear:
    node.require_inputs(2, 3)
    source = node.activation(0, [FLOAT32])
    # `axis` and `saturate` say nothing about per-tensor 8-bit integers.
    attributes = node.attributes({"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0})
    _require_per_tensor(node, attributes, list(CODE_TYPES))
    asked = CODE_TYPES.get(attributes["output_dtype"])
    zero_point = node.single(2, "zero point", [UINT8, INT8]) if node.has(2) else np.zeros((), asked or UINT8)[()]
    if asked not in (None, zero_point.dtype):
        raise node.refusal(f"output_dtype is {asked}, the zero point {zero_point.dtype}", "give both the same type")
    scale = node.scale(1, "scale")
    fields = _layer(node, [source], source.width, zero_point.dtype)
    return QuantizeLinear(**fields, scale=scale, zero_point=int(zero_point))


def _dequantize_linear(node: Node) -> DequantizeLinear:
    node.require_inputs(2, 3)
    if node.inputs[0] in node.constants:
        raise node.refusal(
            f"dequantises the constant {node.inputs[0]!r}, as models of the QDQ format do",
            "harness models import FILE -o NAME writes it with QGemm, if that keeps its value",
        )
    source = node.activation(0, [UINT8, INT8])
    attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    _require_per_tensor(node, attributes, [onnx.TensorProto.FLOAT])
    zero_point = int(node.single(2, "zero point", [source.dtype])) if node.has(2) else 0
    fields = _layer(node, [source], source.width, FLOAT32)
    layer = DequantizeLinear(**fields, scale=node.scale(1, "scale"), zero_point=zero_point)
    if not math.isfinite(_magnitude(layer, [source])):
        raise node.refusal(f"255 codes of scale {layer.scale:.8g} overflow", "a scale of 1.3e36 at most")
    return layer


def _arg_extremum(node: Node) -> ArgExtremum:
    node.require_inputs(1, 1)
    source = node.activation(0, [UINT8, INT8, FLOAT32])
    attributes = node.attributes({"axis": 0, "keepdims": 1, "select_last_index": 0})
    if attributes["axis"] not in (1, -1):
        raise node.refusal(f"axis is {attributes['axis']}", "axis 1 or -1: the values of one vector")
    fields = _layer(node, [source], 1, INT64)
    return ArgExtremum(**fields, largest=node.operator == "ArgMax", last=bool(attributes["select_last_index"]))


def _qgemm(node: Node) -> QGemm:
    node.require_inputs(6, 9)
    source = node.activation(0, [UINT8, INT8])
    attributes = node.attributes({"alpha": 1.0, "transA": 0, "transB": 0})
    if attributes["transA"]:
        raise node.refusal("transA is 1", "transA 0: a vector is a row")
    weights = _weights(node, source, transposed=bool(attributes["transB"]))
    b_scale, weights_zero_point = _weight_quantisation(node, weights)
    y_scale, y_zero_point = _output_quantisation(node, source)
    scales = Scales(
        alpha=np.float32(attributes["alpha"]),
        a=node.scale(1, "scale of a"),
        b=np.broadcast_to(b_scale.reshape(-1), weights.shape[1]),
        y=y_scale,
    )
    layer = QGemm(
        **_layer(node, [source], weights.shape[1], FLOAT32 if y_scale is None else source.dtype),
        weights=weights,
        weights_zero_point=np.broadcast_to(weights_zero_point, weights.shape[1]).astype(np.int32),
        bias=_bias(node, weights.shape[1]),
        multiplier=_multiplier(node, scales),
        scales=scales,
        a_zero_point=int(node.single(2, "zero point of a", [source.dtype])),
        y_zero_point=y_zero_point,
        per_column=b_scale.size > 1,
    )
    _require_int32_accumulator(node, layer)
    return layer


def _weights(node: Node, source: Tensor, *, transposed: bool) -> Array:
    """B as (K, N), of a type that ONNX Runtime multiplies with the input's."""
    accepted = [UINT8, INT8] if source.dtype == UINT8 else [INT8]
    weights = node.constant(3, f"weight for a {source.dtype} input", accepted)
    if weights.ndim == 2 and transposed:
        weights = np.ascontiguousarray(weights.T)
    if weights.ndim != 2 or weights.shape[0] != source.width or weights.size == 0:
        shape = "(N, K)" if transposed else "(K, N)"
        raise node.refusal(
            f"the weights have shape {node.constants[node.inputs[3]].shape}, the input has width {source.width}",
            f"shape {shape} with K = {source.width} and N of 1 or more",
        )
    return weights


def _weight_quantisation(node: Node, weights: Array) -> tuple[Array, Array]:
    """b_scale and b_zero_point: both of shape (), (1,) or (N,), as ONNX Runtime wants them."""
    scale = node.normal(node.constant(4, "scale of b", [FLOAT32]), "scale of b")
    zero_point = node.constant(5, "zero point of b", [weights.dtype])
    if scale.shape != zero_point.shape or scale.shape not in ((), (1,), (weights.shape[1],)):
        raise node.refusal(
            f"scale and zero point of b have shapes {scale.shape} and {zero_point.shape}",
            f"the same shape for both: (), (1,) or ({weights.shape[1]},)",
        )
    return scale, zero_point


def _bias(node: Node, width: int) -> npt.NDArray[np.int32]:
    if not node.has(6):
        return np.zeros(width, np.int32)
    bias = node.constant(6, "bias", [np.dtype(np.int32)])
    if bias.shape not in ((), (1,), (width,), (1, width)):
        raise node.refusal(f"the bias has shape {bias.shape}", f"shape (), (1,), ({width},) or (1, {width})")
    return np.broadcast_to(bias.reshape(-1), width).astype(np.int32)


def _output_quantisation(node: Node, source: Tensor) -> tuple[np.float32 | None, int]:
    """y_scale and y_zero_point; (None, 0) for a float32 output."""
    if node.has(7) != node.has(8):
        raise node.refusal(
            "has only one of y_scale and y_zero_point", f"both, for a {source.dtype} output, or none, for float32"
        )
    if not node.has(7):
        return None, 0
    return node.scale(7, "scale of y"), int(node.single(8, "zero point of y", [source.dtype]))


def _multiplier(node: Node, scales: Scales) -> npt.NDArray[np.float32]:
    """m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale, every operation rounded to float32."""
    with np.errstate(all="ignore"):  # what overflows or underflows is refused below
        multiplier = (scales.alpha * scales.a) * scales.b
        if scales.y is not None:
            multiplier = multiplier / scales.y
    node.normal(multiplier, "multiplier alpha * a_scale * b_scale / y_scale")
    return multiplier


def _require_int32_accumulator(node: Node, layer: QGemm) -> None:
    """Refuse what could wrap; one value is kept free above, for a threshold that is never reached."""
    low, high = accumulator_bounds(layer)
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max - 1
    for column in np.flatnonzero((low < least) | (high > most)):
        raise node.refusal(
            f"the accumulator of column {column} can reach {low[column]} to {high[column]}",
            f"at most {least} to {most}, the range of int32: fewer inputs or a smaller bias",
        )


def _add(node: Node) -> Add:
    node.require_inputs(2, 2)
    node.attributes({})
    sources = [node.activation(i, [FLOAT32]) for i, name in enumerate(node.inputs) if name not in node.constants]
    if not sources:
        raise node.refusal("adds two constants", "the results of two nodes, or of one and a constant")
    if len({source.width for source in sources}) > 1:
        raise node.refusal(f"its inputs have widths {sources[0].width} and {sources[1].width}", "the same width twice")
    addend = _addend(node, sources[0].width) if len(sources) == 1 else None
    layer = Add(**_layer(node, sources, sources[0].width, FLOAT32), addend=addend)
    if not math.isfinite(_magnitude(layer, sources)):
        reaches = " and ".join(f"{source.name!r} {source.magnitude:.8g}" for source in sources)
        raise node.refusal(
            f"its sum can overflow: the terms can reach {reaches}", "terms whose sum stays below 3.4028235e+38"
        )
    return layer


def _addend(node: Node, width: int) -> npt.NDArray[np.float32]:
    """The constant term of an Add, whichever of the two it is: addition is commutative to the bit."""
    position = next(i for i, name in enumerate(node.inputs) if name in node.constants)
    addend = node.constant(position, "addend", [FLOAT32])
    if addend.shape not in ((), (1,), (width,), (1, width)):
        raise node.refusal(f"the addend has shape {addend.shape}", f"shape (), (1,), ({width},) or (1, {width})")
    if not np.isfinite(addend).all():
        raise node.refusal(f"the addend holds {addend[~np.isfinite(addend)].flat[0]}", "finite numbers")
    return np.broadcast_to(addend.reshape(-1), width).astype(np.float32)


def written(layer: Layer, sources: Sequence[Tensor]) -> Tensor:
    """The tensor that `layer` writes where it reads `sources`."""
    return Tensor(layer.output, layer.width, layer.dtype, _magnitude(layer, sources))


def _magnitude(layer: Layer, sources: Sequence[Tensor]) -> float:
    """No |y| is larger: the layer's own operations on the largest magnitudes, whose order no rounding changes."""
    with np.errstate(over="ignore"):
        if isinstance(layer, Add):
            terms = [np.float32(source.magnitude) for source in sources]
            return float(terms[0] + (terms[1] if layer.addend is None else np.abs(layer.addend).max()))
        if isinstance(layer, DequantizeLinear):
            return float(np.float32(255) * layer.scale)
        if isinstance(layer, QGemm) and layer.dtype == FLOAT32:
            largest = np.maximum(*map(np.abs, accumulator_bounds(layer)))
            return float((largest.astype(np.float32) * layer.multiplier).max())
    return math.inf


OPERATORS: dict[tuple[str, str], Callable[[Node], Layer]] = {
    ("", "QuantizeLinear"): _quantize_linear,
    ("com.microsoft", "QGemm"): _qgemm,
    ("", "Add"): _add,
    ("", "DequantizeLinear"): _dequantize_linear,
    ("", "ArgMax"): _arg_extremum,
    ("", "ArgMin"): _arg_extremum,
}

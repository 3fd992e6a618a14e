"""One reader an operator: a node of the graph -> a layer, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from harness.network.layers import (
    FLOAT32,
    INT8,
    INT64,
    UINT8,
    ArgExtremum,
    Array,
    DequantizeLinear,
    Layer,
    QGemm,
    QuantizeLinear,
    accumulator_bounds,
)
from harness.network.node import Node, Tensor, element_type

CODE_TYPES = {onnx.TensorProto.UINT8: UINT8, onnx.TensorProto.INT8: INT8}


def _layer(node: Node, source: Tensor, width: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The fields that all layers have."""
    return {
        "name": node.name,
        "node": node.name,
        "operator": node.operator,
        "source": source.name,
        "output": node.proto.output[0],
        "input_width": source.width,
        "input_dtype": source.dtype,
        "width": width,
        "dtype": dtype,
    }


def _require_source(node: Node, source: Tensor, dtypes: Sequence[np.dtype[Any]]) -> None:
    if source.dtype not in dtypes:
        raise node.refusal(f"its input {source.name!r} is {source.dtype}", f"it reads {' or '.join(map(str, dtypes))}")


def _require_per_tensor(node: Node, attributes: Mapping[str, Any], output_types: Sequence[int]) -> None:
    """No blocks, and the element type that ONNX gives by default or one of `output_types`."""
    if attributes["block_size"] != 0:
        raise node.refusal(f"block_size is {attributes['block_size']}", "per-tensor quantisation: no block_size")
    for name, accepted in (("output_dtype", output_types), ("precision", (0, onnx.TensorProto.FLOAT))):
        if attributes.get(name, 0) not in (0, *accepted):
            kinds = " or ".join(element_type(kind) for kind in accepted if kind)
            raise node.refusal(f"{name} is {attributes[name]}", f"{kinds}, or none")


def _quantize_linear(node: Node, source: Tensor) -> QuantizeLinear:
    _require_source(node, source, [FLOAT32])
    node.require_inputs(2, 3)
    # `axis` and `saturate` say nothing about per-tensor 8-bit integers.
    attributes = node.attributes({"axis": 1, "saturate": 1, "block_size": 0, "output_dtype": 0, "precision": 0})
    _require_per_tensor(node, attributes, list(CODE_TYPES))
    asked = CODE_TYPES.get(attributes["output_dtype"])
    zero_point = node.single(2, "zero point", [UINT8, INT8]) if node.has(2) else np.zeros((), asked or UINT8)[()]
    if asked not in (None, zero_point.dtype):
        raise node.refusal(f"output_dtype is {asked}, the zero point {zero_point.dtype}", "give both the same type")
    scale = node.scale(1, "scale")
    fields = _layer(node, source, source.width, zero_point.dtype)
    return QuantizeLinear(**fields, scale=scale, zero_point=int(zero_point))


def _dequantize_linear(node: Node, source: Tensor) -> DequantizeLinear:
    _require_source(node, source, [UINT8, INT8])
    node.require_inputs(2, 3)
    attributes = node.attributes({"axis": 1, "block_size": 0, "output_dtype": 0})
    _require_per_tensor(node, attributes, [onnx.TensorProto.FLOAT])
    zero_point = int(node.single(2, "zero point", [source.dtype])) if node.has(2) else 0
    fields = _layer(node, source, source.width, FLOAT32)
    return DequantizeLinear(**fields, scale=node.scale(1, "scale"), zero_point=zero_point)


def _arg_extremum(node: Node, source: Tensor) -> ArgExtremum:
    _require_source(node, source, [UINT8, INT8, FLOAT32])
    node.require_inputs(1, 1)
    attributes = node.attributes({"axis": 0, "keepdims": 1, "select_last_index": 0})
    if attributes["axis"] not in (1, -1):
        raise node.refusal(f"axis is {attributes['axis']}", "axis 1 or -1: the values of one vector")
    fields = _layer(node, source, 1, INT64)
    return ArgExtremum(**fields, largest=node.operator == "ArgMax", last=bool(attributes["select_last_index"]))


def _qgemm(node: Node, source: Tensor) -> QGemm:
    _require_source(node, source, [UINT8, INT8])
    node.require_inputs(6, 9)
    attributes = node.attributes({"alpha": 1.0, "transA": 0, "transB": 0})
    if attributes["transA"]:
        raise node.refusal("transA is 1", "transA 0: a vector is a row")
    weights = _weights(node, source, transposed=bool(attributes["transB"]))
    b_scale, weights_zero_point = _weight_quantisation(node, weights)
    y_scale, y_zero_point = _output_quantisation(node, source)
    layer = QGemm(
        **_layer(node, source, weights.shape[1], FLOAT32 if y_scale is None else source.dtype),
        weights=weights,
        weights_zero_point=np.broadcast_to(weights_zero_point, weights.shape[1]).astype(np.int32),
        bias=_bias(node, weights.shape[1]),
        multiplier=_multiplier(node, np.float32(attributes["alpha"]), b_scale, y_scale, weights.shape[1]),
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


def _multiplier(
    node: Node, alpha: np.float32, b_scale: Array, y_scale: np.float32 | None, width: int
) -> npt.NDArray[np.float32]:
    """m[n] = ((alpha * a_scale) * b_scale[n]) / y_scale, every operation rounded to float32."""
    with np.errstate(all="ignore"):  # what overflows or underflows is refused below
        multiplier = (alpha * node.scale(1, "scale of a")) * b_scale.reshape(-1)
        if y_scale is not None:
            multiplier = multiplier / y_scale
    node.normal(multiplier, "multiplier alpha * a_scale * b_scale / y_scale")
    return np.broadcast_to(multiplier, width).astype(np.float32)


def _require_int32_accumulator(node: Node, layer: QGemm) -> None:
    """Refuse what could wrap; one value is kept free above, for a threshold that is never reached."""
    low, high = accumulator_bounds(layer)
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max - 1
    for column in np.flatnonzero((low < least) | (high > most)):
        raise node.refusal(
            f"the accumulator of column {column} can reach {low[column]} to {high[column]}",
            f"at most {least} to {most}, the range of int32: fewer inputs or a smaller bias",
        )


OPERATORS: dict[tuple[str, str], Callable[[Node, Tensor], Layer]] = {
    ("", "QuantizeLinear"): _quantize_linear,
    ("com.microsoft", "QGemm"): _qgemm,
    ("", "DequantizeLinear"): _dequantize_linear,
    ("", "ArgMax"): _arg_extremum,
    ("", "ArgMin"): _arg_extremum,
}

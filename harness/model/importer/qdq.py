"""A product between DequantizeLinear and QuantizeLinear (QDQ), taken for the QGemm as which ONNX Runtime runs it.

ONNX Runtime fuses such a group and looks neither at the scale and zero point of the bias nor at the axis along which
the weights have their scales; what it would so misread is refused here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.model.importer.conversion import (
    INT32,
    Conversion,
    Factors,
    Output,
    factors,
    int32_bias,
    leave_out_relu,
    output_quantisation,
    require_weights_on_the_right,
)
from harness.model.importer.graph import Dequantised, Link, matrix
from harness.operators.tensor import FLOAT32


def read(conversion: Conversion, a: tuple[Array, Array]) -> None:
    """Convert the product that follows, with its bias; `a` are scale and zero point of the codes that it reads."""
    product = conversion.links.popleft()
    require_weights_on_the_right(product)
    attributes = _attributes(product)
    weights = _weights(conversion, product)
    if weights.scale.size > 1:
        _require_axis(weights, 0 if attributes["transB"] else 1)
    made = factors(product, a, matrix(product, weights.codes), weights.scale, weights.zero_point)
    bias, last = _bias(conversion, product)
    if bias is not None:
        _require_no_factor(product, attributes)
        _require_bias_scale(bias, made)
    conversion.emit_qgemm(
        product,
        made,
        None if bias is None else int32_bias(last, bias.codes),
        _output(conversion, last),
        float(attributes["alpha"]),
    )
    conversion.from_qdq = True


def _output(conversion: Conversion, last: Link) -> Output:
    """Return the codes of the QuantizeLinear after the product, or float32 values without one."""
    if conversion.follows("Relu"):
        leave_out_relu(conversion, conversion.links.popleft())
    if not conversion.follows("QuantizeLinear"):
        return Output(last.output)
    quantize = conversion.links.popleft()
    return Output(quantize.output, *output_quantisation(quantize.node))


def _attributes(product: Link) -> dict[str, Any]:
    return product.node.attributes({"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0})


def _weights(conversion: Conversion, product: Link) -> Dequantised:
    name = product.node.inputs[1]
    if name not in conversion.graph.dequantised:
        raise product.node.refusal(
            f"its weights {name!r} are not quantised: onnxruntime would compute it in float32",
            "weights stored as int8 or uint8 before a DequantizeLinear",
        )
    return conversion.graph.dequantised[name]


def _require_axis(weights: Dequantised, axis: int) -> None:
    """Require one scale for each output of the product."""
    if weights.axis % weights.codes.ndim != axis:
        raise weights.node.refusal(
            f"has its scales along axis {weights.axis} of the weights, the inputs; onnxruntime would take them for the "
            "outputs' all the same",
            f"axis {axis}, one scale for each output",
        )


def _bias(conversion: Conversion, product: Link) -> tuple[Dequantised | None, Link]:
    """Return the bias, of the product itself or of an Add after it, and the node that adds it."""
    last, name = product, product.node.inputs[2] if product.node.has(2) else ""
    if not name and conversion.follows("Add"):
        last = conversion.links.popleft()
        name = last.node.inputs[1 - last.position]
    if name and name not in conversion.graph.dequantised:
        raise last.node.refusal(
            f"the bias {name!r} is float32: onnxruntime would round it to int32 multiples of a_scale * b_scale",
            "a bias stored as int32 before a DequantizeLinear of that scale",
        )
    return conversion.graph.dequantised.get(name), last


def _require_no_factor(product: Link, attributes: dict[str, Any]) -> None:
    if attributes["alpha"] != 1 or attributes["beta"] != 1:
        raise product.node.refusal(
            f"has a bias, alpha {attributes['alpha']:g} and beta {attributes['beta']:g}: onnxruntime would compute it "
            "in float32 (and releases up to 1.26 multiplied the bias by alpha)",
            "alpha 1 and beta 1; put the factors into the scales",
        )


def _require_bias_scale(bias: Dequantised, made: Factors) -> None:
    """Require a bias with exactly the scale float32(a_scale * b_scale) and zero point 0."""
    if bias.codes.dtype != INT32 or bias.zero_point.any():
        raise bias.node.refusal(
            f"the bias is {bias.codes.dtype} with zero point {bias.zero_point.reshape(-1)[0]}; onnxruntime would take "
            "it for int32 with zero point 0 all the same",
            "an int32 bias with zero point 0",
        )
    width = made.weight.shape[1]
    with np.errstate(over="ignore"):  # refused as a multiplier
        expected = np.broadcast_to(made.a_scale * made.b_scale, width).astype(FLOAT32)
    given = np.broadcast_to(bias.scale.reshape(-1), width)
    wrong = np.flatnonzero(given != expected)
    if wrong.size:
        raise bias.node.refusal(
            f"the scale of the bias is {given[wrong[0]]!s}, a_scale * b_scale is {expected[wrong[0]]!s}; onnxruntime "
            "would compute with a_scale * b_scale all the same",
            "the scale of the bias equal to the float32 product a_scale * b_scale",
        )

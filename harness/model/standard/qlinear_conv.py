"""QLinearConv: ConvInteger with the attributes of the node, then bias, multiplier and rounding."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from harness.model.standard.form import Form
from harness.model.standard.windows import padded
from harness.operators.qlinear_conv import QLinearConv

PADDING = ("auto_pad", "pads")


def emit(layer: QLinearConv, form: Form) -> None:
    """Add the nodes; the weights are the node's own, (M, channels / group, ...).

    Some engines take only the same padding on both sides: Pad writes any other, with the zero point, which counts 0.
    """
    x, attributes = form.node.input[0], list(form.node.attribute)
    zero_point = np.array(layer.a_zero_point, layer.input.dtype)
    if not _is_symmetric(form.node):
        x = padded(form, x, layer.window, layer.input.shape, zero_point)
        attributes = [attribute for attribute in attributes if attribute.name not in PADDING]
    product = form.add(
        "ConvInteger",
        x,
        form.node.input[3],
        form.constant(zero_point, "x_zero_point"),
        form.constant(layer.weights_zero_point[0].astype(layer.weights.dtype), "w_zero_point"),
    )
    form.nodes[-1].attribute.extend(attributes)
    form.finish(layer, product, (len(layer.bias), *(1,) * (len(layer.output.shape) - 1)))


def _is_symmetric(node: onnx.NodeProto) -> bool:
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    pads: list[int] = given.get("pads", [])
    return bool(given.get("auto_pad", b"NOTSET") == b"NOTSET" and pads[: len(pads) // 2] == pads[len(pads) // 2 :])

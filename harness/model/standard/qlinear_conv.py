"""QLinearConv: ConvInteger over images, then bias, multiplier and rounding; a sequence is an image of height 1."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from harness.model.standard.form import Form
from harness.model.standard.windows import padded
from harness.operators.qlinear_conv import QLinearConv


def emit(layer: QLinearConv, form: Form) -> None:
    """Add the nodes.

    Some engines take only the same padding on both sides: Pad writes any other, with the zero point, which counts 0.
    """
    window, rank = layer.window, len(layer.input.shape)
    zero_point = np.array(layer.a_zero_point, layer.input.dtype)
    symmetric = _is_symmetric(form.node)
    x = form.node.input[0] if symmetric else padded(form, form.node.input[0], window, layer.input.shape, zero_point)
    height = form.constant(np.array([2], np.int64), "height") if rank == 2 else ""
    weights = layer.weights.T.reshape(len(layer.bias), -1, *window.kernel)
    sums = form.add(
        "ConvInteger",
        form.add("Unsqueeze", x, height) if height else x,
        form.constant(np.ascontiguousarray(weights), "weights"),
        form.constant(zero_point, "x_zero_point"),
        form.constant(layer.weights_zero_point[0].astype(weights.dtype), "w_zero_point"),
        group=layer.groups,
        strides=window.stride,
        dilations=window.dilation,
        pads=2 * window.before if symmetric else [0] * 4,
    )
    form.finish(layer, form.add("Squeeze", sums, height) if height else sums, (len(layer.bias), *(1,) * (rank - 1)))


def _is_symmetric(node: onnx.NodeProto) -> bool:
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    pads: list[int] = given.get("pads", [])
    return bool(given.get("auto_pad", b"NOTSET") == b"NOTSET" and pads[: len(pads) // 2] == pads[len(pads) // 2 :])

"""QGemm: MatMulInteger, then bias, multiplier and rounding."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import Form
from harness.operators.qgemm import QGemm


def emit(layer: QGemm, form: Form) -> None:
    """Add the nodes; one zero point serves all columns if they are equal."""
    zero_points = layer.weights_zero_point.astype(layer.weights.dtype)
    same = (zero_points == zero_points[0]).all()
    product = form.add(
        "MatMulInteger",
        form.node.input[0],
        form.constant(layer.weights, "weights"),
        form.constant(np.array(layer.a_zero_point, layer.input.dtype), "a_zero_point"),
        form.constant(zero_points[0] if same else zero_points, "weights_zero_point"),
    )
    form.finish(layer, product, (len(layer.bias),))

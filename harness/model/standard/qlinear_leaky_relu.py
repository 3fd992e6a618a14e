"""QLinearLeakyRelu: dequantised, LeakyRelu, divided by the scale, then the rounding."""

from __future__ import annotations

from harness.model.standard.form import Form
from harness.operators.qlinear_leaky_relu import QLinearLeakyRelu


def emit(layer: QLinearLeakyRelu, form: Form) -> None:
    """Add the nodes."""
    numbers = form.dequantised(form.node.input[0], layer.x)
    selected = form.add("LeakyRelu", numbers, alpha=float(layer.alpha))
    v = form.quotient(selected, layer.y.scale)
    form.quantised(v, layer.y.zero_point, layer.dtype)

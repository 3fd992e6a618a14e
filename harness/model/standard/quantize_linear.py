"""QuantizeLinear: Div, then the rounding; engines that multiply by 1 / scale have other codes."""

from __future__ import annotations

from harness.model.standard.form import Form
from harness.operators.quantize_linear import QuantizeLinear


def emit(layer: QuantizeLinear, form: Form) -> None:
    """Add the nodes."""
    v = form.quotient(form.node.input[0], layer.scale)
    form.quantised(v, layer.zero_point, layer.dtype)

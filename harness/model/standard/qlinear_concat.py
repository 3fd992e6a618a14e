"""QLinearConcat: the inputs dequantised, side by side, divided by the scale, then the rounding."""

from __future__ import annotations

from harness.model.standard.form import Form
from harness.operators.qlinear_concat import QLinearConcat


def emit(layer: QLinearConcat, form: Form) -> None:
    """Add the nodes."""
    numbers = [form.dequantised(source, x) for source, x in zip(layer.sources, layer.x, strict=True)]
    v = form.quotient(form.add("Concat", *numbers, axis=1), layer.y.scale)
    form.quantised(v, layer.y.zero_point, layer.dtype)

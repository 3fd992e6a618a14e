"""QLinearMul: the product of the differences is exact in int32; product with m, zero point, then the rounding."""

from __future__ import annotations

import numpy as np

from harness.model.standard.code_pairs import operands
from harness.model.standard.form import FLOAT, INT32, Form
from harness.operators.qlinear_mul import QLinearMul


def emit(layer: QLinearMul, form: Form) -> None:
    """Add the nodes."""
    factors = (
        form.add("Sub", form.cast(operand, INT32), form.constant(np.int32(quantisation.zero_point), "zero_point"))
        for operand, quantisation in zip(operands(layer, form), (layer.a, layer.b), strict=True)
    )
    scaled = form.product(form.cast(form.add("Mul", *factors), FLOAT), layer.numbers()["multiplier"])
    moved = form.add("Add", scaled, form.constant(np.float32(layer.y.zero_point), "added"))
    form.quantised(moved, 0, layer.dtype)

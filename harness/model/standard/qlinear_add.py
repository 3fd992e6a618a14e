"""QLinearAdd: each fused multiply-add in float64, where the product is exact, then rounded to float32.

The sum is rounded twice, which is right unless the first rounding makes it half way between two float32.  All 65,536
pairs of codes show whether that changes a code; if so, the form is the table of the specification.
"""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.model.standard.code_pairs import look_up, operands
from harness.model.standard.form import DOUBLE, FLOAT, Form
from harness.operators.exact import saturate
from harness.operators.obligations import all_codes
from harness.operators.qlinear_add import QLinearAdd


def emit(layer: QLinearAdd, form: Form) -> None:
    """Add the nodes."""
    if (_in_float64(layer) != layer.table()).any():
        look_up(layer, form)
        return
    (a, b), (ra, rb, c) = operands(layer, form), layer.numbers().values()
    fixed = form.constant(c.astype(np.float64), "fixed")
    inner = form.add("Add", form.add("Mul", form.cast(b, DOUBLE), form.constant(np.float64(rb), "b_ratio")), fixed)
    inner = form.cast(form.cast(inner, FLOAT), DOUBLE)
    outer = form.add("Add", form.add("Mul", form.cast(a, DOUBLE), form.constant(np.float64(ra), "a_ratio")), inner)
    form.quantised(form.cast(outer, FLOAT), 0, layer.dtype)


def _in_float64(layer: QLinearAdd) -> Array:
    """Return the codes of all pairs that the form computes, (256, 256)."""
    codes, (ra, rb, c) = all_codes(layer.dtype), (number.astype(np.float64) for number in layer.numbers().values())
    inner = (codes * rb + c).astype(np.float32).astype(np.float64)
    return saturate((codes[:, None] * ra + inner).astype(np.float32), layer.dtype, 0)

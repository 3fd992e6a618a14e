"""QLinearSoftmax: exponentials from the specification's table, summed column by column, then quotient and rounding."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import INT32, Form
from harness.operators.node import AXES_ARE_INPUT
from harness.operators.qlinear_softmax import QLinearSoftmax

LARGEST = 255


def emit(layer: QLinearSoftmax, form: Form) -> None:
    """Add the nodes; an engine does not compute the exponentials themselves."""
    wide, total = form.cast(form.node.input[0], INT32), ""
    below = form.add("Sub", wide, _largest(form, wide))
    places = form.add("Add", below, form.constant(np.int32(LARGEST), "largest"))
    terms = form.add("Gather", form.constant(layer.table(), "exponentials"), places)
    axis = form.constant(np.array([-1], np.int64), "axis")
    for column in range(layer.length):
        ends = (form.constant(np.array([end], np.int64), "ends") for end in (column, column + 1))
        term = form.add("Slice", terms, *ends, axis)
        total = form.add("Add", total, term) if total else term
    v = form.add("Div", form.product(terms, layer.inverse), total)
    form.quantised(v, layer.y.zero_point, layer.dtype)


def _largest(form: Form, wide: str) -> str:
    """Add the largest code of each row; the axes are an attribute up to opset 17."""
    if form.opset < AXES_ARE_INPUT:
        return form.add("ReduceMax", wide, axes=[-1], keepdims=1)
    return form.add("ReduceMax", wide, form.constant(np.array([-1], np.int64), "axes"), keepdims=1)

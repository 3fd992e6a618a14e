"""QLinearGlobalAveragePool: ReduceSum of int32, then multiplier and rounding."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import INT32, Form
from harness.operators.qlinear_global_average_pool import QLinearGlobalAveragePool


def emit(layer: QLinearGlobalAveragePool, form: Form) -> None:
    """Add the nodes; the axes after the channels are summed."""
    wide = form.cast(form.node.input[0], INT32)
    difference = form.add("Sub", wide, form.constant(np.int32(layer.a_zero_point), "x_zero_point"))
    axes = np.arange(2, 1 + len(layer.input.shape), dtype=np.int64)
    total = form.add("ReduceSum", difference, form.constant(axes, "axes"), keepdims=1)
    form.finish(layer, total, (len(layer.bias), *(1,) * len(axes)))

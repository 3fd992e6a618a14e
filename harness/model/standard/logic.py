"""Standard form of `harness.Where`: that of ONNX, whose condition is a bool."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import Form
from harness.operators.logic import Logic


def emit(layer: Logic, form: Form) -> None:
    """Add the nodes; operators of ONNX's own domain stay."""
    if layer.operator != "Where":
        form.keep()
        return
    condition, one, other = form.node.input
    form.add("Where", form.add("Greater", condition, form.constant(np.float32(0), "zero")), one, other, last=True)

"""Standard form of `harness.Where` and `harness.Select`: ONNX's Where, whose condition is a bool."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from harness.model.standard.form import Form
from harness.operators.logic import Logic
from harness.operators.tensor import BOOL


def emit(layer: Logic, form: Form) -> None:
    """Add the nodes; operators of ONNX's own domain stay."""
    if layer.operator not in {"Where", "Select"}:
        form.keep()
        return
    condition, one, other = form.node.input
    if layer.operator == "Where":
        condition = form.add("Greater", condition, form.constant(np.float32(0), "zero"))
    elif layer.dtype != BOOL:
        condition = form.add("Cast", condition, to=TensorProto.BOOL)
    form.add("Where", condition, one, other, last=True)

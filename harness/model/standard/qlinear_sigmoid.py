"""QLinearSigmoid: the table of the specification; ONNX has no fused multiply-add for its polynomial."""

from __future__ import annotations

from harness.model.standard.form import Form
from harness.operators.qlinear_sigmoid import QLinearSigmoid


def emit(layer: QLinearSigmoid, form: Form) -> None:
    """Add the nodes; an engine does not compute the function itself."""
    form.entries(layer.table(), form.numbers(form.node.input[0]))

"""Div by a constant, of float32: in float64, as one engine multiplies by 1 / constant."""

from __future__ import annotations

from harness.model.standard.form import DOUBLE, FLOAT, Form
from harness.operators.div import Div


def emit(layer: Div, form: Form) -> None:  # noqa: ARG001 - the inputs are those of the node
    """Add the nodes; see `Form.quotient` for their rounding."""
    form.cast(form.add("Div", *(form.cast(name, DOUBLE) for name in form.node.input)), FLOAT, last=True)

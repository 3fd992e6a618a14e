"""Clip of codes: in float32, which holds them exactly; one engine compares uint8 as int8."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import FLOAT, Form
from harness.operators.clip import Clip


def emit(layer: Clip, form: Form) -> None:
    """Add the nodes; a Clip of float32 stays."""
    if not layer.of_codes:
        form.keep()
        return
    low, high = (form.constant(np.float32(bound), "bound") for bound in (layer.low, layer.high))
    form.codes(form.add("Clip", form.cast(form.node.input[0], FLOAT), low, high))

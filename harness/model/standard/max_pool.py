"""MaxPool: values outside the image are the lowest of all, which one engine takes for 0; codes in float32."""

from __future__ import annotations

import numpy as np

from harness.model.standard.form import FLOAT, Form
from harness.model.standard.windows import padded
from harness.operators.max_pool import MaxPool
from harness.operators.tensor import FLOAT32

PADDING = ("auto_pad", "ceil_mode", "pads")


def emit(layer: MaxPool, form: Form) -> None:
    """Add the nodes; float32 holds every code, and a window that lies within the image of float32 stays."""
    of_codes, [source] = layer.dtype != FLOAT32, form.node.input
    x = form.cast(source, FLOAT) if of_codes else source
    lowest = np.float32(np.iinfo(layer.dtype).min if of_codes else -np.inf)
    windows = padded(form, x, layer.window, layer.input.shape, np.asarray(lowest))
    if windows == source:
        form.keep()
        return
    largest = form.add("MaxPool", windows, last=not of_codes)
    kept = (attribute for attribute in form.node.attribute if attribute.name not in PADDING)
    form.nodes[-1].attribute.extend(kept)
    if of_codes:
        form.codes(largest)

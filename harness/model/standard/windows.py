"""Windows over images and sequences: values outside of them become values of the tensor."""

from __future__ import annotations

import numpy as np

from harness.core.arrays import Array
from harness.model.standard.form import Form
from harness.operators.window import Window


def padded(form: Form, x: str, window: Window, shape: tuple[int, ...], value: Array) -> str:
    """Add what the windows read outside of x, (vectors, *shape), as a constant value; no more than they read."""
    axes = len(shape) - 1
    before, after = (np.array(each[-axes:]) for each in (window.before, _after(window)))
    if not before.any() and not after.any():
        return x
    pads = np.concatenate([[0, 0], before, [0, 0], after]).astype(np.int64)
    return form.add("Pad", x, form.constant(pads, "pads"), form.constant(value, "outside"))


def _after(window: Window) -> tuple[int, ...]:
    reach = (np.array(window.output) - 1) * window.stride + (np.array(window.kernel) - 1) * window.dilation + 1
    return tuple(np.maximum(reach - window.shape - window.before, 0).tolist())

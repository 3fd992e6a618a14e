"""QLinearAveragePool: a slice of the dequantised image for each value of the window, added row by row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.model.standard.form import Form
from harness.model.standard.windows import padded
from harness.operators.qlinear_average_pool import QLinearAveragePool


def emit(layer: QLinearAveragePool, form: Form) -> None:
    """Add the nodes; a value outside the image has the zero point, whose number is 0."""
    axes = len(layer.input.shape) - 1
    kernel, output, dilation, stride = (
        np.array(each[-axes:])
        for each in (layer.window.kernel, layer.window.output, layer.window.dilation, layer.window.stride)
    )
    numbers, total = form.dequantised(form.node.input[0], layer.x), ""
    terms = padded(form, numbers, layer.window, layer.input.shape, np.zeros((), np.float32))
    spatial, steps = form.constant(np.arange(2, 2 + axes), "axes"), form.constant(stride.astype(np.int64), "steps")
    for place in np.ndindex(*kernel):
        first: npt.NDArray[np.int64] = np.array(place, np.int64) * dilation
        last = first + (output - 1) * stride + 1
        ends = (form.constant(each, "ends") for each in (first, last))
        term = form.add("Slice", terms, *ends, spatial, steps)
        total = form.add("Add", total, term) if total else term
    counts = layer.counts().astype(np.float32)
    count = counts[:1].reshape(()) if (counts == counts[0]).all() else counts.reshape(output)
    mean = form.quotient(total, count)
    scaled = form.quotient(mean, layer.y.scale)
    moved = form.add("Add", scaled, form.constant(np.float32(layer.y.zero_point), "added"))
    form.quantised(moved, 0, layer.dtype)

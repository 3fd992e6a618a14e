"""MaxPool in CUDA, of codes or float32."""

from __future__ import annotations

from harness.operators.base import limits
from harness.operators.max_pool import MaxPool
from harness.targets.cuda.code import VectorLowering, c_type, window

LOWEST_FLOAT = "__uint_as_float(0xff800000u)"


class MaxPoolLowering(VectorLowering[MaxPool]):
    """One comparison per value of a window."""

    operator = MaxPool

    def value(self, layer: MaxPool) -> str:
        """Begin at the lowest value, which the first of the window replaces or equals."""
        lowest = limits(layer.dtype)["low"] if layer.of_codes else LOWEST_FLOAT
        return f"return max_pool<{c_type(layer.dtype)}, {window(layer.window)}>(x_0, {lowest}, n);"

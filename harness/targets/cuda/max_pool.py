"""MaxPool of codes in CUDA."""

from __future__ import annotations

import numpy as np

from harness.operators.max_pool import MaxPool
from harness.targets.cuda.code import VectorLowering, c_type, window


class MaxPoolLowering(VectorLowering[MaxPool]):
    """One value at a time."""

    operator = MaxPool

    def unsupported(self, layer: MaxPool, variant: str) -> str | None:  # noqa: ARG002 - both variants
        """Return that it takes codes only."""
        return "it pools codes only" if layer.dtype == np.float32 else None

    def value(self, layer: MaxPool) -> str:
        """Find the largest value of a window."""
        return f"return max_pool<{c_type(layer.dtype)}, {window(layer.window)}>(x_0, n);"

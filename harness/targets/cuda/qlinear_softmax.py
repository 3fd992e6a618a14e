"""QLinearSoftmax in CUDA: the largest code, a sum of exponentials from a table, and one quotient per value."""

from __future__ import annotations

import numpy as np

from harness.operators.qlinear_softmax import QLinearSoftmax
from harness.targets.cuda.code import VectorLowering, c_type
from harness.targets.generated import Table


class QLinearSoftmaxLowering(VectorLowering[QLinearSoftmax]):
    """Every value has its own sum, which is the same."""

    operator = QLinearSoftmax

    def tables(self, layer: QLinearSoftmax) -> tuple[Table, ...]:
        """Return the exponentials and the numbers."""
        name = layer.name
        return (
            Table(f"{name}_table", layer.table(), "exp((i - 255) * x_scale) times a constant", computed=True),
            Table(f"{name}_inverse", np.atleast_1d(layer.inverse), "floor(1 / y_scale)", computed=True),
            Table(f"{name}_y_zero_point", np.array([layer.y.zero_point], np.int32), computed=True),
        )

    def value(self, layer: QLinearSoftmax) -> str:
        """Compute one quotient."""
        name, kinds = layer.name, f"{c_type(layer.dtype)}, {layer.length}"
        return f"return softmax_codes<{kinds}>(x_0, {name}_table, {name}_inverse[0], {name}_y_zero_point[0], n);"

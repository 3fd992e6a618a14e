"""QLinearConcat in CUDA: a table of 256 codes for each input."""

from __future__ import annotations

import numpy as np

from harness.operators.qlinear_concat import QLinearConcat
from harness.targets.cuda.code import VectorLowering
from harness.targets.generated import Table


class QLinearConcatLowering(VectorLowering[QLinearConcat]):
    """One access per value."""

    operator = QLinearConcat

    def tables(self, layer: QLinearConcat) -> tuple[Table, ...]:
        """Return the outputs for all codes of each input."""
        origin = "outputs for all codes of each input, from the lowest on"
        return (Table(f"{layer.name}_table", layer.table(), origin, computed=True),)

    def value(self, layer: QLinearConcat) -> str:
        """Find the input of an output by its place, and look its code up."""
        lines, start = [], 0
        for number, tensor in enumerate(layer.inputs):
            entry = f"x_{number}[n - {start}u] - ({np.iinfo(layer.dtype).min})"
            start += tensor.size
            condition = f"if (n < {start})\n    " if start < layer.size else ""
            lines.append(f"{condition}return {layer.name}_table[{number}][{entry}];")
        return "\n".join(lines)

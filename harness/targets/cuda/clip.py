"""Clip in CUDA."""

from __future__ import annotations

from harness.operators.clip import Clip
from harness.targets.cuda.code import tables_of
from harness.targets.cuda.function import FunctionLowering
from harness.targets.generated import Table


class ClipLowering(FunctionLowering[Clip]):
    """Two selections per value, a code or float32."""

    operator = Clip
    operation = "clip"

    def tables(self, layer: Clip) -> tuple[Table, ...]:
        """Return both bounds, of the type of the values."""
        return tables_of(layer, {"low": layer.low, "high": layer.high})

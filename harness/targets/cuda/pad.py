"""Pad in CUDA."""

from __future__ import annotations

from harness.operators.pad import Pad
from harness.targets.cuda.code import tables_of
from harness.targets.cuda.move import MoveLowering
from harness.targets.generated import Table


class PadLowering(MoveLowering[Pad]):
    """One copy per value, or the constant."""

    operator = Pad

    def tables(self, layer: Pad) -> tuple[Table, ...]:
        """Return the constant, if there is one."""
        return tables_of(layer, {} if layer.value is None else {"value": layer.value})

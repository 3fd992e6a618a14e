"""Pad in C."""

from __future__ import annotations

import numpy as np

from harness.operators.pad import Pad
from harness.targets.c.move import MoveLowering
from harness.targets.generated import Table


class PadLowering(MoveLowering[Pad]):
    """The constant everywhere, if there is one, then one copy per value."""

    operator = Pad

    def tables(self, layer: Pad) -> tuple[Table, ...]:
        """Return the table of the constant."""
        return () if layer.value is None else (Table(f"{layer.name}_value", np.atleast_1d(layer.value)),)

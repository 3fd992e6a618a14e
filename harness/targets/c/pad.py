"""Pad in C."""

from __future__ import annotations

import numpy as np

from harness.operators.pad import Pad
from harness.targets.c.move import MoveLowering
from harness.targets.generated import Table


class PadLowering(MoveLowering[Pad]):
    """The constant everywhere, then one copy per value."""

    operator = Pad

    def tables(self, layer: Pad) -> tuple[Table, ...]:
        """Return the table of the constant."""
        return (Table(f"{layer.name}_value", np.atleast_1d(layer.value)),)

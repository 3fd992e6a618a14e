"""Max and Min in CUDA."""

from __future__ import annotations

from harness.operators.extremum import Extremum
from harness.targets.cuda.fold import FoldLowering


class ExtremumLowering(FoldLowering[Extremum]):
    """One comparison per operand after the first."""

    operator = Extremum

    def operation(self, layer: Extremum) -> str:
        """Return the comparison."""
        return "larger" if layer.largest else "smaller"

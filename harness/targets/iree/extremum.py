"""Max and Min in MLIR: one comparison after the other; the first of equal values stays."""

from __future__ import annotations

from harness.operators.extremum import Extremum
from harness.targets.iree.fold import FoldLowering
from harness.targets.iree.function import Block, Scalar


class ExtremumLowering(FoldLowering[Extremum]):
    """Greatest or least of the inputs, from left to right."""

    operator = Extremum

    def combine(self, layer: Extremum, block: Block, first: Scalar, second: Scalar) -> Scalar:
        """Choose one of two values."""
        return block.select(block.compare("ogt" if layer.largest else "olt", second, first), second, first)

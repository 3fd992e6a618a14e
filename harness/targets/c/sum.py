"""Sum in C."""

from __future__ import annotations

from collections.abc import Sequence

from harness.operators.sum import Sum
from harness.targets.c.fold import FoldLowering


class SumLowering(FoldLowering[Sum]):
    """One addition per operand after the first, from left to right."""

    operator = Sum

    def combined(self, layer: Sum, values: Sequence[str]) -> str:  # noqa: ARG002 - the same for all layers
        """Return the sum; in C, + is evaluated from left to right."""
        return " + ".join(values)

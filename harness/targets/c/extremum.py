"""Max and Min in C."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from harness.operators.extremum import Extremum
from harness.targets.c.fold import FoldLowering


class ExtremumLowering(FoldLowering[Extremum]):
    """One comparison per operand after the first, from left to right (kernels/c/extremum.h)."""

    operator = Extremum
    headers = ("extremum.h",)

    def combined(self, layer: Extremum, values: Sequence[str]) -> str:
        """Return the chain of comparisons."""
        function = "larger_float32" if layer.largest else "smaller_float32"
        return reduce(lambda first, second: f"{function}({first}, {second})", values)

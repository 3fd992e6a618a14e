"""Sum in TFLite: ADD."""

from __future__ import annotations

from harness.operators.sum import Sum
from harness.targets.litert.fold import FoldLowering


class SumLowering(FoldLowering[Sum]):
    """See `FoldLowering`."""

    operator = Sum
    names = {"Sum": "ADD"}  # noqa: RUF012

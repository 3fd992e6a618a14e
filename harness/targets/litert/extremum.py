"""Max and Min in TFLite: MAXIMUM and MINIMUM."""

from __future__ import annotations

from harness.operators.extremum import Extremum
from harness.targets.litert.fold import FoldLowering


class ExtremumLowering(FoldLowering[Extremum]):
    """See `FoldLowering`."""

    operator = Extremum
    names = {"Max": "MAXIMUM", "Min": "MINIMUM"}  # noqa: RUF012

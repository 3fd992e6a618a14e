from __future__ import annotations

import pytest

from harness.analysis.proof import rounding


@pytest.fixture(autouse=True)
def _few_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the thresholds of QuantizeLinear, of which none is left out."""
    monkeypatch.setattr(rounding, "SPREAD_VALUES", 1 << 16)

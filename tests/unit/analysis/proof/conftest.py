from __future__ import annotations

import pytest

from harness.operators import quantize_linear


@pytest.fixture(autouse=True)
def _few_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the thresholds of QuantizeLinear, of which none is left out."""
    monkeypatch.setattr(quantize_linear, "SPREAD_VALUES", 1 << 16)

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.operators import quantize_linear
from tests.support.programs.board_program import with_flags
from tests.support.proof.trials import Workshop


@pytest.fixture(scope="session")
def workshop(host: Profile, objects: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """This machine."""
    return Workshop(with_flags(host, "-O0"), objects, tmp_path_factory.mktemp("workshop"))


@pytest.fixture(autouse=True)
def _few_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the thresholds of QuantizeLinear, of which none is left out."""
    monkeypatch.setattr(quantize_linear, "SPREAD_VALUES", 1 << 16)

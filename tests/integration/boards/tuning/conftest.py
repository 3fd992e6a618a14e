from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tuning import system


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a fake system."""
    return system.fake(tmp_path / "system")

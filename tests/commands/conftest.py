from __future__ import annotations

from pathlib import Path

import pytest

from harness import workspace


@pytest.fixture(scope="session")
def cache() -> Path:
    """The user's own cache: what is downloaded for the emulated boards is downloaded once."""
    return workspace.find(None, None).cache

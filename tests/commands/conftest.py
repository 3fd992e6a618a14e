from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import workspace
from harness.reference import steps
from tests.commands.command import User
from tests.commands.ready import ready


@pytest.fixture(scope="session")
def cache() -> Path:
    """The user's own cache: what is downloaded for the emulated boards is downloaded once."""
    return workspace.find(None, None).cache


@pytest.fixture(scope="session", autouse=True)
def _no_command_starts_from_nothing(objects: Path) -> Iterator[None]:
    with ready(objects) as User.ready:
        yield
    User.ready = None


@pytest.fixture(scope="module", autouse=True)
def _programs_share_what_they_can(kept_objects: None) -> None:
    """Nor do those that a test builds in this process."""


@pytest.fixture
def few_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: to sweep the reference over all floats takes ten seconds, and test_prove.py does."""
    monkeypatch.setattr(steps, "FLOATS", 1 << 20)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import verdict
from harness.verification import rebuilt


def test_a_git_that_hangs_keeps_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk far away, or with a program in its settings that waits for something."""
    (tmp_path / "git").write_text("#!/bin/sh\nsleep 20\necho told\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(verdict, "GIT_S", 0.2)
    monkeypatch.setattr(rebuilt, "BUILD_TIMEOUT_S", 0.2)
    assert verdict.revision() is None
    assert rebuilt._git("status") is None

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from harness.boards import workspace
from harness.core.errors import RequestError
from harness.runs import document


def nobody(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


def test_a_user_without_a_home_says_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started for a number."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert workspace.find(None, None, {"HARNESS_CACHE": str(tmp_path)}).cache == tmp_path
    assert workspace.find(None, None, {"XDG_CACHE_HOME": str(tmp_path)}).cache == tmp_path / "harness"
    with pytest.raises(RequestError) as caught:
        workspace.find(None, None, {})
    assert caught.value.hint == "set HOME, or HARNESS_CACHE to a folder"


def test_a_git_that_hangs_keeps_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk far away, or with a program in its settings that waits for something."""
    (tmp_path / "git").write_text("#!/bin/sh\nsleep 20\necho told\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(workspace, "GIT_S", 0.2)
    assert document.revision() is None
    assert workspace.git("status") is None

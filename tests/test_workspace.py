from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from harness import workspace
from harness.errors import RequestError


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

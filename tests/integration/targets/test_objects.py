"""Object files that sessions of tests share: what is the same is compiled once, anything else anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.boards.profile import Profile
from harness.targets import toolchain
from tests.support import objects as object_files
from tests.support.objects import OF_ALL_SESSIONS, UNUSED_S, Keeping, share_with_all_sessions

Compile = Callable[..., None]


@pytest.fixture
def compile_in(host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compile a text as a session does that has this name."""
    monkeypatch.setattr(object_files, "ROOT", tmp_path)
    found = toolchain.find(host)

    def compile_in(session: str, text: str, *flags: str) -> None:
        folder = tmp_path / session
        folder.mkdir(exist_ok=True)
        share_with_all_sessions(folder)
        (folder / "one.c").write_text(text)
        compiler = Keeping(found.command, found.identity, found.flags, found.parts, folder)
        compiler.build(folder, (Path("one.c"),), (), (), folder / "one.o", ("-c", *flags))

    return compile_in


def shared(folder: Path) -> list[Path]:
    return sorted((folder / OF_ALL_SESSIONS).iterdir())


def test_the_next_session_has_what_is_the_same(compile_in: Compile, tmp_path: Path) -> None:
    compile_in("first", "int one = 1;")
    [kept] = shared(tmp_path / "first")
    kept.write_bytes(kept.read_bytes() + b"as compiled before")
    compile_in("second", "int one = 1;")
    assert (tmp_path / "second" / "one.o").read_bytes().endswith(b"as compiled before")
    compile_in("second", "int one = 2;")
    compile_in("second", "int one = 1;", "-O0")
    assert len(shared(tmp_path / "second")) == 3


def test_what_a_flag_names_elsewhere_is_not_shared(compile_in: Compile, tmp_path: Path) -> None:
    compile_in("first", "int one = 1;", f"-I{tmp_path}")
    assert shared(tmp_path / "first") == []


def test_packages_of_the_system_begin_anew_and_old_files_go(
    compile_in: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_in("first", "int one = 1;")
    [old] = shared(tmp_path / "first")
    (tmp_path / "status").write_text("another package")
    monkeypatch.setattr(object_files, "PACKAGES", tmp_path / "status")
    compile_in("second", "int one = 1;")
    assert [kept.name for kept in shared(tmp_path / "second")] == [old.name]
    assert old.exists()
    os.utime(old, (0, old.stat().st_mtime - UNUSED_S - 1))
    compile_in("third", "int one = 1;")
    assert not old.exists()

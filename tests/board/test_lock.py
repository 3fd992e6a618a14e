"""The lock of a board, held and awaited by real processes."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from harness.board.lock import board_lock
from harness.errors import BoardError

HOLD = """
import sys
from pathlib import Path
from harness.board.lock import board_lock
with board_lock(sys.argv[1], Path(sys.argv[2]), "run acas_coc", 0, print):
    print("held", flush=True)
    sys.stdin.read()
"""
REPOSITORY = Path(__file__).parents[2]


@contextmanager
def held_elsewhere(name: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its standard input is closed."""
    command = [sys.executable, "-c", HOLD, name, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def acquire(name: str, folder: Path, wait_s: float = 0) -> list[str]:
    """Take the lock and release it; returns what was told meanwhile."""
    told: list[str] = []
    with board_lock(name, folder, "measure", wait_s, told.append):
        return told


def test_a_free_board_is_taken_without_a_word(tmp_path: Path) -> None:
    assert acquire("xavier", tmp_path / "not" / "yet") == []


def test_a_board_in_use_is_refused_and_its_holder_named(tmp_path: Path) -> None:
    before = datetime.now().astimezone()
    with held_elsewhere("xavier", tmp_path) as holder:
        after = datetime.now().astimezone()
        began = time.monotonic()
        with pytest.raises(BoardError) as caught:
            acquire("xavier", tmp_path, wait_s=0.5)
        assert 0.5 <= time.monotonic() - began < 5
    times = {f"{moment:%H:%M}" for moment in (before, after)}
    expected = {
        f"board xavier is in use by pid {holder.pid} ({getpass.getuser()}, run acas_coc) since {at}; "
        "not free after 0.5 s"
        for at in times
    }
    assert caught.value.message in expected


def test_a_wait_is_told_once_and_ends_when_the_board_is_free(tmp_path: Path) -> None:
    with held_elsewhere("xavier", tmp_path) as holder:
        assert holder.stdin is not None
        threading.Timer(0.7, holder.stdin.close).start()
        told = acquire("xavier", tmp_path, wait_s=30)
    assert len(told) == 1
    assert told[0].startswith(f"board xavier is in use by pid {holder.pid} (")
    assert told[0].endswith(", waiting")


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    with held_elsewhere("xavier", tmp_path) as holder:
        holder.kill()
        holder.wait()
        assert acquire("xavier", tmp_path) == []


def test_boards_do_not_exclude_each_other(tmp_path: Path) -> None:
    with held_elsewhere("xavier", tmp_path):
        assert acquire("kv260", tmp_path) == []


def test_one_process_does_not_get_a_board_twice(tmp_path: Path) -> None:
    with (
        board_lock("xavier", tmp_path, "run", 0, print),
        pytest.raises(BoardError, match=rf"in use by pid {os.getpid()} \("),
    ):
        acquire("xavier", tmp_path)


def test_a_failure_in_the_block_releases(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="failed"), board_lock("xavier", tmp_path, "run", 0, print):
        raise RuntimeError("failed")
    assert acquire("xavier", tmp_path) == []


def test_a_program_started_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    with board_lock("xavier", tmp_path, "run", 0, print):
        child = subprocess.Popen(["sleep", "60"])
    try:
        assert acquire("xavier", tmp_path) == []
    finally:
        child.kill()
        child.wait()


def test_a_holder_of_another_day_is_shown_with_the_date(tmp_path: Path) -> None:
    with board_lock("xavier", tmp_path, "run", 0, print):
        file = tmp_path / "xavier.lock"
        file.write_text('{"pid": 7, "user": "anna", "purpose": "nightly", "since": 86400}')
        with pytest.raises(BoardError, match=r"in use by pid 7 \(anna, nightly\) since 1970-01-0[123] \d\d:00"):
            acquire("xavier", tmp_path)


def test_a_holder_that_has_not_signed_yet(tmp_path: Path) -> None:
    with board_lock("xavier", tmp_path, "run", 0, print):
        (tmp_path / "xavier.lock").write_text("")
        with pytest.raises(BoardError, match="in use by another process"):
            acquire("xavier", tmp_path)


def test_other_users_may_lock_the_same_file(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        acquire("xavier", tmp_path)
    finally:
        os.umask(old)
    assert (tmp_path / "xavier.lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("name", ["", "a/b", "../xavier"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a board's name"):
        acquire(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BoardError, match=r"cannot open the lock .*file/xavier\.lock of board xavier"):
        acquire("xavier", tmp_path / "file")

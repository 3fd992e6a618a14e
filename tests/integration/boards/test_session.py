"""What every board promises, asked of this machine directly and through a real SSH server."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path, PurePosixPath

import pytest

from harness.boards.local import LocalBoard
from harness.boards.session import Board, Completed, Deadline, Fetch, replacing
from harness.core.errors import BoardError
from tests.support.boards.processes import await_none, running

AWKWARD_NAMES = [
    "plain",
    "two words",
    "quote'\"s",
    "$HOME `id` $(id)",
    "a;b&c|d>e<f",
    "*?[x]~",
    "-n",
    "naïve\\t",
    "a\nb",
]
RANDOM_MEBIBYTE = os.urandom(1 << 20)


def on_board(path: Path) -> PurePosixPath:
    """The board under test is this machine, under whatever name."""
    return PurePosixPath(path)


def test_run_gives_status_and_both_streams(board: Board) -> None:
    completed = board.run(["sh", "-c", "printf out; printf err >&2; exit 7"], 10)
    assert completed == Completed(7, b"out", b"err")


@pytest.mark.parametrize("argument", [*AWKWARD_NAMES, ""])
def test_run_passes_arguments_as_they_are(board: Board, argument: str) -> None:
    assert board.run(["printf", "%s|", argument, "end"], 10).stdout == f"{argument}|end|".encode()


def test_run_gives_an_empty_standard_input(board: Board) -> None:
    assert board.run(["cat"], 10) == Completed(0, b"", b"")


def test_run_of_a_missing_program_is_127(board: Board) -> None:
    completed = board.run(["/nonexistent/inference"], 10)
    assert completed.status == 127
    assert b"/nonexistent/inference" in completed.stderr


def test_run_of_a_file_that_is_no_program_is_126(board: Board, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"data")
    assert board.run([str(tmp_path / "data")], 10).status == 126


def test_run_of_a_program_that_crashes_is_128_plus_the_signal(board: Board) -> None:
    assert board.run(["sh", "-c", "kill -SEGV $$"], 10).status == 128 + 11


def test_run_with_much_output_on_both_streams_does_not_block(board: Board) -> None:
    million_lines = "seq 1000000 | tee /dev/stderr"
    completed = board.run(["bash", "-c", million_lines], 30)
    expected = b"".join(b"%d\n" % number for number in range(1, 1_000_001))
    assert completed.stdout == expected
    assert completed.stderr == expected


def test_run_kills_a_program_at_its_deadline(board: Board) -> None:
    """The programs would outlast the time limit of a test."""
    with pytest.raises(BoardError, match=r"^sh on \S+ did not end within 0.3 s and was killed$"):
        board.run(["sh", "-c", "sleep 3661.25 & sleep 3661.25"], 0.3)
    await_none("sleep", "3661.25")
    assert board.run(["printf", "usable"], 10).stdout == b"usable"


def test_run_kills_a_program_that_ignores_signals(board: Board) -> None:
    with pytest.raises(BoardError, match="was killed"):
        board.run(["sh", "-c", "trap '' HUP INT TERM; sleep 62.25; sleep 62.25"], 0.3)
    await_none("sleep", "62.25")


def test_an_interrupt_ends_the_program(board: Board) -> None:
    def interrupt() -> None:
        while not running("sleep", "63.75") or (isinstance(board, LocalBoard) and not board._running):
            time.sleep(0.01)  # the program may run before its start has returned here
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt), board:
        board.run(["sleep", "63.75"], 60)
    await_none("sleep", "63.75")


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_put_then_get_keeps_names_and_bytes(board: Board, tmp_path: Path, name: str) -> None:
    source, there, back = (tmp_path / folder / name for folder in ("source", "there", "back"))
    for path in (source, there, back):
        path.parent.mkdir()
    source.write_bytes(RANDOM_MEBIBYTE)
    board.put(source, on_board(there))
    board.get(on_board(there), back, len(RANDOM_MEBIBYTE))
    assert back.read_bytes() == RANDOM_MEBIBYTE
    assert list(there.parent.iterdir()) == [there]
    assert list(back.parent.iterdir()) == [back]


@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o755), (0o600, 0o644)])
def test_put_keeps_the_executable_bit(board: Board, tmp_path: Path, mode: int, expected: int) -> None:
    source, there = tmp_path / "program", tmp_path / "there"
    source.write_bytes(b"#!/bin/sh\n")
    source.chmod(mode)
    board.put(source, on_board(there))
    assert there.stat().st_mode & 0o777 == expected


def test_put_replaces_a_program_that_is_running(board: Board, tmp_path: Path) -> None:
    program = tmp_path / "program"
    board.put(Path("/bin/sleep"), on_board(program))
    started = board.run(["sh", "-c", f"exec 1>&- 2>&-; {program} 0.5 & exit"], 10)
    board.put(Path("/bin/true"), on_board(program))
    assert started.status == 0
    assert program.read_bytes() == Path("/bin/true").read_bytes()


def test_put_into_a_missing_folder(board: Board, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(BoardError, match=r"missing/there.*(nonexistent|No such file)"):
        board.put(tmp_path / "source", on_board(tmp_path / "missing" / "there"))


def test_get_many_gives_each_file_its_bytes(board: Board, tmp_path: Path) -> None:
    contents = [RANDOM_MEBIBYTE[:size] for size in (0, 1, 31, 32, 33, 1000, 0, 1 << 20)]
    files = [Fetch(on_board(tmp_path / f"{n}"), tmp_path / f"{n}.back", len(data)) for n, data in enumerate(contents)]
    for fetch, data in zip(files, contents, strict=True):
        Path(fetch.source).write_bytes(data)
    board.get_many(files)
    assert [fetch.destination.read_bytes() for fetch in files] == contents


def test_get_many_of_nothing(board: Board) -> None:
    board.get_many([])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("size", "expected"), [(5000, 4999), (5000, 4900), (5000, 0)])
def test_get_many_refuses_a_longer_file(board: Board, tmp_path: Path, place: int, size: int, expected: int) -> None:
    files = []
    for number, wanted in enumerate([expected, 100] if place == 0 else [100, expected]):
        (tmp_path / f"{number}").write_bytes(bytes(size if number == place else 100))
        files.append(Fetch(on_board(tmp_path / f"{number}"), tmp_path / f"{number}.back", wanted))
    with pytest.raises(BoardError, match=rf"/{place} on \S+ has more than the {expected:,} bytes that were expected$"):
        board.get_many(files)
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1"} | ({"0.back"} if place == 1 else set())


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("size", "expected"), [(628, 1024), (5000, 5001), (5000, 5064), (0, 1)])
def test_get_many_tells_the_missing_bytes_of_a_shorter_file(
    board: Board, tmp_path: Path, place: int, size: int, expected: int
) -> None:
    files = []
    for number, wanted in enumerate([expected, 100] if place == 0 else [100, expected]):
        (tmp_path / f"{number}").write_bytes(bytes(size if number == place else 100))
        files.append(Fetch(on_board(tmp_path / f"{number}"), tmp_path / f"{number}.back", wanted))
    with pytest.raises(BoardError) as caught:
        board.get_many(files)
    missing = expected - size
    assert caught.value.message.startswith(f"{tmp_path}/{place} on ")
    assert caught.value.message.endswith(
        f": {size:,} of {expected:,} bytes arrived, {missing} {'is' if missing == 1 else 'are'} missing"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1"} | ({"0.back"} if place == 1 else set())


def test_get_many_keeps_a_longer_file_out_of_its_neighbours(board: Board, tmp_path: Path) -> None:
    """The sum of the sizes is right: only the files' boundaries tell."""
    (tmp_path / "longer").write_bytes(b"a" * 101)
    (tmp_path / "shorter").write_bytes(b"b" * 99)
    wanted = [Fetch(on_board(tmp_path / name), tmp_path / f"{name}.back", 100) for name in ("longer", "shorter")]
    with pytest.raises(BoardError, match=r"longer on \S+ has more than the 100 bytes that were expected"):
        board.get_many(wanted)
    assert not (tmp_path / "shorter.back").exists()


def test_get_of_a_missing_file_leaves_nothing_behind(board: Board, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match=r"/missing on .*No such file"):
        board.get(on_board(tmp_path / "missing"), tmp_path / "back", 10)
    assert list(tmp_path.iterdir()) == []


def test_get_that_fails_keeps_what_was_there(board: Board, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"too long")
    (tmp_path / "back").write_bytes(b"old")
    with pytest.raises(BoardError, match="has more than the 3 bytes that were expected"):
        board.get(on_board(tmp_path / "there"), tmp_path / "back", 3)
    assert (tmp_path / "back").read_bytes() == b"old"


def test_deadline_counts_down_to_zero() -> None:
    deadline = Deadline.after(60)
    assert 0 < deadline.remaining_s <= 60
    assert not deadline.passed
    over = Deadline(60, time.monotonic())
    assert over.remaining_s == 0
    assert over.passed


def test_replacing_an_interrupted_file_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]

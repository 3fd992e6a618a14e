"""How every command ends when nobody reads what it says, and when somebody ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.board.session import Deadline
from tests.commands.command import HARNESS, TIMEOUT_S, User

RUN = ("run", "--board", "host", "--model", "acas_coc", "--trace", "0")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    (tmp_path / "runs").mkdir()
    return User(tmp_path, cache)


@pytest.fixture
def gone() -> Iterator[int]:
    """The way to a reader that has ended, as `head` does when it has seen enough."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def code(user: User, *words: str, out: int, err: int) -> int:
    command = [*HARNESS, "--runs", str(user.folder / "runs"), *words]
    environment = os.environ | {"HARNESS_CACHE": str(user.cache)}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False, env=environment, timeout=TIMEOUT_S
    ).returncode


@pytest.mark.parametrize("words", [("models", "list"), ("models", "list", "--json"), ("--help",)])
def test_without_a_reader_no_command_ends_as_if_something_differed(
    user: User, gone: int, words: tuple[str, ...]
) -> None:
    assert code(user, *words, out=gone, err=gone) == 3


def test_a_run_comes_to_its_verdict_though_nobody_reads_its_notes(user: User, gone: int) -> None:
    assert code(user, *RUN, "--vectors", "10", out=subprocess.DEVNULL, err=gone) == 0
    [verdict] = [path.read_text() for path in (user.folder / "runs").glob("*/log.txt")]
    assert verdict.endswith("verdict: identical\n")


@pytest.mark.parametrize("closed", [">&-", "<&- 2>&-"])
def test_what_is_closed_ends_no_command(closed: str) -> None:
    """Nor is it a place for the next file, which would get what libraries say."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *HARNESS, "models", "list"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"acas_coc" in done.stdout) == (closed != ">&-")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_ends_a_run_leaves_the_board_as_it_was(user: User, number: signal.Signals) -> None:
    """Also who says so more than once."""
    begun, restored = user.folder / "begun", user.folder / "restored"
    user = user.with_local(f"host: {{setup: [touch {begun}], teardown: [touch {restored}]}}")
    process = user.start(*RUN, "--vectors", "400000")
    deadline = Deadline.after(TIMEOUT_S)
    while not begun.exists() and not deadline.passed:
        time.sleep(0.01)
    while not restored.exists() and process.poll() is None:
        process.send_signal(number)
        time.sleep(0.01)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, "go on with: harness run --resume" in err) == (3, True), out + err
    assert restored.exists()

"""Real processes, on real leashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.applications.nightly import job_supervisor
from harness.applications.nightly.job_commands import QUEUE_S
from harness.applications.nightly.lock import alone
from harness.applications.nightly.process_pool import Children, last_lines
from harness.applications.nightly.result_parser import Said
from harness.core.errors import ToolError

PATIENCE_S = 20.0
RESTORE = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
try:
    (folder / "part").write_text(str(__import__("os").getpid()))
    (folder / "part").rename(folder / "began")  # who finds it finds all of it, and an interrupt is caught
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.2)
    (folder / "restored").touch()
    sys.exit(3)
"""
STUBBORN = RESTORE.replace("    sys.exit(3)", "    time.sleep(60)")


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with (tmp_path / "lock").open("w") as lock:
        made = Children([sys.executable, "-I", "-S", "-c"], lock.fileno(), grace_s=10.0)
        yield made
        made.stop()


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def start(children: Children, folder: Path, script: str, limit_s: float = 60.0) -> Path:
    log = folder / "log"
    children.start("a", [script, str(folder)], log, limit_s)
    return log


def ended(children: Children) -> Said:
    """What the next command that has ended said."""
    told = children.wait()
    assert told
    return told[1]


def is_gone(pid: int) -> bool:
    """Ended, whether or not anybody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_a_command_says_comes_back(children: Children, tmp_path: Path) -> None:
    script = "import sys; print('{}'); print('one\\n\\ntwo\\n\\x1b[31mthree\\nfour', file=sys.stderr); sys.exit(1)"
    log = start(children, tmp_path, script)
    name, said, took_s = children.wait() or ("", Said(-1, ""), 0.0)
    assert (name, said) == ("a", Said(1, "{}\n", ("two", "[31mthree", "four")))
    assert took_s > 0
    assert log.read_text().startswith("=== ")
    start(children, tmp_path, "pass")
    assert ended(children) == Said(0, "", ())
    assert log.read_text().count("=== ") == 2


def test_a_command_stands_in_a_queue_for_a_minute(children: Children, tmp_path: Path) -> None:
    """The night comes back later, and meanwhile does something else."""
    start(children, tmp_path, "import os; print(os.environ['HARNESS_LOCK_WAIT_S'])")
    assert float(ended(children).out) == QUEUE_S


def test_the_night_looks_up_while_commands_work(children: Children, tmp_path: Path) -> None:
    assert children.wait(0.01) is None
    start(children, tmp_path, "import time; time.sleep(60)")
    assert children.wait(0.01) is None
    assert list(children.running) == ["a"]


def test_who_ends_first_is_told_first(children: Children, tmp_path: Path) -> None:
    """The slow one waits for the quick one's end."""
    slow = "import pathlib, time\nwhile not pathlib.Path('%s').exists(): time.sleep(0.01)" % (tmp_path / "go")
    for name, script in (("slow", slow), ("quick", "print('quick')")):
        children.start(name, [script], tmp_path / name, 60.0)
    assert ended(children).out == "quick\n"
    (tmp_path / "go").touch()
    assert ended(children).out == ""


def test_at_its_limit_a_command_may_restore_its_board(children: Children, tmp_path: Path) -> None:
    start(children, tmp_path, RESTORE, limit_s=2.0)
    assert ended(children).code == job_supervisor.TIMED_OUT
    assert (tmp_path / "restored").exists()


def test_one_that_does_not_end_is_killed_with_all_its_children(children: Children, tmp_path: Path) -> None:
    children.grace_s = 0.5
    script = "import subprocess; print(subprocess.Popen(['sleep', '61']).pid, flush=True)\n" + STUBBORN
    start(children, tmp_path, script, limit_s=2.0)
    said = ended(children)
    assert said.code == job_supervisor.TIMED_OUT
    assert is_gone(int((tmp_path / "began").read_text()))
    until(lambda: is_gone(int(said.out)))


def test_what_a_command_leaves_behind_ends_with_it(children: Children, tmp_path: Path) -> None:
    """As one that the kernel has killed for its memory."""
    script = "import os, subprocess; print(subprocess.Popen(['sleep', '62']).pid, flush=True); os.kill(os.getpid(), 9)"
    start(children, tmp_path, script)
    said = ended(children)
    until(lambda: is_gone(int(said.out)))


def test_a_verdict_that_comes_in_the_last_moment_counts(children: Children, tmp_path: Path) -> None:
    start(children, tmp_path, RESTORE.replace("sys.exit(3)", "sys.exit(1)"), limit_s=2.0)
    assert ended(children).code == 1


def test_a_killed_command_is_told_as_such(children: Children, tmp_path: Path) -> None:
    start(children, tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert ended(children).code == 128 + signal.SIGKILL


def test_all_are_stopped_and_may_restore_their_boards(children: Children, tmp_path: Path) -> None:
    start(children, tmp_path, RESTORE)
    until((tmp_path / "began").exists)
    children.stop()
    assert (tmp_path / "restored").exists()
    assert children.running == {}


@pytest.mark.parametrize("ignored", [False, True])
def test_when_the_night_is_killed_its_commands_restore_their_boards_and_end(tmp_path: Path, *, ignored: bool) -> None:
    """Also where it was started in a shell's background, which ignores Ctrl-C.  The next night waits for them."""
    night = _night(tmp_path, RESTORE, ignored=ignored)
    try:
        until((tmp_path / "began").exists)
        pid = int((tmp_path / "began").read_text())
        night.kill()
        night.wait()
        with alone(tmp_path, lambda _text: None):
            assert is_gone(pid)
        assert (tmp_path / "restored").exists()
    finally:
        night.kill()


def test_when_the_leash_is_killed_too_its_command_dies(tmp_path: Path) -> None:
    night = _night(tmp_path, RESTORE)
    try:
        until((tmp_path / "began").exists)
        pid = int((tmp_path / "began").read_text())
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        until(lambda: is_gone(pid))
        assert not (tmp_path / "restored").exists()
    finally:
        night.kill()
        night.wait()


def _night(folder: Path, script: str, *, ignored: bool = False) -> subprocess.Popen[bytes]:
    """A process that is a night as far as its commands see."""
    code = f"""
import pathlib, signal, sys, time
from harness.applications.nightly.lock import alone
from harness.applications.nightly.process_pool import Children
signal.signal(signal.SIGINT, signal.SIG_IGN if {ignored} else signal.default_int_handler)
folder = pathlib.Path(sys.argv[1])
with alone(folder, print) as lock:
    children = Children([sys.executable, "-c"], lock)
    children.start("a", [sys.argv[2], str(folder)], folder / "log", 60.0)
    children.wait()
"""
    return subprocess.Popen([sys.executable, "-c", code, str(folder), script])


def test_a_second_night_of_the_same_runs_is_refused_with_words(tmp_path: Path) -> None:
    with alone(tmp_path, print):
        with pytest.raises(ToolError, match=rf"another night is running here: pid {os.getpid()}, since 20") as caught:
            alone(tmp_path, print).__enter__()
        assert caught.value.hint
    with alone(tmp_path, print):
        pass


@pytest.mark.parametrize("content", ["", "[", "[]", "{}", '{"pid": "x", "since": 1}'])
def test_whatever_the_lock_says_it_locks(tmp_path: Path, content: str) -> None:
    with alone(tmp_path, print):
        (tmp_path / "nights" / "lock").write_text(content)
        with pytest.raises(ToolError, match="another process"):
            alone(tmp_path, print).__enter__()


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "\n" + "y" * 500 + "\nlast\n")
    assert last_lines(log) == ("x" * 300, "y" * 300, "last")

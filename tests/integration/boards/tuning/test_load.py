"""Loads by the real stress-ng on this machine, also through a real SSH server: that they run, and that they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from harness.boards.local import LocalBoard
from harness.boards.profile import ItemProfile, Profile, Timing
from harness.boards.session import Board, Completed
from harness.boards.ssh import Limits, SshBoard
from harness.boards.tuning import Load, LoadName, loaded, take
from harness.boards.tuning.load import PID_FILE, RECIPES, arguments, cores_of
from harness.core.errors import BoardError, ConnectionFailed
from tests.support.boards import sshd
from tests.support.tuning.system import board, on_board

CORES = os.cpu_count() or 1
LIMITS = Limits(connect_s=5, silence_s=5)

needs_stress = pytest.mark.skipif(
    shutil.which("stress-ng") is None, reason="apt-get install --no-install-recommends stress-ng"
)


def this_machine() -> Profile:
    """With one item, on core 0."""
    return board(Timing(), cores=CORES, items={"network": ItemProfile(target="c", core=0)})


@contextmanager
def loading(
    name: LoadName, work: Path, session: Board | None = None, notes: list[str] | None = None, limit_s: float = 60
) -> Iterator[Load]:
    notify = notes.append if notes is not None else print
    work.mkdir(exist_ok=True)
    with loaded(name, this_machine(), session or LocalBoard(), notify, work=on_board(work), limit_s=limit_s) as load:
        yield load


def pid_in(work: Path) -> int:
    return int((work / PID_FILE).read_text())


def await_end(pid: int) -> None:
    _await(lambda: not _alive(pid), f"process {pid} still runs")


def _alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _await(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)


# ---- what is asked of stress-ng


def test_a_load_runs_beside_the_items() -> None:
    assert cores_of(board(Timing()), None) == (2, 3)
    assert cores_of(board(Timing()), {0}) == (1, 2, 3)


def test_a_load_runs_anywhere_where_every_core_has_an_item_or_none_is_named() -> None:
    assert cores_of(board(Timing()), {0, 1, 2, 3}) == ()
    assert cores_of(board(Timing()), ()) == ()


def test_a_load_has_a_worker_for_each_of_its_cores_and_an_end() -> None:
    assert arguments(RECIPES["cpu"], (2, 3), 4, PurePosixPath("/work"), 90) == [
        *("stress-ng", "--cpu", "2", "--cpu-method", "matrixprod", "--taskset", "2,3"),
        *("--no-rand-seed", "--temp-path", "/work", "--metrics-brief", "--timeout", "90s"),
    ]
    assert arguments(RECIPES["network"], (), 4, PurePosixPath("/work"), 90)[:5] == [
        *("stress-ng", "--sock", "1", "--udp", "1")
    ]
    assert "--taskset" not in arguments(RECIPES["memory"], (), 4, PurePosixPath("/work"), 90)


# ---- that it runs


@needs_stress
@pytest.mark.parametrize(
    ("name", "stressors"), [("memory", ("stream",)), ("cpu", ("cpu",)), ("io", ("hdd",)), ("network", ("sock", "udp"))]
)
def test_a_load_works_and_ends_with_the_block(name: LoadName, stressors: Sequence[str], tmp_path: Path) -> None:
    notes: list[str] = []
    with loading(name, tmp_path, notes=notes) as load:
        load.check()
        pid, before = pid_in(tmp_path), take(LocalBoard())
        assert _alive(pid)
        _await(lambda: _worked(before, 20) or name == "io", "the processors idle")
        load.check()
        assert load.metrics == ""
    await_end(pid)
    assert load.failure == ""
    assert load.version in notes[0]
    assert [word for word in stressors if f" {word} " in load.metrics] == list(stressors)
    assert list(tmp_path.iterdir()) == []


def _worked(before: object, ticks: int) -> bool:
    earlier: dict[int, int] = getattr(before, "busy_ticks", {})
    return sum(take(LocalBoard()).busy_ticks.values()) - sum(earlier.values()) >= ticks


@needs_stress
@pytest.mark.skipif(CORES < 2, reason="one core only")
def test_workers_stay_on_their_cores(tmp_path: Path) -> None:
    with loading("cpu", tmp_path) as load:
        pid = pid_in(tmp_path)
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        allowed = {core for worker in workers for core in os.sched_getaffinity(int(worker))}
        assert len(workers) == CORES - 1
    assert allowed == set(load.cores) == set(range(1, CORES))


def test_idle_is_no_program(tmp_path: Path) -> None:
    notes: list[str] = []
    with loading("idle", tmp_path, notes=notes) as load:
        load.check()
        assert (load.argv, load.version) == ((), "")
    assert notes == []


# ---- that it does not run


class Elsewhere(LocalBoard):
    """This machine with another folder of programs before the others, or none but that."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        return super().run(["/usr/bin/env", f"PATH={self.path}", *argv], timeout_s)


def programs(folder: Path, script: str) -> Elsewhere:
    """This machine with a stress-ng that is this script."""
    folder.mkdir()
    (folder / "stress-ng").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "stress-ng").chmod(0o755)
    return Elsewhere(f"{folder}:{os.environ['PATH']}")


def test_a_board_without_stress_ng_is_told_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "rm", "tr"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    with (
        pytest.raises(BoardError, match="the board has no stress-ng") as caught,
        loading("cpu", tmp_path / "work", Elsewhere(str(tmp_path / "bin"))),
    ):
        pytest.fail("the block is not reached")
    assert caught.value.hint == "there, run: sudo apt-get install --no-install-recommends stress-ng"


def test_a_load_that_does_not_start_is_told_in_its_own_words(tmp_path: Path) -> None:
    version = '[ "$1" != --version ] || { echo stress-ng, version 9.9 x; exit; }'
    session = programs(tmp_path / "bin", f"{version}; echo no such option >&2; exit 1")
    with (
        pytest.raises(BoardError, match="the load cpu does not run: no such option") as caught,
        loading("cpu", tmp_path / "work", session),
    ):
        pytest.fail("the block is not reached")
    assert caught.value.hint.startswith("try there: stress-ng --cpu ")


@needs_stress
def test_a_load_that_ends_before_the_measurement_is_told(tmp_path: Path) -> None:
    notes: list[str] = []
    with loading("cpu", tmp_path, notes=notes, limit_s=1) as load:
        _await(lambda: load.running is not None and load.running.done(), "it does not end")
        with pytest.raises(
            BoardError, match=r"the load cpu has ended while times were measured: .*; .* successful run"
        ):
            load.check()
    assert load.failure.startswith("it ended before the measurement: ")
    assert notes[1] == f"warning: load cpu: {load.failure}"
    assert " cpu " in load.metrics


# ---- that it ends


@needs_stress
def test_an_exception_ends_the_load(tmp_path: Path) -> None:
    pids: list[int] = []

    def fail() -> None:
        pids.append(pid_in(tmp_path))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), loading("cpu", tmp_path):
        fail()
    await_end(pids[0])


PROGRAM = """
import sys, time
from pathlib import Path
from tests.integration.boards.tuning.test_load import loading
with loading("cpu", Path(sys.argv[1])):
    print("running", flush=True)
    time.sleep(600)
"""


@contextmanager
def program(work: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that has this machine loaded, and the process id of the load."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(work)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert any("running" in line for line in process.stdout)
            yield process, pid_in(work)
        finally:
            process.kill()


@needs_stress
def test_an_interrupt_ends_the_load(tmp_path: Path) -> None:
    with program(tmp_path) as (process, pid):
        process.send_signal(signal.SIGINT)
        await_end(pid)
        process.wait(20)
    assert list(tmp_path.iterdir()) == []


@needs_stress
@pytest.mark.parametrize("name", ["idle", "cpu"])
def test_the_load_of_a_killed_process_ends_with_the_next(name: LoadName, tmp_path: Path) -> None:
    with program(tmp_path) as (process, pid):
        process.kill()
        process.wait()
        assert _alive(pid)
        with loading(name, tmp_path):
            assert not _alive(pid)


def test_a_process_that_has_the_number_of_a_former_load_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / PID_FILE).write_text(f"{other.pid}\n")
        with loading("idle", tmp_path):
            assert other.poll() is None
        other.kill()


@needs_stress
def test_one_session_over_ssh_serves_the_load_and_the_measurement(server: sshd.Server, tmp_path: Path) -> None:
    with SshBoard.connect(server.address, LIMITS) as session:
        with loading("cpu", tmp_path, session) as load:
            pid = pid_in(tmp_path)
            said = [session.run(["echo", str(number)], 10).stdout for number in range(20)]
            load.check()
        assert said == [b"%d\n" % number for number in range(20)]
        assert " cpu " in load.metrics
    await_end(pid)


@needs_stress
def test_a_load_ends_with_the_connection(server: sshd.Server, tmp_path: Path) -> None:
    pids, notes = list[int](), list[str]()
    with (
        sshd.Link(server.port) as link,
        SshBoard.connect(server.address_behind(link.port), LIMITS) as session,
        pytest.raises(ConnectionFailed),
        loading("cpu", tmp_path, session, notes) as load,
    ):
        _cut(link, session, pids, tmp_path)
    await_end(pids[0])
    assert "the connection was cut" in load.failure
    assert notes[1] == f"warning: load cpu: {load.failure}"


def _cut(link: sshd.Link, session: Board, pids: list[int], work: Path) -> None:
    pids.append(pid_in(work))
    link.cut()
    session.run(["true"], 5)

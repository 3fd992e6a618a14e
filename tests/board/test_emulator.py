"""The emulated board's life: started by the first user, shared, gone with the last, whatever happens to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness import workspace
from harness.board.emulator import Endpoint, Machine, emulated
from harness.board.ssh import Address, SshBoard
from harness.errors import RequestError, ToolError

CACHE = workspace.find(None, None).cache
NAME = "lifetest"  # held by this process while its tests run
ALONE = "endtest"  # held by other processes only
MACHINE = Machine(cpu="cortex-a53", cores=2, memory_mib=256, disk_mib=16)

USER = f"""
import sys, time
from pathlib import Path
from harness.board.emulator import Machine, emulated
with emulated(sys.argv[1], {MACHINE!r}, Path({str(CACHE)!r}), lambda text: None) as endpoint:
    print(endpoint.port, flush=True)
    time.sleep(600)
"""


def _session(endpoint: Endpoint) -> SshBoard:
    return SshBoard.connect(
        Address(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            key=endpoint.key,
            known_hosts=endpoint.known_hosts,
        )
    )


def _say(board: SshBoard, *argv: str) -> str:
    return board.run(argv, 20).stdout.decode().strip()


def _another_user(name: str) -> tuple[subprocess.Popen[str], int]:
    """A process that uses the board until it is stopped, and the port that it got."""
    process = subprocess.Popen([sys.executable, "-c", USER, name], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, int(process.stdout.readline())


def _state(name: str) -> Path:
    return CACHE / "emulator" / name / "state.json"


def _supervisor(name: str) -> int:
    pid: int = json.loads(_state(name).read_text())["supervisor_pid"]
    return pid


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _becomes_true(condition: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    end_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.05)
    return condition()


def _gone(*pids: int) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with emulated(NAME, MACHINE, CACHE, print) as endpoint:
        yield endpoint


def test_it_is_a_linux_on_aarch64_with_the_right_time_and_name(endpoint: Endpoint) -> None:
    with _session(endpoint) as board:
        assert _say(board, "uname", "-m") == "aarch64"
        assert _say(board, "hostname") == NAME
        assert _say(board, "nproc") == "2"
        there = int(_say(board, "date", "+%s"))
        assert abs(there - datetime.now(UTC).timestamp()) < 15
        size_kib = int(_say(board, "df", "-k", "/board").split()[-5])
        assert size_kib == MACHINE.disk_mib * 1024


def test_a_second_user_gets_the_same_board_and_does_not_take_it_along(endpoint: Endpoint) -> None:
    with _session(endpoint) as board:
        boot = _say(board, "cat", "/proc/sys/kernel/random/boot_id")
    process, port = _another_user(NAME)
    assert port == endpoint.port
    process.kill()
    process.wait()
    time.sleep(1.0)
    with _session(endpoint) as board:
        assert _say(board, "cat", "/proc/sys/kernel/random/boot_id") == boot


def test_another_machine_under_the_same_name_is_refused(endpoint: Endpoint) -> None:
    assert endpoint.port
    other = Machine(cpu="cortex-a72", cores=1, memory_mib=256, disk_mib=16)
    with pytest.raises(RequestError, match="cpu cortex-a53, cores 2"), emulated(NAME, other, CACHE, print):
        pass


def test_a_board_that_died_is_started_again(endpoint: Endpoint) -> None:
    """Runs last of those that share a board: it takes it away from under them."""
    supervisor = _supervisor(NAME)
    (qemu,) = _children(supervisor)
    os.kill(qemu, signal.SIGKILL)
    assert _becomes_true(lambda: not _state(NAME).exists())
    with emulated(NAME, MACHINE, CACHE, print) as again, _session(again) as board:
        assert again.port != endpoint.port
        assert _say(board, "uname", "-m") == "aarch64"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_the_last_user_takes_the_board_along_however_it_ends(end: signal.Signals) -> None:
    process, _ = _another_user(ALONE)
    supervisor = _supervisor(ALONE)
    (qemu,) = _children(supervisor)
    process.send_signal(end)
    process.wait(10)
    assert _becomes_true(lambda: _gone(supervisor, qemu))
    assert not _state(ALONE).exists()


def test_qemu_dies_with_its_supervisor() -> None:
    process, _ = _another_user(ALONE)
    supervisor = _supervisor(ALONE)
    (qemu,) = _children(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    assert _becomes_true(lambda: _gone(qemu))
    process.kill()
    process.wait()


def test_an_unknown_processor_is_told_in_qemus_words() -> None:
    machine = Machine(cpu="cortex-z80", cores=1, memory_mib=256, disk_mib=16)
    with pytest.raises(ToolError, match="cortex-z80"), emulated("badcpu", machine, CACHE, print):
        pass


def test_a_missing_qemu_comes_with_the_line_that_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as caught, emulated(NAME, MACHINE, CACHE, print):
        pass
    assert caught.value.hint == "run: sudo apt-get install --no-install-recommends qemu-system-arm"


def test_the_private_key_is_nobody_elses(endpoint: Endpoint) -> None:
    assert endpoint.key.stat().st_mode & 0o777 == 0o600
    assert (endpoint.key.parent / "host").stat().st_mode & 0o777 == 0o600
    assert endpoint.key.parent.stat().st_mode & 0o777 == 0o700

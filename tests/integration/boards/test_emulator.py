from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from harness.boards.emulator import QEMU, Endpoint, Machine, emulated
from harness.core.errors import RequestError, ToolError
from tests.support.boards import sshd
from tests.support.boards.guest import sharing_guest

NAME = "bench"
MACHINE = Machine(cpu="cortex-a53", cores=2, memory_mib=384, disk_mib=16)

USER = f"""
import sys, time
from pathlib import Path
from harness.boards.emulator import Machine, emulated
with emulated({NAME!r}, {MACHINE!r}, Path(sys.argv[1]), lambda text: None):
    print("here", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of our own, but for the guest: its packages are downloaded once, into the user's."""
    return sharing_guest(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def board(cache: Path) -> Iterator[Endpoint]:
    """One boot for the tests of a board that is well; the last use of it is here."""
    with emulated(NAME, MACHINE, cache, print) as endpoint:
        yield endpoint
    _await_nothing(cache)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A cache in which no board runs."""
    return sharing_guest(tmp_path)


@contextmanager
def _login(at: Endpoint) -> Iterator[paramiko.SSHClient]:
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(at.known_hosts))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        client.connect(
            at.host,
            at.port,
            at.user,
            key_filename=str(at.key),
            allow_agent=False,
            look_for_keys=False,
            timeout=30,
            banner_timeout=30,
            auth_timeout=30,
        )
        yield client


def _say(client: paramiko.SSHClient, command: str) -> str:
    _, out, err = client.exec_command(command, timeout=30)
    return out.read().decode().strip() + err.read().decode().strip()


def _state(cache: Path) -> dict[str, int]:
    state: dict[str, int] = json.loads((cache / "emulator" / NAME / "state.json").read_text())
    return state


def _supervisors(cache: Path) -> list[int]:
    return _running(lambda _, argv: b"harness.boards.supervisor" in argv and bytes(cache / "emulator" / NAME) in argv)


def _qemus(cache: Path) -> list[int]:
    """Those that work in the board's folder."""
    folder = cache / "emulator" / NAME
    return _running(lambda pid, argv: argv[0] == QEMU.encode() and Path(f"/proc/{pid}/cwd").readlink() == folder)


def _running(wanted: Callable[[int, list[bytes]], bool]) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if wanted(int(process.name), (process / "cmdline").read_bytes().split(b"\0")):
                found.append(int(process.name))
    return found


def _await(condition: Callable[[], object], timeout_s: float = 60) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "timed out"
        time.sleep(0.02)


def _await_nothing(cache: Path) -> None:
    _await(lambda: not _supervisors(cache) and not _qemus(cache))
    left = {path.name for path in (cache / "emulator" / NAME).iterdir()}
    assert left <= {"users", "start", "alive", "qemu.log", "console.log"}


@contextmanager
def _user(cache: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that uses the board until it is killed; it says so when it has it."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(cache)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _has_the_board(user: subprocess.Popen[str]) -> bool:
    assert user.stdout
    return user.stdout.readline() == "here\n"


def test_board_is_the_machine_that_was_asked_for(board: Endpoint) -> None:
    with _login(board) as client:
        assert _say(client, "uname -m; hostname; nproc") == f"aarch64\n{NAME}\n2"
        assert _say(client, "grep -m1 -i 'cpu part' /proc/cpuinfo").endswith("0xd03")  # Cortex-A53
        assert _say(client, "df -m /board | tail -1 | cut -c21-").split()[0] == "16"
        assert 300 < int(_say(client, "free -m | grep Mem").split()[1]) <= 384
        assert abs(int(_say(client, "date +%s")) - time.time()) < 60


def test_disk_of_the_board_can_be_full(board: Endpoint) -> None:
    with _login(board) as client:
        told = _say(client, "dd if=/dev/zero of=/board/f bs=1M count=20; stat -c %s /board/f; rm /board/f")
    assert "No space left on device" in told
    assert str(16 << 20) in told


@pytest.mark.parametrize(
    "command",
    [
        "echo x | sha256sum",
        "timeout 5 cat /dev/null",
        "taskset 2 true",
        "chrt -f 1 true",
        "ps | grep -q sshd",
        "sleep 9 & kill $!",
        "echo x >/dev/shm/x && rm /dev/shm/x",
        "test -r /sys/kernel/notes",
        "echo x >/tmp/x && rm /tmp/x",
    ],
)
def test_board_has_the_tools_that_are_needed(board: Endpoint, command: str) -> None:
    with _login(board) as client:
        assert _say(client, f"({command}) >/dev/null && echo fine") == "fine"


def test_board_serves_files(board: Endpoint, tmp_path: Path) -> None:
    content = os.urandom(100_000)
    (tmp_path / "sent").write_bytes(content)
    with _login(board) as client, client.open_sftp() as files:
        files.put(str(tmp_path / "sent"), "/board/sent")
        files.get("/board/sent", str(tmp_path / "got"))
        files.remove("/board/sent")
    assert (tmp_path / "got").read_bytes() == content


def test_second_user_shares_the_board(board: Endpoint, cache: Path) -> None:
    told: list[str] = []
    before = _state(cache)
    with emulated(NAME, MACHINE, cache, told.append) as shared:
        assert shared == board
    assert not told
    with _login(board) as client:  # one user has left, the board stays
        assert _say(client, "uname -m") == "aarch64"
    assert _state(cache) == before


def test_another_machine_of_that_name_is_refused_while_it_is_in_use(board: Endpoint, cache: Path) -> None:
    assert board
    with pytest.raises(RequestError, match=r"in use as another emulated machine .*cores 2"):
        emulated(NAME, replace(MACHINE, cores=4), cache, print).__enter__()


def test_only_the_boards_own_host_key_is_accepted(board: Endpoint, tmp_path: Path) -> None:
    sshd.make_key(tmp_path / "other")
    kind, key = (tmp_path / "other.pub").read_text().split()[:2]
    (tmp_path / "known_hosts").write_text(f"[{board.host}]:{board.port} {kind} {key}\n")
    with pytest.raises(paramiko.BadHostKeyException), _login(replace(board, known_hosts=tmp_path / "known_hosts")):
        pass


def test_only_the_users_key_is_accepted(board: Endpoint, tmp_path: Path) -> None:
    other = sshd.make_key(tmp_path / "other")
    with pytest.raises(paramiko.AuthenticationException), _login(replace(board, key=other)):
        pass


def test_keys_are_private(board: Endpoint) -> None:
    assert {path.stat().st_mode & 0o777 for path in (board.key, board.key.with_name("host"))} == {0o600}


@pytest.mark.campaign
def test_dead_board_is_booted_anew_for_the_next_user(own: Path) -> None:
    with _user(own) as first:
        assert _has_the_board(first)
        killed = _state(own)
        os.kill(killed["qemu_pid"], signal.SIGKILL)
        with emulated(NAME, MACHINE, own, print) as endpoint:
            assert _state(own)["qemu_pid"] != killed["qemu_pid"]
            with _login(endpoint) as client:
                assert _say(client, "uname -m") == "aarch64"
    _await_nothing(own)


@pytest.mark.campaign
def test_users_that_are_killed_leave_nothing_behind(own: Path) -> None:
    with _user(own) as first, _user(own) as second:
        _await(lambda: _qemus(own))  # one of the two boots the board, the other waits for it
        booted_by = first if _starts(own, first.pid) else second
        other = second if booted_by is first else first
        booted_by.kill()
        assert _has_the_board(other)
        other.kill()
        _await_nothing(own)


def test_ctrl_c_while_booting_leaves_nothing_behind(own: Path) -> None:
    with _user(own) as user:
        _await(lambda: _qemus(own))
        user.send_signal(signal.SIGINT)
        user.wait(60)
        _await_nothing(own)


def test_qemu_dies_with_its_supervisor(own: Path) -> None:
    with _user(own) as user:
        _await(lambda: _qemus(own) and len(_supervisors(own)) == 1)  # who started it may still be about to end
        (supervisor,) = _supervisors(own)
        os.kill(supervisor, signal.SIGKILL)
        assert user.wait(60) == 1  # its board did not boot
        _await(lambda: not _qemus(own))


def _starts(cache: Path, pid: int) -> bool:
    """Whether this process holds the lock under which a board is started (/proc/locks: ... FLOCK ... PID ...)."""
    inode = (cache / "emulator" / NAME / "start").stat().st_ino
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" not in line]
    return any(fields[4] == str(pid) and fields[5].endswith(f":{inode}") for fields in locks)


def test_qemus_own_words_are_told(own: Path) -> None:
    with pytest.raises(ToolError, match=r"did not boot: .*unable to find CPU model 'cortex-z9'") as caught:
        emulated(NAME, replace(MACHINE, cpu="cortex-z9"), own, print).__enter__()
    assert "console.log" in caught.value.hint
    _await_nothing(own)


def test_missing_qemu_is_told_with_the_line_that_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=f"{QEMU} is not on this machine") as caught:
        emulated(NAME, MACHINE, tmp_path, print).__enter__()
    assert "apt-get install --no-install-recommends qemu-system-arm" in caught.value.hint

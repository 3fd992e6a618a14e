"""A place of labgrid, contended for by two hosts that know nothing of each other but the coordinator."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from harness.boards.locks import hold, power
from harness.boards.locks.labgrid import Watch
from harness.boards.locks.lease_guard import BoardLost, Held
from harness.boards.locks.ticket import user_name
from harness.boards.profile import Profile
from harness.core.errors import BoardError, ConnectionFailed, HarnessError, RequestError, ToolError
from tests.support.boards.processes import await_none
from tests.support.locks.farm import ROOT, TOOLS, Farm, farm

HOLD = """
import sys
from pathlib import Path
from harness.boards import profile
from harness.boards.locks import hold, labgrid as places
places.WAIT_S = 1.0
labgrid = profile.Labgrid(place="xavier", coordinator=sys.argv[2], client=sys.argv[3])
board = profile.load(Path("boards.yaml"), {}).board("host").model_copy(update={"labgrid": labgrid})
with hold(board, Path(sys.argv[1]), "run", float(sys.argv[4]), lambda text: print(text, flush=True)) as held:
    print("held", flush=True)
    for line in sys.stdin:
        held.check()
"""
HERE = "here/ana"

pytestmark = pytest.mark.skipif(not TOOLS.exists(), reason="labgrid is not here: make labgrid")


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    with farm(tmp_path_factory.mktemp("farm")) as started:
        yield started


@pytest.fixture
def board(racks: Farm, host: Profile, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Seen from the host `here`."""
    monkeypatch.setenv("LG_HOSTNAME", "here")
    monkeypatch.setenv("LG_USERNAME", "ana")
    return racks.board(host)


class There:
    """A process on the other host, whose lease is short."""

    def __init__(self, racks: Farm, folder: Path, wait_s: float = 0, lease_s: float = 1) -> None:
        words = [str(folder / "there"), racks.coordinator, str(racks.tools / "labgrid-client"), str(wait_s)]
        names = {"LG_HOSTNAME": "there", "LG_USERNAME": "bo", "HARNESS_LEASE_S": str(lease_s)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-c", HOLD, *words]
        self.process = subprocess.Popen(command, text=True, cwd=ROOT, env=os.environ | names, bufsize=1, **pipes)  # type: ignore[call-overload]

    def line(self) -> str:
        return str(self.process.stdout.readline()).rstrip("\n")

    def end(self) -> str:
        """Its last words."""
        return str(self.process.communicate(timeout=60)[1])


@contextmanager
def there(racks: Farm, folder: Path, wait_s: float = 0, lease_s: float = 60) -> Iterator[There]:
    other = There(racks, folder, wait_s, lease_s)
    try:
        yield other
    finally:
        if other.process.poll() is None:
            other.process.kill()
            other.process.communicate()


@pytest.mark.campaign
def test_two_hosts_have_a_place_one_after_the_other(racks: Farm, board: Profile, tmp_path: Path) -> None:
    with ExitStack() as stack:
        with hold(board, tmp_path / "here", "run", 0, print):
            other = stack.enter_context(there(racks, tmp_path, wait_s=60))
            assert other.line() == f"place xavier of labgrid is in use by {HERE}; you are 1st of 1, waiting"
        assert other.line() == "held"
        with pytest.raises(BoardError) as caught, hold(board, tmp_path / "here", "run", 0, print):
            pass
        assert "place xavier of labgrid is in use by there/bo; not free after" in caught.value.message
        assert "-p xavier release --kick" in caught.value.hint
        other.process.kill()  # and yet it is released
        racks.await_holder("None")
    assert racks.client("reservations") == ""


def test_a_holder_that_hangs_loses_the_place_and_ends(racks: Farm, board: Profile, tmp_path: Path) -> None:
    with there(racks, tmp_path, lease_s=2) as other:
        assert other.line() == "held"
        os.kill(other.process.pid, signal.SIGSTOP)
        told: list[str] = []
        with hold(board, tmp_path / "here", "run", 60, told.append):
            os.kill(other.process.pid, signal.SIGCONT)
            assert "BoardLost: labgrid's place xavier was taken away: no sign of life for " in other.end()
            assert racks.holder() == HERE
    # On a slow machine the place may be released before it is asked for, or before its queue is.
    assert [words for words in told if not words.startswith("place xavier of labgrid is in use by there/bo")] == []


def stop_as_a_service(watcher: int) -> None:
    """All processes of one that is stopped are sent a signal; a watcher waits for its holder's end."""
    while not int(re.findall(r"SigIgn:\s(\S+)", Path(f"/proc/{watcher}/status").read_text())[0], 16) >> 14 & 1:
        time.sleep(0.02)  # it is still starting
    os.kill(watcher, signal.SIGTERM)


def kicked(held: Held, racks: Farm) -> None:
    """Work on the board for 20 s while somebody kicks its holder."""
    stop_as_a_service(watcher_of(os.getpid()))
    racks.client("-p", "xavier", "release", "--kick")
    for _ in range(200):
        time.sleep(0.1)
        held.check()


def test_a_holder_that_is_kicked_ends(racks: Farm, board: Profile, tmp_path: Path) -> None:
    message = "xavier was taken away: somebody released it"
    with pytest.raises(BoardLost, match=message), hold(board, tmp_path / "here", "run", 0, print) as held:
        kicked(held, racks)


def test_what_a_crash_of_the_host_leaves_is_taken_over(racks: Farm, board: Profile, tmp_path: Path) -> None:
    with there(racks, tmp_path) as other:
        assert other.line() == "held"
        _crash(other)
    with pytest.raises(BoardError, match="in use by there/bo"), hold(board, tmp_path / "here", "run", 0, print):
        pass
    with there(racks, tmp_path) as again:
        assert "left acquired by a run of yours that is gone" in again.line()
        assert again.line() == "held"
        again.end()


def watcher_of(pid: int) -> int:
    """The process that watches over the place of another."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [watcher] = [pid for pid in children if b"heartbeat.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(watcher)


def _crash(other: There) -> None:
    """End a holder and its watcher so that neither can do anything about it."""
    os.kill(watcher_of(other.process.pid), signal.SIGKILL)
    other.process.kill()
    other.process.communicate()


def test_a_place_acquired_by_hand_is_used_switched_and_stays_acquired(
    racks: Farm, board: Profile, tmp_path: Path
) -> None:
    racks.client("-p", "xavier", "acquire")
    told: list[str] = []
    ((words, _),), _ = power.check_switch(board)
    with hold(board, tmp_path / "here", "power cycle", 0, told.append):
        subprocess.run(words, check=True)
    assert (told, racks.holder()) == (["place xavier of labgrid is yours already, and stays so"], HERE)
    assert racks.switched == [("0", "0"), ("0", "1")]
    racks.client("-p", "xavier", "release")
    await_none(*racks.command("-x", racks.coordinator, "-p", "xavier", "monitor"))


def test_a_place_acquired_by_hand_while_a_run_waits_is_used_and_stays_acquired(
    racks: Farm, board: Profile, tmp_path: Path
) -> None:
    told: list[str] = []

    def take(text: str) -> None:
        """As soon as the run waits, take the place from whoever has it."""
        told.append(text)
        if "in use by there/bo" in text:
            racks.client("-p", "xavier", "release", "--kick")
            racks.client("-p", "xavier", "acquire")

    with there(racks, tmp_path) as other:
        assert other.line() == "held"
        with hold(board, tmp_path / "here", "run", 60, take):
            other.end()
    assert (told[-1], racks.holder()) == ("place xavier of labgrid is yours already, and stays so", HERE)
    racks.client("-p", "xavier", "release")


def test_who_has_acquired_the_place_by_hand_does_not_wait_for_who_waits_for_the_place(
    racks: Farm, board: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user of this machine is first in its queue; each would wait for what the other has."""
    monkeypatch.setenv("LG_HOSTNAME", socket.gethostname())
    monkeypatch.setenv("LG_USERNAME", user_name(os.getuid()))
    racks.client("-p", "xavier", "acquire")
    with ExitStack() as stack:
        other = stack.enter_context(there(racks, tmp_path, wait_s=60))
        assert "in use by " in other.line()
        with hold(board, tmp_path / "there", "run", 30, print):
            assert f"(pid {os.getpid()}, run)" in other.line(), "it waits for this process now"
        racks.client("-p", "xavier", "release")
        assert [line for line in iter(other.line, "held") if "waiting" not in line] == []


def test_a_watcher_that_is_stopped_stops_nobody() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(["true"]) as process:
        watch = Watch("xavier", ours, process)
        for _ in range(10_000):
            watch.check()


def test_what_is_missing_is_named(racks: Farm, host: Profile, tmp_path: Path) -> None:
    def failure(**changes: object) -> Exception:
        changed = host.model_copy(update={"labgrid": racks.labgrid().model_copy(update=changes)})
        with pytest.raises(HarnessError) as caught, hold(changed, tmp_path, "run", 0, print):
            pass
        return caught.value

    real = str(TOOLS / "labgrid-client")
    assert [type(failure(client="/nowhere")), type(failure(client=real, place="nowhere"))] == [ToolError, RequestError]
    assert type(failure(coordinator="127.0.0.1:1")) is ConnectionFailed

"""Health checks and power cycles, on this machine as a board and on one that answers as it is told."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from harness.boards.local import LocalBoard
from harness.boards.locks import health, power
from harness.boards.locks.health import TOOLS
from harness.boards.locks.lease_guard import BoardLost, Held
from harness.boards.profile import Power, Profile
from harness.boards.session import Board, Completed
from harness.core.errors import BoardError, ConnectionFailed, RequestError, ToolError


def looked(work: Path) -> dict[str, tuple[bool, str]]:
    with LocalBoard() as board:
        return {check.name: (check.ok, check.text) for check in health.look(board, PurePosixPath(work))}


def test_a_board_that_is_well(tmp_path: Path) -> None:
    work = tmp_path / "new folder's"
    for folder in ("runs/a", "runs/b", "bundles"):
        (work / folder).mkdir(parents=True)
    (work / "bundles" / "c.tar").touch()
    found = looked(work)
    assert all(ok for ok, _ in found.values())
    assert found["tools"] == (True, f"all {len(TOOLS)} are there")
    assert found["work folder"] == (True, f"{work} takes files")
    assert found["clock"] == (True, "agrees with this machine's")
    assert found["leftovers"][1].startswith("2 of runs, 1 bundles, 0 MiB")
    assert found["free disk"][1].replace(",", "").removesuffix(" MiB").isdigit()
    assert sorted(path.name for path in work.iterdir()) == ["bundles", "runs"]  # the check leaves nothing


def test_a_work_folder_that_takes_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = looked(tmp_path / "file" / "work")
    assert found["work folder"][0] is False
    assert "takes no files" in found["work folder"][1]
    assert found["tools"][0] is True


def test_tools_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in set(TOOLS) - {"tar", "sha256sum"} | {"df", "du"}:
        (bare / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", str(bare))
    assert looked(tmp_path / "work")["tools"] == (False, "missing: tar, sha256sum")


class Told(Board):
    """A board that answers every program with the same words."""

    def __init__(self, words: str, status: int = 0) -> None:
        self.words = words
        self.status = status

    def run(self, argv: object, timeout_s: float) -> Completed:  # noqa: ARG002 - Board's signature
        return Completed(self.status, self.words.encode(), b"\x1b[31mno shell")

    def close(self) -> None:
        """Nothing is open."""


WELL = """\
written /work
disk Filesystem 1024-blocks Used Available Capacity Mounted on
disk /dev/root 100000 50000 {disk} 50% /work
memory MemAvailable:    {memory} kB
clock {clock}
used 4 /work
"""


def told(**changes: object) -> dict[str, tuple[bool, str]]:
    answer = WELL.format(**{"disk": 50000, "memory": 500000, "clock": int(time.time())} | changes)
    return {check.name: (check.ok, check.text) for check in health.look(Told(answer), PurePosixPath("/work"))}


def test_too_little_room_is_a_fault_and_a_wrong_clock_is_told() -> None:
    assert told(disk=16383)["free disk"] == (False, "15 MiB, at least 16 MiB are needed")
    assert told(disk=16384)["free disk"] == (True, "16 MiB")
    assert told(memory=32767)["free memory"] == (False, "31 MiB, at least 32 MiB are needed")
    ok, text = told(clock=0)["clock"]
    assert (ok, text.endswith(" s behind this machine's: set it")) == (True, True)
    assert "ahead of" in told(clock=10**11)["clock"][1]
    assert told(clock="\x1b[2J")["clock"] == (True, "the board does not report its time")


def test_a_board_that_says_nothing_is_not_well() -> None:
    checks = health.look(Told(""), PurePosixPath("/work"))
    found = health.conclude("xavier", checks)
    assert (found.ok, found.part) == (False, "board")
    assert found.reason == "work folder: /work takes no files: no reason given"


def test_a_board_without_a_shell_is_told_without_what_steers_a_terminal() -> None:
    with pytest.raises(BoardError, match=r"the board's shell fails \(exit status 127\): \[31mno shell"):
        health.look(Told("", 127), PurePosixPath("/work"))


def test_only_old_leftovers_are_removed(tmp_path: Path) -> None:
    for name, days in (("runs/old", 10), ("runs/new", 0), ("bundles/old", 10), ("other/old", 10)):
        folder = tmp_path / name
        (folder / "out0").mkdir(parents=True)
        os.utime(folder, (time.time() - days * 86400,) * 2)
    for name, days in (("bundles/old.tar", 10), ("bundles/new.tar", 0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - days * 86400,) * 2)
    with LocalBoard() as board:
        assert health.clean(board, PurePosixPath(tmp_path), 7).text == "3 runs and bundles older than 7 days"
    left = sorted(f"{path.parent.name}/{path.name}" for path in tmp_path.glob("*/*"))
    assert left == ["bundles/new.tar", "other/old", "runs/new"]


# Power


class Kernel:
    """A board whose boot takes some looks, when its power is switched."""

    def __init__(self, switch: Path, boots_after: int = 2) -> None:
        self.switch = switch
        self.boots_after = boots_after
        self.asked = 0

    @contextmanager
    def connect(self) -> Iterator[Board]:
        switched = self.switch.exists() and "on" in self.switch.read_text()
        self.asked += switched
        if switched and self.asked <= self.boots_after:
            raise ConnectionFailed("it boots")
        yield Told(f"boot-{self.asked > self.boots_after}\n")


def switching(host: Profile, switch: Path, **changes: object) -> Profile:
    """A profile whose switch writes down what it was told."""
    script = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + ' ')"
    words = {f"{name}_command": (sys.executable, "-c", script, str(switch), name) for name in ("off", "on")}
    return host.model_copy(update={"power": Power(**words, off_s=0.1), "boot_s": 60.0} | changes)  # type: ignore[arg-type]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "POLL_S", 0.02)


def still_held() -> None:
    """Nobody has taken the board away."""


@pytest.mark.usefixtures("quick")
def test_a_board_is_switched_off_and_on_and_awaited(host: Profile, tmp_path: Path) -> None:
    kernel, said = Kernel(tmp_path / "switch"), []
    took_s = power.cycle(switching(host, kernel.switch), still_held, kernel.connect, said.append)
    assert kernel.switch.read_text() == "off on "
    assert (kernel.asked, 0 < took_s < 60, len(said)) == (3, True, 3)


@pytest.mark.usefixtures("quick")
def test_a_switch_that_switches_nothing_is_told(host: Profile, tmp_path: Path) -> None:
    board = host.model_copy(update={"power": Power(command=("true",)), "boot_s": 0.1})
    with pytest.raises(BoardError, match="answers as if its power had not been switched"):
        power.cycle(board, still_held, Kernel(tmp_path / "switch").connect, print)


@pytest.mark.usefixtures("quick")
def test_a_board_that_does_not_come_back_is_told(host: Profile, tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "switch", boots_after=10**6)
    with pytest.raises(BoardError, match=r"does not answer 0\.2 s after power-on"):
        power.cycle(switching(host, kernel.switch, boot_s=0.2), still_held, kernel.connect, print)


@pytest.mark.parametrize(
    ("command", "timeout_s", "message"),
    [
        (("/nowhere/switch",), 9, "cannot start /nowhere/switch: No such file or directory"),
        (("sh", "-c", "printf '\\033[31mjammed' >&2; exit 3"), 9, r"\(exit status 3\): \[31mjammed"),
        (("sleep", "60"), 0.1, r"sleep 60 did not end within 0\.1 s"),
    ],
)
def test_a_switch_that_fails_is_told(
    host: Profile, tmp_path: Path, command: tuple[str, ...], timeout_s: float, message: str
) -> None:
    board = host.model_copy(update={"power": Power(command=command, timeout_s=timeout_s)})
    with pytest.raises(ToolError, match=message):
        power.cycle(board, still_held, Kernel(tmp_path / "switch").connect, print)


def test_no_shell_sees_a_switch(host: Profile, tmp_path: Path) -> None:
    switch = ("echo", f"$(touch {tmp_path}/shell); touch {tmp_path}/shell")
    board = host.model_copy(update={"power": Power(command=switch), "boot_s": 0.01})
    with pytest.raises(BoardError):
        power.cycle(board, still_held, Kernel(tmp_path / "switch").connect, print)
    assert not (tmp_path / "shell").exists()


@pytest.mark.usefixtures("quick")
def test_a_board_that_is_lost_is_not_switched(host: Profile, tmp_path: Path) -> None:
    def lost() -> None:
        raise BoardLost("board host was taken away")

    kernel = Kernel(tmp_path / "switch")
    with pytest.raises(BoardLost):
        power.cycle(switching(host, kernel.switch), lost, kernel.connect, print)
    assert not kernel.switch.exists()
    with pytest.raises(BoardLost):
        power.cycle(switching(host, kernel.switch), still_held, Held(lost).kept, print)  # type: ignore[arg-type]
    assert not kernel.switch.exists()


def test_who_is_interrupted_leaves_no_board_switched_off(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(tmp_path / "switch")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        power.cycle(switching(host, kernel.switch), still_held, kernel.connect, print)
    assert kernel.switch.read_text() == "off on "


def test_a_board_without_a_switch_is_refused(host: Profile) -> None:
    with pytest.raises(RequestError, match="board host has no power switch"):
        power.check_switch(host)

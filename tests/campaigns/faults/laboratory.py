"""A laboratory in which everything can go wrong: an emulated board behind a way, a host with a small disk, its user."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import onnx
import yaml

from harness.boards.emulator import Endpoint, Machine, emulated
from harness.boards.ssh import Address, SshBoard
from harness.core.installation import ROOT
from harness.core.locking import exclusive
from tests.campaigns.faults import stage
from tests.campaigns.faults.stage import Step
from tests.campaigns.faults.tcp_proxy import LOOPBACK, Way
from tests.support.cli.command import Ended, User
from tests.support.cli.ready import Ready
from tests.support.dags import listing_2

NAME = "faultsboard"
MACHINE = Machine(cpu="cortex-a72", cores=2, memory_mib=512, disk_mib=32)
WORK = "/board"
CHUNKS, CHUNK = 3, 200
RUN = ("run", "--board", NAME, "--vectors", str(CHUNKS * CHUNK), "--chunk", str(CHUNK), "--trace", "0")
TIMEOUT_S = 100.0
PROGRAM_TIMEOUT_S = 6
DISK_MIB = 24


@dataclass(frozen=True)
class Scene:
    """A run in a process of its own, which waits at a step."""

    step: Step
    pid: int
    folder: Path
    waiting: socket.socket
    running: Future[Ended]

    def go(self) -> None:
        """Let it go on."""
        self.waiting.close()

    def ended(self) -> Ended:
        """What it said, when it has ended; a process that was killed has said nothing."""
        self.go()
        return self.running.result(TIMEOUT_S)


@dataclass
class Laboratory:
    """What there is, and the hands that break and mend it; `folder` is empty at first."""

    folder: Path
    cache: Path
    objects: Path
    endpoint: Endpoint = field(init=False)
    session: SshBoard = field(init=False)
    way: Way = field(init=False)
    ready: Ready = field(init=False)
    others: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._powered = ExitStack()
        with ExitStack() as stack:
            self.cache.mkdir(parents=True, exist_ok=True)  # no run of this user has made it yet
            stack.enter_context(exclusive(self.cache / f"{NAME}.lock"))  # what one breaks others would miss
            stack.callback(self._switch_off)
            self._switch_on()
            self.way = stack.enter_context(Way(self.endpoint.port))
            self.disk = stack.enter_context(_small_disk(self.folder / "disk"))
            self.boards, self.model, self.locks = self._boards(), self.folder / "network.onnx", self.folder / "locks"
            onnx.save_model(listing_2(), self.model)
            self.ready = stack.enter_context(stage.staged(self.objects, self._clock()))
            self._all = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def _boards(self) -> Path:
        """The board as a real one, whose address is that of the way."""
        kind, key = self.endpoint.known_hosts.read_text().split()[1:3]
        known_hosts = self.folder / "known_hosts"
        known_hosts.write_text(f"[{LOOPBACK}]:{self.way.port} {kind} {key}\n")
        address = {"host": LOOPBACK, "port": self.way.port, "user": self.endpoint.user, "key": str(self.endpoint.key)}
        boards = self.folder / "boards.yaml"
        boards.write_text(yaml.safe_dump({NAME: _profile() | {"address": address | {"known_hosts": str(known_hosts)}}}))
        return boards

    # ---- clocks

    def _clock(self) -> dict[str, str]:
        library, self.clock = self.folder / "clock.so", self.folder / "clock"
        source = str(Path(__file__).with_name("clock.c"))
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(library), source, "-ldl"], check=True)
        self.clock.write_bytes(bytes(8))
        return {"LD_PRELOAD": str(library), "FAULTS_CLOCK": str(self.clock)}

    def set_host_clock(self, offset_s: int) -> None:
        """What is added to the time of day, for the user's processes."""
        with self.clock.open("r+b") as file:
            file.write(struct.pack("=q", offset_s))

    # ---- the board

    def _switch_on(self) -> None:
        at = self.endpoint = self._powered.enter_context(emulated(NAME, MACHINE, self.cache, lambda _: None))
        address = Address(at.host, at.user, at.port, at.key, at.known_hosts)
        self.session = self._powered.enter_context(SshBoard.connect(address))

    def _switch_off(self) -> None:
        self._powered.close()

    def cut_power(self) -> None:
        """The board stops at once."""
        state = json.loads((self.endpoint.qmp.parent / "state.json").read_text())
        os.kill(state["qemu_pid"], signal.SIGKILL)

    def power_up(self) -> None:
        """A board that was off, or restarts, comes back where it was."""
        self._switch_off()
        self._switch_on()
        self.way.target = self.endpoint.port

    def on_board(self, *argv: str) -> str:
        """Run a command there, past the way; what it says."""
        done = self.session.run(argv, TIMEOUT_S)
        return (done.stdout + done.stderr).decode().strip()

    def shell(self, script: str) -> str:
        """The same in the board's shell."""
        return self.on_board("sh", "-c", script)

    def await_program(self, name: str = "inference") -> str:
        """The pid of a program of the user's that runs there."""
        for _ in range(500):
            found = self.on_board("pidof", name)
            if found:
                return found.split()[0]
            time.sleep(0.02)
        raise TimeoutError(f"{name} does not run on the board")

    # ---- the user

    @property
    def run(self) -> tuple[str, ...]:
        """The words of a run."""
        return (*RUN, "--model", str(self.model), "--json")

    def user(self, folder: Path) -> User:
        """Somebody with that folder."""
        folder.mkdir(parents=True, exist_ok=True)
        return User(folder, self.cache, self.boards)

    def harness(self, folder: Path, *arguments: str, **environment: str) -> Ended:
        """Run `harness ARGUMENTS` to its end, for somebody with that folder."""
        settings = {"TMPDIR": str(folder), "HARNESS_LOCKS": str(self.locks)}
        return self.user(folder)._forked(self.ready, arguments, settings | environment)

    def other_user(self) -> None:
        """Somebody else wants the board; waits until they are told that they have to wait, or have ended."""
        other = self.user(self.disk / "other").start(*self.run, HARNESS_LOCKS=str(self.locks))
        assert other.stderr
        said = ""
        while "waiting" not in said and (line := other.stderr.readline()):
            said += line
        self.others.append(other)

    @contextmanager
    def scene(self, folder: Path, step: Step, **environment: str) -> Iterator[Scene]:
        """A run that waits at the step."""
        path = self.folder / "stage"
        asked = {stage.STEP: step.value, stage.STAGE: str(path)} | environment
        with _listening(path) as listener, ThreadPoolExecutor(1) as pool:
            running = pool.submit(self.harness, folder, *self.run, **asked)
            try:
                waiting, _ = listener.accept()
            except TimeoutError:
                raise AssertionError(f"no step {step}: {running.result(TIMEOUT_S)}") from None
            with waiting:
                yield Scene(step, int(waiting.recv(64)), folder, waiting, running)


def _profile() -> dict[str, object]:
    """One of boards.yaml on a small machine, with both its items on processors."""
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())["kv260"]
    toolchain = {"compiler": "aarch64-linux-gnu-gcc", "flags": ["-O3", "-mcpu=cortex-a53"], "static": True}
    items = {
        "prepost": {"target": "c", "core": 0, "operators": ["QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin"]},
        "network": {"target": "c", "core": 1, "operators": ["QGemm", "Add"]},
    }
    kept = {key: value for key, value in entry.items() if key != "emulator"}
    return kept | {"toolchain": toolchain, "items": items, "work_folder": WORK, "timeout_s": PROGRAM_TIMEOUT_S}


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A disk of `DISK_MIB`, where root is the user; elsewhere a folder of the large one, which cannot be full."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(TIMEOUT_S)
        yield listener

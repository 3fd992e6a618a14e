"""A microcontroller at a serial port: what is lost or damaged on the line is sent again, and no fault is hidden."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from harness.boards import bare_metal, serial_line
from harness.boards.profile import BoardProfiles, Profile, Serial
from harness.boards.serial_board import image_crc
from harness.boards.session import Completed
from harness.build import bundle
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.core.installation import ROOT
from harness.plan import planner
from tests.support.boards.microcontroller import Microcontroller
from tests.support.programs.board_program import (
    BoardProgram,
    Patch,
    assert_same,
    build,
    build_patched,
    mixed,
    references,
    uniform_vectors,
)

TIMEOUT_S = 30.0
REQUESTS = {
    serial_line.HELLO: "hello",
    serial_line.COMMAND_LINE: "command line",
    serial_line.OPEN: "open",
    serial_line.READ: "read",
    serial_line.WRITE: "write",
    serial_line.SEEK: "seek",
    serial_line.CLOSE: "close",
    serial_line.EXIT: "exit",
}
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda frame: frame[:5] + bytes([frame[5] ^ 0x10]) + frame[6:],
    "a lost byte": lambda frame: frame[:4] + frame[5:],
    "a lost frame": lambda _: b"",
    "a repeated frame": lambda frame: frame + frame,
    "a lost end": lambda frame: frame[:-1],
    "noise before": lambda frame: b"\xff\x00\x91\x00\x05" + frame,
}


IN_CAMPAIGNS = {"a lost end", "a repeated frame", "a lost byte"}


class Disturbance:
    """A fault of the first frame of every kind of request, and of the first reply to each."""

    def __init__(self, fault: Callable[[bytes], bytes]) -> None:
        self._fault = fault
        self._kind: int | None = None
        self._partial = {"request": b"", "reply": b""}
        self.disturbed: set[tuple[str, int]] = set()

    def to_host(self, content: bytes) -> bytes:
        return self._change("request", content)

    def to_board(self, content: bytes) -> bytes:
        return self._change("reply", content)

    def _change(self, direction: str, content: bytes) -> bytes:
        *complete, self._partial[direction] = (self._partial[direction] + content).split(b"\0")
        changed = b""
        for encoded in complete:
            frame = serial_line.decode(encoded) if encoded else None
            if frame is None:
                changed += encoded + b"\0"
                continue
            self._kind = frame.kind if direction == "request" else self._kind
            key = (direction, self._kind or 0)
            is_first = self._kind is not None and key not in self.disturbed and frame.kind != serial_line.REPEAT
            if is_first:
                self.disturbed.add(key)
            changed += self._fault(encoded + b"\0") if is_first else encoded + b"\0"
        return changed


@pytest.fixture(scope="module")
def emulated(laboratory: BoardProfiles) -> Profile:
    return laboratory.board("stm32f405")


@pytest.fixture(scope="module")
def built(emulated: Profile, cache: Path) -> BoardProgram:
    return build(mixed(), emulated, cache, block=2)


@pytest.fixture
def board(emulated: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Microcontroller]:
    monkeypatch.setattr(serial_line, "SILENCE_S", 0.05)
    monkeypatch.setattr("harness.boards.serial_board.BOOT_S", 3.0)
    with Microcontroller(tmp_path, emulated) as microcontroller:
        yield microcontroller


def words_of(path: Path, vectors: Array, folder: Path) -> list[str]:
    np.save(folder / "vectors.npy", vectors)
    program = shutil.copy(path, folder / "inference")
    return [str(program), "--vectors", str(folder / "vectors.npy"), "--out", str(folder)]


def executed(
    board: Profile, built: BoardProgram, folder: Path, timeout_s: float = TIMEOUT_S
) -> tuple[Completed, Array]:
    vectors = uniform_vectors(mixed(), 5, seed=8)
    folder.mkdir()
    with bare_metal.session(board, folder) as session:
        return session.run(words_of(built.path, vectors, folder), timeout_s), vectors


def require_identical(built: BoardProgram, done: Completed, vectors: Array, folder: Path) -> None:
    assert (done.status, done.stderr) == (0, b"")
    assert json.loads(done.stdout.splitlines()[-1])["fault"] == ""
    assert_same(built.read_dumps(folder), references(mixed(), vectors))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=name, marks=[pytest.mark.campaign] if name in IN_CAMPAIGNS else [])
        for name, fault in FAULTS.items()
    ],
)
def test_the_line_recovers_at_every_step(
    board: Microcontroller, built: BoardProgram, tmp_path: Path, fault: Callable[[bytes], bytes]
) -> None:
    disturbance = Disturbance(fault)
    board.to_host, board.to_board = disturbance.to_host, disturbance.to_board
    done, vectors = executed(board.profile, built, tmp_path / "board")
    require_identical(built, done, vectors, tmp_path / "board")
    kinds = {REQUESTS[kind] for direction, kind in disturbance.disturbed if direction == "request"}
    assert kinds >= {"hello", "command line", "open", "read", "write", "close", "exit"}


@pytest.mark.parametrize("uart", get_args(Serial.model_fields["uart"].annotation))
@pytest.mark.parametrize("interrupt", [None, 37])
def test_the_code_of_every_port_compiles(uart: str, interrupt: int | None, tmp_path: Path) -> None:
    """No machine of qemu has an STM32F7 or an LPUART: their code is not executed here."""
    setup = ((0x40023844, 0x10), (0x40020000, 0xA8280000))
    port = Serial.model_validate(
        {"uart": uart, "registers": 0x40011000, "clock_hz": 16_000_000, "interrupt": interrupt, "setup": setup}
    )
    (tmp_path / "board.h").write_text(bundle.board_header(port, ()))
    source = ROOT / "kernels" / "bare" / "serial" / "uart.c"
    flags = ["-mcpu=cortex-m7", "-mthumb", "-ffreestanding", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    words = ["arm-none-eabi-gcc", *flags, "-c", str(source), "-o", str(tmp_path / "uart.o")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_board_is_flashed_when_it_has_another_program(
    board: Microcontroller, built: BoardProgram, tmp_path: Path, emulated: Profile, cache: Path
) -> None:
    other = build(mixed(), emulated, cache, block=1)
    for program, flashes in ((other, 1), (built, 2), (built, 2)):
        folder = tmp_path / str(board.reset_count)
        done, vectors = executed(board.profile, program, folder)
        require_identical(program, done, vectors, folder)
        assert board.flash_count == flashes


@pytest.mark.slow
def test_a_failed_flash_and_a_silent_board_are_told(
    board: Microcontroller, built: BoardProgram, tmp_path: Path
) -> None:
    board.flash_status = 1
    with pytest.raises(BoardError, match=r"stm32f405: the command `flash` ended with status 1"):
        executed(board.profile, built, tmp_path / "failed")
    board.flash_status = 0
    board.flash = lambda _: None  # type: ignore[method-assign]
    with pytest.raises(BoardError, match="it was flashed, and no program answers"):
        executed(board.profile, built, tmp_path / "silent")


@pytest.mark.slow
def test_a_program_that_is_not_written_completely_is_told(
    board: Microcontroller, built: BoardProgram, tmp_path: Path
) -> None:
    """The constants of the program differ in one bit; the program is told to be another one by its checksum."""
    damaged = bytearray(built.path.read_bytes())
    constant = damaged.rindex(b"the stack is full")
    damaged[constant] ^= 1
    wrong = tmp_path / "wrong"
    wrong.write_bytes(damaged)
    assert image_crc(wrong) != image_crc(built.path)
    board.flash = lambda _: board.flashed.write_bytes(damaged)  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(BoardError, match=r"another program than .*inference answers"):
        executed(board.profile, built, tmp_path / "board")


@pytest.mark.slow
def test_a_reset_meanwhile_is_told(board: Microcontroller, built: BoardProgram, tmp_path: Path) -> None:
    carried = bytearray()

    def reset_once(content: bytes) -> bytes:
        was_short = len(carried) < 300
        carried.extend(content)
        if was_short and len(carried) >= 300:
            board.reset()
            return b""
        return content

    board.to_host = reset_once
    with pytest.raises(BoardError, match=r"board stm32f405 was reset while .*inference ran"):
        executed(board.profile, built, tmp_path / "board")


@pytest.mark.slow
def test_a_program_has_the_files_of_its_board_alone(emulated: Profile, built: BoardProgram, tmp_path: Path) -> None:
    (tmp_path / "board").mkdir()
    (tmp_path / "outside").mkdir()
    words = words_of(built.path, uniform_vectors(mixed(), 2, seed=8), tmp_path / "board")
    words[2] = str(tmp_path / "outside" / "vectors.npy")
    np.save(words[2], uniform_vectors(mixed(), 2, seed=8))
    with bare_metal.session(emulated, tmp_path / "board") as session:
        done = session.run(words, TIMEOUT_S)
    assert done.status != 0
    assert b"Permission denied" in done.stderr


@pytest.mark.slow
def test_a_line_that_breaks_and_a_fault_of_the_processor_are_told(
    board: Microcontroller, emulated: Profile, tmp_path: Path, objects: Path
) -> None:
    """A program that hangs, and a line that breaks, are the same to the host: nothing comes any more."""
    body = "*(volatile char *)0x90000000u = (char)execution;"
    patch = Patch(
        "network.c",
        "uint64_t execution __attribute__((unused)))\n{",
        f"uint64_t execution)\n{{ {body}",
    )
    plan = planner.make(mixed(), emulated, block=2)
    built = build_patched(plan, emulated, tmp_path, [patch], objects=objects)
    done, _ = executed(board.profile, built, tmp_path / "stopped")
    assert done.status == 4
    assert b"inference: the processor stopped at 0x" in done.stderr
    carried = bytearray()

    def broken(content: bytes) -> bytes:
        carried.extend(content)
        return content if len(carried) < 200 else b""

    board.to_host = broken
    with pytest.raises(BoardError, match=r"inference on stm32f405 did not end within 3 s"):
        executed(board.profile, built, tmp_path / "broken", timeout_s=3.0)

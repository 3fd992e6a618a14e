"""What a build keeps of the constants, and what its identity covers."""

from __future__ import annotations

import locale
import os
import shutil
import signal
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.core import file_digest
from harness.core.errors import ToolError
from harness.targets import KERNELS
from harness.targets.cuda import build, nvrtc
from harness.targets.cuda.nvrtc import Compiled
from tests.simulators.cuda import interpreted
from tests.support import builders
from tests.support.programs.board_program import parse

NO_BITS = 8  # the type of a section that has no bytes in the file
TABLES = ".nv.global.init"


def test_the_compiler_belongs_to_an_extra(host: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "nvrtc", None)
    with pytest.raises(ToolError, match="NVRTC, the compiler of the targets cuda, is not installed") as caught:
        compiled(1, "cuda:fused", "sm_72", host)
    assert caught.value.hint == "run: make setup"


def compiled(seed: int, target: str, arch: str, board: Profile) -> Compiled:
    """A network whose constants depend on the seed, and nothing else."""
    rng = np.random.default_rng(seed)
    net = parse(
        builders.random_network(rng, (5, 9, 4, 3), dequantize=True, argmax=True, per_column=True, zero_points=True)
    )
    code = interpreted.device_code(net, board, target)
    headers = build.headers_in(KERNELS / "cuda")
    return nvrtc.compile_for(arch, build.SOURCE, build.source([code]).encode(), headers)


def sections(elf: bytes) -> dict[str, bytes]:
    """Of a 64-bit ELF file, by their names."""
    [begin] = struct.unpack_from("<Q", elf, 0x28)
    size, count, of_names = struct.unpack_from("<HHH", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, begin + index * size) for index in range(count)]
    names = rows[of_names][4]
    return {
        elf[names + name : elf.index(b"\0", names + name)].decode(): elf[offset : offset + length]
        for name, kind, _, _, offset, length in rows
        if kind != NO_BITS
    }


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_72", "sm_90"])
@pytest.mark.parametrize("target", ["cuda:layerwise", "cuda:fused"])
def test_the_machine_code_is_the_same_whatever_the_constants(target: str, arch: str, host: Profile) -> None:
    """So that none of them stands in an instruction: the tables, which the proof reads back, are what the code uses."""
    one, other = (sections(compiled(seed, target, arch, host).cubin) for seed in (1, 2))
    assert {name for name in one if name.startswith(".text.")} >= {".text.self_test", ".text.quantize_forward"}
    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} == {TABLES}


def test_a_bundle_that_passed_another_inspection_is_not_reused(
    host: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "cuda"
    shutil.copytree(build.HERE, here)
    before = build.COMPILER.identity(host)
    monkeypatch.setattr(build, "HERE", here)
    assert build.COMPILER.identity(host) == before
    with (here / "ptx.py").open("a") as file:
        file.write("# stricter\n")
    assert build.COMPILER.identity(host) != before


@pytest.mark.usefixtures("identified_anew")
def test_the_compiler_leaves_the_encoding_of_files_as_it_is() -> None:
    before = locale.getencoding()
    nvrtc.compile_for("sm_72", "empty.cu", b"", {})
    assert locale.getencoding() == before


@pytest.mark.usefixtures("identified_anew")
def test_signals_interrupt_the_main_thread_after_a_compilation() -> None:
    """Ctrl-C would be ignored for as long as the main thread waits: for hours in a proof."""

    def arrive(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        former = signal.signal(number, arrive)
        try:
            nvrtc.compile_for("sm_72", "empty.cu", b"", {})
            threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
            ending = threading.Timer(20, over.set)
            ending.start()
            with pytest.raises(KeyboardInterrupt, match=str(int(number))):
                over.wait()
            assert not over.is_set()
            ending.cancel()
        finally:
            signal.signal(number, former)


@pytest.mark.usefixtures("identified_anew")
def test_no_header_of_the_working_folder_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.cuh").write_text("#define ANSWER 42\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CPATH", str(tmp_path))
    monkeypatch.setenv("NVRTC_APPEND_FLAGS", f"-I{tmp_path}")
    source = b'#include "mine.cuh"\nextern "C" __global__ void k(int *to) { *to = ANSWER; }\n'
    with pytest.raises(ToolError, match=r"could not open source file .?mine\.cuh"):
        nvrtc.compile_for("sm_72", "network.cu", source, {})
    assert "mov.u32" in nvrtc.compile_for("sm_72", "network.cu", source, {"mine.cuh": b"#define ANSWER 7\n"}).ptx


def test_another_library_of_the_compiler_has_another_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of every file beside the library that is loaded."""
    known = nvrtc.identity()
    assert known.startswith("NVRTC 11.8 [")
    read, hashed = file_digest.of_file, []

    def other(path: Path, cache: Path) -> str:
        hashed.append(path.name)
        return read(path, cache).translate({ord("0"): "1"}) if "builtins" in path.name else read(path, cache)

    monkeypatch.setattr(file_digest, "of_file", other)
    assert nvrtc.identity() != known
    assert {name.partition(".so")[0] for name in hashed} == {"libnvrtc", "libnvrtc-builtins"}

"""The stand-in for the CUDA driver over any device code, and a small program that runs its kernels."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.boards.profile import Profile
from harness.core.arrays import Array
from harness.targets import KERNELS
from harness.targets.cuda import nvrtc
from harness.targets.cuda.build import COMPILER, REGISTRY, SIMULATION, SOURCE, headers_in, source
from harness.targets.cuda.code import DeviceCode
from harness.targets.toolchain import EXACTNESS_FLAGS
from tests.support.programs.board_program import fixed_addresses

CUDA = KERNELS / "cuda"
DRIVER = Path(__file__).with_name("driver.c")
LANGUAGE_FLAGS = (
    *("-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing"),
    *("-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-Wl,-soname,libcuda.so.1", "-Wl,-z,defs"),
)


def build(
    folder: Path,
    code: DeviceCode,
    board: Profile,
    *flags: str,
    compiler: Sequence[str] = ("gcc",),
    changed: Mapping[str, str] | None = None,
) -> Path:
    """The stand-in for device code: `folder`/libcuda.so.1; the texts of some headers of kernels/cuda may be `changed`.

    AssertionError if the compiler says a word.
    """
    for path, content in COMPILER.sources([code], board).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    for name, text in (changed or {}).items():
        (folder / name).write_text(text)
    sources = [folder / REGISTRY, *sorted((folder / SIMULATION).glob("*.cpp"))]
    include = [f"-I{path}" for path in (folder, CUDA, CUDA.parent / "c", folder / SIMULATION)]
    library = folder / "libcuda.so.1"
    compile_quietly([*compiler, *LANGUAGE_FLAGS, *EXACTNESS_FLAGS, *flags, *include, *map(str, sources)], library)
    return library


def build_driver(folder: Path, *flags: str) -> Path:
    """The program of driver.c."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "driver"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-O1", *flags, f"-I{CUDA}", str(DRIVER)]
    compile_quietly([*command, "-ldl"], program)
    return program


def compile_quietly(command: Sequence[str], output: Path) -> None:
    done = subprocess.run([*command, "-o", str(output), "-lm"], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def compiled(arch: str, code: DeviceCode) -> nvrtc.Compiled:
    """PTX and cubin of device code."""
    return nvrtc.compile_for(arch, SOURCE, source([code]).encode(), headers_in(CUDA))


@dataclass(frozen=True)
class Launch:
    """A launch of kernels by driver.c: threads of a block, replays of a graph, bytes of shared memory."""

    kernels: tuple[str, ...]
    threads: tuple[int, int] = (128, 1)
    replays: int = 0
    shared: int = 0


@dataclass(frozen=True)
class Driven:
    """What became of it; activations are None where it failed."""

    process: subprocess.CompletedProcess[str]
    activations: tuple[Array, ...] | None


def drive(program: Path, library: Path, image: Path, widths: Sequence[int], inputs: Array, launch: Launch) -> Driven:
    """Run driver.c on `inputs` (vectors, width) in the folder of `library`; `widths` in bytes, the input's first."""
    folder = library.parent
    inputs.tofile(folder / "input")
    (folder / "output").unlink(missing_ok=True)
    files = (folder / "input", folder / "output")
    command = [*fixed_addresses(), program, library, image, len(inputs), *files, *launch.threads]
    command += [launch.replays, launch.shared, ",".join(map(str, widths)), *launch.kernels]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    return Driven(done, _read(folder / "output", widths, len(inputs)))


def _read(path: Path, widths: Sequence[int], vectors: int) -> tuple[Array, ...] | None:
    if not path.exists():
        return None
    ends = np.cumsum([vectors * width for width in widths])
    parts = np.split(np.fromfile(path, np.uint8), ends[:-1])
    return tuple(part.reshape(vectors, width) for part, width in zip(parts, widths, strict=True))

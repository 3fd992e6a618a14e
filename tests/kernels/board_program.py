"""The board program of a network: compiled by the real compiler, run as a process, its dumps read with NumPy."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import onnx

from harness import bundle, execute, network, plan, toolchain
from harness.board.local import LocalBoard
from harness.execute import Deployed
from harness.network import Array, Network
from harness.plan import Plan
from harness.profile import Profile
from harness.reference import Reference
from harness.toolchain import Compiler


@dataclass(frozen=True, eq=False)
class BoardProgram:
    """A built program and the network that it computes."""

    path: Path
    network: Network
    sha256: str
    compiler: str

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run it to its end, which must come within a minute."""
        command = [str(self.path), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def activations(self, vectors: Array, folder: Path, *options: object) -> tuple[Array, ...]:
        """All layers' outputs for float32 (n, K) `vectors`; the files are left in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "vectors.npy", vectors)
        done = self.run("--vectors", folder / "vectors.npy", "--out", folder, *options)
        assert (done.returncode, done.stderr) == (0, "")
        return self.read_dumps(folder)

    def deployed(self, folder: Path) -> Deployed:
        """On this machine as a board, where it lies; `folder` is its run's."""
        run = PurePosixPath(folder)
        for slot in range(execute.SLOTS):
            Path(execute.out_folder(run, slot)).mkdir(parents=True, exist_ok=True)
        return Deployed(LocalBoard(), PurePosixPath(self.path.parent), run, self.sha256)

    def read_dumps(self, folder: Path) -> tuple[Array, ...]:
        return tuple(
            np.load(folder / f"{index:02}_{layer.name}.npy") for index, layer in enumerate(self.network.layers)
        )


def parse(model: onnx.ModelProto) -> Network:
    return network.parse(model.SerializeToString(), "network")


def build(
    net: Network, board: Profile, cache: Path, block: int | None = None, split: Sequence[str] = ()
) -> BoardProgram:
    """The program as every command builds it."""
    built = bundle.build(plan.make(net, board, block=block, split=split), board, cache)
    return BoardProgram(built.folder / bundle.PROGRAM, net, built.sha256, built.compiler)


@dataclass(frozen=True)
class Patch:
    """A change of one source file of the bundle; `old` must stand there."""

    file: str
    old: str
    new: str

    def apply(self, sources: dict[str, bytes]) -> dict[str, bytes]:
        text = sources[self.file].decode()
        assert self.old in text, f"{self.file} has changed: {self.old!r} is not in it any more"
        return sources | {self.file: text.replace(self.old, self.new).encode()}


def build_patched(
    made: Plan,
    board: Profile,
    folder: Path,
    patches: Sequence[Patch] = (),
    flags: Sequence[str] = (),
    common: Path | None = None,
) -> BoardProgram:
    """The program of a patched copy of the sources, compiled in `folder` with `flags` after all others.

    `common` stands for kernels/common, compiled before.
    """
    units, compiler = _copy_sources(made, board, folder, patches, flags)
    if common:
        units = [common, *(unit for unit in units if unit.parent != COMMON)]
    compiler.build(units, INCLUDE, _definitions(board), folder / bundle.PROGRAM)
    return BoardProgram(folder / bundle.PROGRAM, made.network, "patched", compiler.identity)


def compile_common(made: Plan, board: Profile, folder: Path) -> Path:
    """kernels/common as one object file, the same for every network."""
    units, compiler = _copy_sources(made, board, folder, (), ["-r"])
    compiler.build([unit for unit in units if unit.parent == COMMON], INCLUDE, _definitions(board), folder / "common.o")
    return folder / "common.o"


COMMON = Path("kernels/common")
INCLUDE = (COMMON, Path("kernels/c"))


def _copy_sources(
    made: Plan, board: Profile, folder: Path, patches: Sequence[Patch], flags: Sequence[str]
) -> tuple[list[Path], Compiler]:
    """The .c files, relative to `folder`, and the compiler with the flags."""
    sources = bundle._sources(made)
    for patch in patches:
        sources = patch.apply(sources)
    for path, content in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    compiler = toolchain.find(board)
    compiler = dataclasses.replace(compiler, flags=(*compiler.flags, *flags))
    return [Path(path) for path in sources if path.endswith(".c")], compiler


def _definitions(board: Profile) -> tuple[str, ...]:
    return f"TIME_SOURCE={board.time_source}", 'BUNDLE_HASH="patched"'


def with_flags(board: Profile, *flags: str) -> Profile:
    """The profile with other processor and optimisation flags."""
    return board.model_copy(update={"toolchain": board.toolchain.model_copy(update={"flags": flags})})


def uniform_vectors(net: Network, count: int, seed: int) -> Array:
    """Vectors anywhere in the network's box, float32 (count, K)."""
    low, high = net.box
    vectors: Array = np.random.default_rng(seed).uniform(low, high, (count, net.input_width)).astype(np.float32)
    return vectors


def references(net: Network, vectors: Array) -> tuple[Array, ...]:
    """All layers' outputs by ONNX Runtime, confirmed by the integer specification."""
    return Reference(net, x64_quant_precision=True).activations(vectors)


def assert_same(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    """Every array has the same type, shape and bytes."""
    for index, (found, right) in enumerate(zip(actual, expected, strict=True)):
        assert (found.dtype, found.shape) == (right.dtype, right.shape), f"layer {index}"
        assert found.tobytes() == right.tobytes(), f"layer {index}: {(found != right).sum()} values differ"


def run_sanitized(program: BoardProgram, vectors: Array, folder: Path) -> subprocess.CompletedProcess[str]:
    """Without address randomisation, which older sanitizers cannot bear, where that can be had."""
    np.save(folder / "vectors.npy", vectors)
    fixed = ["setarch", "-R"] if subprocess.run(["setarch", "-R", "true"], check=False).returncode == 0 else []
    command = [*fixed, str(program.path), "--vectors", "vectors.npy", "--out", ".", "--block", "10", "--trace"]
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # what is allocated once is left to the system
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

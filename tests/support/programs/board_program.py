"""The board program of a network: compiled by the real compiler, run as a process, its dumps read with NumPy."""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import onnx

from harness import model as networks
from harness.boards.local import LocalBoard
from harness.boards.profile import Profile
from harness.boards.session import Completed
from harness.build import bundle, codegen
from harness.build.bundle import Recipe
from harness.core.arrays import Array
from harness.core.file_digest import file_sha256
from harness.execution import program
from harness.execution.program import Deployed
from harness.model.network import Network
from harness.plan import planner
from harness.plan.plan import Plan
from harness.reference import Reference
from harness.targets import STAND_INS
from tests.support import builders
from tests.support.objects import Keeping

EXIT_SYSTEM = 4
CHATTER = ("APP: ", "qemu-x86_64: warning: TCG doesn't support requested feature")
"""Lines on stderr of TIOVX, which reports its state, and of qemu-user, which lacks features of a processor."""


class HashingBoard(LocalBoard):
    """This machine as a board that hashes files in this process: to start sha256sum takes longer."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        if argv[0] != "sha256sum":
            return super().run(argv, timeout_s)
        files = [Path(path) for path in argv[1:] if Path(path).is_file()]
        lines = "".join(f"{file_sha256(path)}  {path}\n" for path in files)
        return Completed(int(len(files) < len(argv) - 1), lines.encode(), b"")


@dataclass(frozen=True, eq=False)
class BoardProgram:
    """A built program and the network that it computes."""

    path: Path
    network: Network
    sha256: str
    compiler: str

    def run(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, which must come within a minute."""
        command, more = [*self.command, *map(str, arguments)], os.environ | environment
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=more)

    @property
    def command(self) -> tuple[str, ...]:
        """How a board starts it."""
        folder = self.path.parent
        return program.start_command(PurePosixPath(folder), stand_ins=(folder / STAND_INS).exists())

    def activations(self, vectors: Array, folder: Path, *options: object) -> tuple[Array, ...]:
        """All layers' outputs for float32 (n, K) `vectors`; the files are left in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "vectors.npy", vectors)
        done = self.run("--vectors", folder / "vectors.npy", "--out", folder, *options)
        complaints = [line for line in done.stderr.splitlines() if not line.startswith(CHATTER)]
        assert (done.returncode, complaints) == (0, [])
        return self.read_dumps(folder)

    def deployed(self, folder: Path) -> Deployed:
        """On this machine as a board, where it lies; `folder` is its run's."""
        run = PurePosixPath(folder)
        for slot in range(program.SLOTS):
            for mode in program.DEPLOYMENTS:
                Path(program.out_folder(run, slot) / mode).mkdir(parents=True, exist_ok=True)
        return Deployed(HashingBoard(), PurePosixPath(self.path.parent), run, self.sha256, self.command)

    def read_dumps(self, folder: Path) -> tuple[Array, ...]:
        return tuple(
            np.load(folder / f"{index:02}_{layer.name}.npy").view(layer.dtype)
            for index, layer in enumerate(self.network.layers)
        )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Of a program that gave up for its device's sake: its line, and nothing that could be taken for a result."""
    assert (done.returncode, done.stdout) == (EXIT_SYSTEM, "")
    [line] = [line for line in done.stderr.splitlines() if line.startswith("inference: ")]
    return line


def mixed() -> Network:
    """Items prepost and network, which hand over twice; a float32 layer, an advisory."""
    return parse(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), dequantize=True, argmax=True))


def parse(model: onnx.ModelProto) -> Network:
    return networks.parse(model.SerializeToString(), "network")


def build(
    net: Network, board: Profile, cache: Path, block: int | None = None, split: Sequence[str] = ()
) -> BoardProgram:
    """The program as every command builds it."""
    built = bundle.build(codegen.generate(planner.make(net, board, block=block, split=split)), board, cache)
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
    objects: Path | None = None,
) -> BoardProgram:
    """The program of a patched copy of the sources, compiled in `folder` with `flags` after all others.

    The folder `objects` keeps what is compiled of all that is not generated, and serves every program.
    """
    recipe = _patched(made, board, folder, patches, flags)
    if objects:
        compiler = recipe.compiler
        keeping = Keeping(compiler.command, compiler.identity, compiler.flags, compiler.parts, objects)
        recipe = dataclasses.replace(recipe, compiler=keeping)
    recipe.compile(folder, "patched")
    return BoardProgram(folder / bundle.PROGRAM, made.network, "patched", recipe.compiler.identity)


def _patched(made: Plan, board: Profile, folder: Path, patches: Sequence[Patch], flags: Sequence[str]) -> Recipe:
    """With more flags; the patched sources are written to `folder`."""
    recipe = bundle.recipe_of(codegen.generate(made), board)
    sources = functools.reduce(lambda patched, patch: patch.apply(patched), patches, recipe.sources)
    compiler = dataclasses.replace(recipe.compiler, flags=(*recipe.compiler.flags, *flags))
    recipe = dataclasses.replace(recipe, sources=sources, compiler=compiler)
    recipe.write(folder)
    return recipe


def with_flags(board: Profile, *flags: str) -> Profile:
    """The profile with other processor and optimisation flags."""
    return board.model_copy(update={"toolchain": board.toolchain.model_copy(update={"flags": flags})})


def uniform_vectors(net: Network, count: int, seed: int) -> Array:
    """Vectors anywhere in the network's box, float32 (count, K)."""
    low, high = net.box
    vectors: Array = np.random.default_rng(seed).uniform(low, high, (count, net.vector.size)).astype(np.float32)
    return vectors


def references(net: Network, vectors: Array) -> tuple[Array, ...]:
    """All layers' outputs by ONNX Runtime, confirmed by the integer specification."""
    return Reference(net, x64_quant_precision=True).activations(vectors)


def assert_same(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    """Every array has the same type, shape and bytes."""
    for index, (found, right) in enumerate(zip(actual, expected, strict=True)):
        assert (found.dtype, found.shape) == (right.dtype, right.shape), f"layer {index}"
        assert found.tobytes() == right.tobytes(), f"layer {index}: {(found != right).sum()} values differ"


@functools.cache
def fixed_addresses() -> tuple[str, ...]:
    """The command that switches address randomisation off, which older sanitizers need; empty if not permitted."""
    command = ("setarch", "-R")
    return command if subprocess.run([*command, "true"], check=False).returncode == 0 else ()


def run_sanitized(program: BoardProgram, vectors: Array, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that was compiled with a sanitizer."""
    np.save(folder / "vectors.npy", vectors)
    command = [
        *fixed_addresses(),
        *program.command,
        "--vectors",
        "vectors.npy",
        "--out",
        ".",
        "--block",
        "10",
        "--trace",
    ]
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # what is allocated once is left to the system
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

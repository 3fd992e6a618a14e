"""How many instructions of an Arm core a network takes, counted by qemu's user mode."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.boards.profile import Profile, Toolchain
from harness.model.network import Network
from harness.targets import KERNELS
from harness.targets.toolchain import find
from tests.support.programs.c_variants import EMULATED, compile_network, of_variant

HERE = Path(__file__).parent
VECTORS = (100, 300)


def with_compiler(host: Profile, target: str, compiler: str, flags: tuple[str, ...]) -> Profile:
    """The profile with another compiler, every item of this target."""
    return of_variant(host, target).model_copy(update={"toolchain": Toolchain(compiler=compiler, flags=flags)})


def count_a_vector(net: Network, board: Profile, folder: Path) -> float:
    """Instructions of all layers of a network for one vector, on average, without what a program does once."""
    plugin, program = folder / "count.so", folder / "repeat"
    given = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", str(HERE / "count_instructions.c"), "-o", str(plugin)]
    subprocess.run(["gcc", *given], check=True)
    copy = KERNELS / "program" / "copy_padded.c"
    sources = (HERE / "repeat_network.c", copy, compile_network(net, board, folder))
    definitions = (f"TIME_SOURCE={board.time_source}",)
    find(board).build(folder, sources, (KERNELS / "program",), definitions, program)
    few, many = (_count(plugin, program, vectors) for vectors in VECTORS)
    return (many - few) / (VECTORS[1] - VECTORS[0])


def _count(plugin: Path, program: Path, vectors: int) -> int:
    command = [*EMULATED, "-plugin", str(plugin), str(program), str(vectors)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stderr)

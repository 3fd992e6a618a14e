"""The instructions of each call of a function, counted by qemu's user mode, to compare with their bounds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.analysis.inspection.program import Program, Symbol
from harness.applications.wcet.bounds import Bounds, of_program
from harness.boards import bare_metal
from harness.boards.profile import Profile
from harness.build import codegen
from harness.core.arrays import Array
from harness.model.network import Network
from harness.plan import planner
from tests.support import builders
from tests.support.programs.board_program import Patch, build_patched, parse, uniform_vectors
from tests.support.programs.c_variants import EMULATED

HERE = Path(__file__).parent
SCHEDULE_OF_BARE = "schedule_run_tick"
"""The function of kernels/bare/schedule.c that calls the layers."""


@dataclass(frozen=True)
class Counted:
    """The instructions of a function and of those that it calls in the program, and in libraries, by call."""

    calls: int
    fewest: int
    most: int
    most_in_libraries: int


WRONG_LOOPS = {
    "one input less": (
        Patch("kernels/c/qgemm.h", "(QGEMM_ROWS, depth, a", "(QGEMM_ROWS, depth - 1, a"),
        "reads the bytes 0 to 60 of layer_0_weights, which has 65",
    ),
    "one output more": (
        Patch("network.c", "requantize_uint8(6,", "requantize_uint8(7,"),
        "behind the start of layer_1_",
    ),
}
"""Wrong loop bounds of the program of `dense`, with what is said of each."""


def dense() -> Network:
    """Three dense layers with zero points, and a decision."""
    return parse(builders.random_network(np.random.default_rng(3), [5, 13, 6, 5], zero_points=True, argmax=True))


def plugin(folder: Path) -> Path:
    """Compile the plugin of qemu in a folder."""
    made = folder / "count_calls.so"
    given = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", str(HERE / "count_calls.c"), "-o", str(made)]
    subprocess.run(["gcc", *given], check=True)
    return made


def count(
    made: Path, path: Path, program: Program, names: Iterable[str], vectors: Array, folder: Path, board: Profile
) -> Mapping[str, Counted]:
    """Count what the functions with these names execute, one vector at a time, without warm-up."""
    np.save(folder / "vectors.npy", vectors)
    symbols = {symbol.name: symbol for symbol in program.functions}
    watched = [symbols[name] for name in names]
    outside = [symbol for symbol in program.functions if symbol.file == "schedule.c" or symbol.name == SCHEDULE_OF_BARE]
    options = [f"function={symbol.address:#x}" for symbol in watched] + list(map(_outside, outside))
    words = [
        str(path),
        "--vectors",
        str(folder / "vectors.npy"),
        "--out",
        str(folder),
        "--dump",
        "none",
        "--block",
        "1",
    ]
    counting = ["-plugin", ",".join([str(made), *options])]
    processor = board.bare_metal
    command = [*bare_metal.command(processor, words), *counting] if processor else [*EMULATED, *counting, *words]
    # The loader finds functions of libraries before the first vector, not in it.
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LD_BIND_NOW": "1"})
    lines = [line.split() for line in done.stderr.splitlines() if line.startswith("function ")]
    assert len(lines) == len(watched), done.stderr
    return {symbol.name: Counted(*map(int, line[1:])) for symbol, line in zip(watched, lines, strict=True)}


def _outside(symbol: Symbol) -> str:
    return f"outside={symbol.address:#x}-{symbol.end:#x}"


@dataclass(frozen=True, eq=False)
class Bounded:
    """A built program with its bounds, and what it executed for a few vectors."""

    bounds: Bounds
    counted: Mapping[str, Counted]
    generated: codegen.Program

    @property
    def ratio(self) -> float:
        """The bound of the program's own code, in proportion to the most that was counted."""
        most = sum(self.counted[layer.function].most for layer in self.bounds.layers)
        return sum(layer.instructions for layer in self.bounds.layers) / most


def bounded(net: Network, board: Profile, folder: Path, objects: Path, vectors: int = 4) -> Bounded:
    """Build the program of a network, bound it, and count what it executes for random vectors."""
    plan = planner.make(net, board, block=1)
    generated = codegen.generate(plan)
    program = build_patched(plan, board, folder, objects=objects)
    bounds = of_program(generated, program.path)
    names = [layer.function for layer in bounds.layers]
    given = uniform_vectors(net, vectors, 1)
    counted = count(plugin(folder), program.path, bounds.layers[0].machine_code, names, given, folder, board)
    return Bounded(bounds, counted, generated)


def require_sound(found: Bounded) -> None:
    """Assert that no count exceeds its bound, those of libraries included."""
    for layer in found.bounds.layers:
        counted = found.counted[layer.function]
        assert counted.calls > 0
        assert counted.most <= layer.instructions, layer.layer
        assert counted.most_in_libraries <= layer.library, layer.layer

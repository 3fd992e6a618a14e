"""The instructions of each call of a function, counted by qemu's user mode, to compare with their bounds."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.analysis.inspection.program import Program, Symbol
from harness.core.arrays import Array
from tests.support.programs.c_variants import EMULATED

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Counted:
    """The instructions of a function and of those that it calls in the program, and in libraries, by call."""

    calls: int
    fewest: int
    most: int
    most_in_libraries: int


def plugin(folder: Path) -> Path:
    """Compile the plugin of qemu in a folder."""
    made = folder / "count_calls.so"
    given = ["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", str(HERE / "count_calls.c"), "-o", str(made)]
    subprocess.run(["gcc", *given], check=True)
    return made


def count(
    made: Path, path: Path, program: Program, names: Iterable[str], vectors: Array, folder: Path
) -> Mapping[str, Counted]:
    """Count what the functions with these names execute, one vector at a time, without warm-up."""
    np.save(folder / "vectors.npy", vectors)
    symbols = {symbol.name: symbol for symbol in program.functions}
    watched = [symbols[name] for name in names]
    outside = [symbol for symbol in program.functions if symbol.file == "schedule.c"]
    options = [f"function={symbol.address:#x}" for symbol in watched] + list(map(_outside, outside))
    asked = ["--vectors", str(folder / "vectors.npy"), "--out", str(folder), "--dump", "none", "--block", "1"]
    command = [*EMULATED, "-plugin", ",".join([str(made), *options]), str(path), *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stderr.splitlines() if line.startswith("function ")]
    assert len(lines) == len(watched), done.stderr
    return {symbol.name: Counted(*map(int, line[1:])) for symbol, line in zip(watched, lines, strict=True)}


def _outside(symbol: Symbol) -> str:
    return f"outside={symbol.address:#x}-{symbol.end:#x}"

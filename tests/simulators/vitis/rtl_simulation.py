"""The RTL core under Verilator, built from a copy of its sources, which may be changed, and fed by rtl_driver.cpp."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import rtl_core
from harness.core.arrays import Array
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_conv import QLinearConv

DRIVER = Path(__file__).with_name("rtl_driver.cpp")
VERILATOR = ("verilator", "--cc", "--prefix", "Vdut", "-Wall", "--x-assign", "unique", "--x-initial", "unique")
COMPILER = ("g++", "-std=gnu++17", "-O1")
LIBRARY = ("verilated.cpp", "verilated_threads.cpp")
TIMEOUT_S = 200


@dataclass(frozen=True)
class Passed:
    """What came out of a simulation: (vectors, N) uint32, and of every vector its first and its last cycle."""

    values: Array
    cycles: Array

    @property
    def latencies(self) -> set[int]:
        """Cycles of the vectors, both ends counted."""
        return set((self.cycles[:, 1] - self.cycles[:, 0] + 1).tolist())

    @property
    def intervals(self) -> set[int]:
        """Cycles between the ends of two vectors."""
        return set(np.diff(self.cycles[:, 1].astype(np.int64)).tolist())


@dataclass(frozen=True)
class Simulated:
    """A program that simulates the module; constants are read where it runs."""

    program: Path

    def run(self, constants: Path, codes: Array, width: int, rate: str = "fast") -> Passed:
        """Codes (vectors, K) through the module; AssertionError if words are lost or added."""
        codes.tofile(constants / "codes")
        files = ("codes", "values", "cycles")
        command = [str(self.program), *files, str(codes.shape[1]), str(width), rate]
        done = subprocess.run(command, cwd=constants, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), {1: "too many", 2: "too few"}.get(
            done.returncode
        )
        values = np.fromfile(constants / "values", np.uint32).reshape(-1, width)
        return Passed(values, np.fromfile(constants / "cycles", np.uint64).reshape(-1, 2))


def build_layer(folder: Path, layer: QGemm, changed: Mapping[str, tuple[str, str]] | None = None) -> Simulated:
    """Module `layer` with the parameters of this one, see `build`."""
    chosen = [f"-G{name}={value}" for name, value in rtl_core.parameters(layer).items()]
    return build(folder, "layer", chosen, changed)


def build_convolution(
    folder: Path, layer: QLinearConv, changed: Mapping[str, tuple[str, str]] | None = None
) -> Simulated:
    """Module `convolution` of the layer, and its constants, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"convolution.sv": rtl_core.convolution(layer), **rtl_core.memories(layer, layer.window)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return build(folder, "convolution", [], changed)


def build_chain(folder: Path, layers: Sequence[QGemm]) -> Simulated:
    """Module `chain` of the layers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chain.sv").write_text(rtl_core.chain(layers), encoding="utf-8")
    return build(folder, "chain", [])


def build(
    folder: Path, top: str, options: Sequence[str], changed: Mapping[str, tuple[str, str]] | None = None
) -> Simulated:
    """Module `top` from the sources, in which `changed` (by name: old, new) replaces a text, and what is in `folder`.

    AssertionError if a compiler says a word, or if the old text is not there once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for source in rtl_core.SOURCES:
        text = source.read_text(encoding="utf-8")
        if changed and source.name in changed:
            old, new = changed[source.name]
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / source.name).write_text(text, encoding="utf-8")
    lenient = ("-Wno-lint", "-Wno-style") if changed else ()
    sources = sorted(path.name for path in folder.glob("*.sv"))
    quiet([*VERILATOR, *lenient, *options, "--top-module", top, "-Mdir", ".", *sources], folder)
    return compiled(folder)


def build_netlist(folder: Path, layer: QGemm, family: str, *options: str) -> Simulated:
    """What yosys makes of the layer, constants included, from cells whose models come with it."""
    own = write_constants(folder, layer)
    script = rtl_core.synthesis(layer, family, *options) + "write_verilog -noattr netlist.v\n"
    (own / "netlist.ys").write_text(script, encoding="utf-8")
    subprocess.run(["yosys", "-q", "netlist.ys"], cwd=own, check=True, capture_output=True, timeout=TIMEOUT_S)
    models = yosys_data() / "xilinx" / "cells_sim.v"
    lenient = ("-Wno-lint", "-Wno-style", "-Wno-INITIALDLY", "-Wno-COMBDLY", "-Wno-UNOPTFLAT")
    quiet([*VERILATOR, *lenient, "--top-module", "layer", "-Mdir", ".", "netlist.v", str(models)], own)
    return compiled(own, "-O0")


def yosys_data() -> Path:
    """Its models of cells are there."""
    program = shutil.which("yosys")
    assert program
    return Path(program).resolve().parents[1] / "share" / "yosys"


def compiled(folder: Path, *flags: str) -> Simulated:
    """What Verilator has written there."""
    generated = sorted(path.name for path in folder.glob("Vdut*.cpp"))
    (folder / "all.cpp").write_text("".join(f'#include "{name}"\n' for name in (*generated, DRIVER)), encoding="utf-8")
    quiet(
        [*COMPILER, *flags, *includes(), "all.cpp", *map(str, library(folder.parent)), "-pthread", "-o", "driver"],
        folder,
    )
    return Simulated(folder / "driver")


@cache
def includes() -> tuple[str, ...]:
    """Where Verilator's headers are."""
    done = subprocess.run(["verilator", "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True)
    root = Path(done.stdout.strip()) / "include"
    return f"-I{root}", f"-I{root / 'vltstd'}", "-I."


@cache
def library(folder: Path) -> tuple[Path, ...]:
    """Verilator's own part of a simulation, compiled once for a folder: it takes longer than what it is linked to."""
    root = Path(includes()[0].removeprefix("-I"))
    for name in LIBRARY:
        quiet([*COMPILER, "-O0", *includes(), "-c", str(root / name), "-o", name.replace(".cpp", ".o")], folder)
    return tuple(folder / name.replace(".cpp", ".o") for name in LIBRARY)


def quiet(command: Sequence[str], folder: Path) -> None:
    """Run it in the folder; AssertionError if it fails or says a word."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout + done.stderr) == (0, ""), command


def write_constants(folder: Path, layer: QGemm) -> Path:
    """The layer's memories in a folder of its name."""
    own = folder / layer.name
    own.mkdir(parents=True, exist_ok=True)
    for name, text in rtl_core.memories(layer).items():
        (own / name).write_text(text, encoding="utf-8")
    return own

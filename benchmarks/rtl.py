"""What the layers of the RTL core would take of the K26's fabric, by yosys, and how many cycles they take.

.venv/bin/python benchmarks/rtl.py [--model NAME [--convolution LAYER] | --shape K-N-M] [--family xcup] [--json]

Orders of magnitude: yosys knows no timing, leaves what a DSP48E2 could add and store in the fabric (for the family xc7
it does not), counts adders in CARRY4 and never puts two functions into one LUT.  It leaves out bits of constants that
are the same in every word.  The K26 has 117,120 LUT, 234,240 FF, 1,248 DSP, 144 BRAM36.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import click
import machine
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the networks of the tests

from benchmarks import rtl_core
from harness.boards import workspace
from harness.model import load, parse
from harness.operators.qgemm import QGemm
from harness.operators.qlinear_conv import QLinearConv
from harness.targets.vitis import fabric, rtl
from tests.support import builders

LUTS_OF_A_MEMORY = {
    "RAM32X1D": 2, "RAM32X1S": 1, "RAM64X1D": 2, "RAM64X1S": 1, "RAM128X1D": 4, "RAM128X1S": 2, "RAM256X1S": 4,
    "RAM256X1D": 8, "RAM512X1S": 8, "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "SRL16E": 1, "SRLC32E": 1,
}  # fmt: skip
UNCOUNTED = re.compile(r"CARRY\d|MUXF\d|BUFG|GND|VCC")


@dataclass(frozen=True)
class Area:
    """Of a fabric."""

    lut: int
    ff: int
    dsp: int
    bram36: float


K26 = Area(lut=fabric.K26.lut, ff=234_240, dsp=fabric.K26.dsp, bram36=fabric.K26.bram36)


@dataclass(frozen=True)
class Layer:
    """What a layer takes: of the fabric, and of time."""

    name: str
    depth: int
    width: int
    area: Area
    latency_cycles: int
    interval_cycles: int


def measure(layer: QGemm, family: str) -> Layer:
    """Synthesise the layer's module with its constants."""
    shape = rtl.shape(layer)
    cycles = (rtl.latency_cycles([shape]), rtl.interval_cycles([shape]))
    return Layer(
        layer.name,
        layer.input.size,
        layer.size,
        area(cells(rtl_core.memories(layer), rtl_core.synthesis(layer, family))),
        *cycles,
    )


def measure_convolution(layer: QLinearConv, family: str) -> Layer:
    """Synthesise windows and sums of a convolution."""
    files = rtl_core.memories(layer, layer.window) | {"convolution.sv": rtl_core.convolution(layer)}
    script = rtl_core.synthesis_of_text("convolution.sv", "convolution", family)
    return Layer(layer.name, *layer.weights.shape, area(cells(files, script)), *rtl_core.convolution_cycles(layer))


def cells(files: Mapping[str, str], script: str) -> dict[str, int]:
    """Return the number of cells of each type that a script of yosys makes of files in its folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        (Path(folder) / "synthesize.ys").write_text(script + "tee -q -o cells.json stat -json\n")
        done = subprocess.run(["yosys", "-q", "synthesize.ys"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise click.ClickException(f"yosys: {done.stderr.strip()}")
        document = json.loads((Path(folder) / "cells.json").read_text())
    found: dict[str, int] = document["design"]["num_cells_by_type"]
    return found


def area(counts: Mapping[str, int]) -> Area:
    """Return the kinds of the cells in a fabric; a cell of another type is an error."""
    sums = dict.fromkeys(("lut", "ff", "dsp", "ramb18"), 0)
    for cell, count in counts.items():
        kind, size = _kind(cell)
        if kind:
            sums[kind] += size * count
    return Area(sums["lut"], sums["ff"], sums["dsp"], sums["ramb18"] / 2)


def _kind(cell: str) -> tuple[str, int]:
    if cell in LUTS_OF_A_MEMORY:
        return "lut", LUTS_OF_A_MEMORY[cell]
    kinds = {r"LUT\d|INV": "lut", r"FD[RSCP]E": "ff", r"DSP48E\d": "dsp", r"RAMB18E\d": "ramb18"}
    for pattern, kind in kinds.items():
        if re.fullmatch(pattern, cell):
            return kind, 1
    if re.fullmatch(r"RAMB36E\d", cell):
        return "ramb18", 2
    if UNCOUNTED.fullmatch(cell):
        return "", 0
    raise click.ClickException(f"a cell {cell}: say here what it counts")


def total(layers: Sequence[Layer]) -> Area:
    """Of all together."""
    columns = zip(*(astuple(layer.area) for layer in layers), strict=True)
    return Area(*map(sum, columns))


def gemms(model: str, shape: str | None) -> tuple[QGemm, ...]:
    """Of a model of this repository, or of a random network with these widths and a uint8 output."""
    if shape is None:
        return rtl_core.gemms(load(workspace.ROOT / "models" / f"{model}.onnx"))
    widths = [int(width) for width in shape.split("-")]
    built = builders.random_network(np.random.default_rng(1), widths, per_column=True)
    return rtl_core.gemms(parse(built.SerializeToString(), shape))


def convolution_of(model: str, name: str) -> QLinearConv:
    """Return a layer of a model of this repository."""
    layers = load(workspace.ROOT / "models" / f"{model}.onnx").layers
    return next(layer for layer in layers if isinstance(layer, QLinearConv) and layer.name == name)


def tabulated(layers: Sequence[Layer], cycles: Mapping[str, int]) -> Table:
    """Return a line for every layer, and one for all."""
    table = Table("layer", "K x N", "LUT", "FF", "DSP", "BRAM36", "latency", "interval")
    for each in layers:
        areas = (f"{value:,}" for value in astuple(each.area))
        own = (str(each.latency_cycles), str(each.interval_cycles))
        table.add_row(each.name, f"{each.depth} x {each.width}", *areas, *own)
    pairs = zip(astuple(total(layers)), astuple(K26), strict=True)
    shares = (f"{value:,} ({value / there:.1%})" for value, there in pairs)
    table.add_row("all, in a row", "", *shares, *map(str, cycles.values()))
    return table


@click.command()
@click.option("--model", default="acas_coc", show_default=True)
@click.option("--shape", help="Widths K-N-M... of a random network in its place.")
@click.option("--convolution", help="A QLinearConv of the model in place of its QGemms, with one group.")
@click.option("--family", default="xcup", show_default=True, help="Of synth_xilinx: xcup is UltraScale+.")
@click.option("--jobs", default=1, show_default=True, help="Layers side by side.")
@click.option("--json", "as_json", is_flag=True)
def main(model: str, shape: str | None, convolution: str | None, family: str, jobs: int, as_json: bool) -> None:
    """Synthesise every QGemm, or a convolution, and print what it takes."""
    if convolution:
        layers = [measure_convolution(convolution_of(model, convolution), family)]
        cycles = {"latency": layers[0].latency_cycles, "interval": layers[0].interval_cycles}
    else:
        chain = gemms(model, shape)
        with ThreadPoolExecutor(jobs) as pool:
            layers = list(pool.map(lambda layer: measure(layer, family), chain))
        shapes = [rtl.shape(layer) for layer in chain]
        cycles = {"latency": rtl.latency_cycles(shapes), "interval": rtl.interval_cycles(shapes)}
    yosys = subprocess.run(["yosys", "-V"], capture_output=True, text=True, check=True).stdout.strip()
    described = machine.describe() | {"yosys": yosys, "family": family}
    if as_json:
        document = {"machine": described, "layers": [asdict(each) for each in layers], "total": asdict(total(layers))}
        print(json.dumps(document | {"k26": asdict(K26), "chain_cycles": cycles}, indent=1))  # noqa: T201 - standard output is the interface
        return
    Console().print(described, tabulated(layers, cycles))


if __name__ == "__main__":
    main()

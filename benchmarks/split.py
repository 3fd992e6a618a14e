"""A network on two cores against one: the block size from which a split is faster, and the cost of a hand-over.

.venv/bin/python benchmarks/split.py [--model NAME | --shape K-N-M] [--blocks 1,10,100] [--json]

Each plan's program passes the same vectors through the network REPEATS times more in one process than in another; the
difference of the two wall times is that of the executions alone, without start and end.  The plans take turns.
"""  # noqa: INP001 - a script

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import machine
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the networks of the tests

from harness.boards import profile, workspace
from harness.boards.profile import Profile
from harness.build import bundle, codegen
from harness.model import parse
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.plan import conformance, plan, planner
from harness.plan.plan import Plan
from harness.reference.stimuli import stimuli
from tests.support import builders

VECTORS = 12_000
FEW, MANY = 1, 5
"""Executions of every block in the two processes whose difference is taken."""
TRACED = 2000


@dataclass(frozen=True)
class Way:
    """A plan's name, its split and its synchronisation; the first item is the first of the board."""

    name: str
    split: tuple[str, ...]
    sync: plan.Sync = "barrier"


@dataclass(frozen=True)
class Result:
    """Of one way at one block size: ns a vector (the median over all rounds)."""

    name: str
    block: int
    vector_ns: float


@dataclass(frozen=True)
class Crossing:
    """What an item waits at one hand-over with nothing else to do, in ns: medians over all crossings of a plan."""

    sync: str
    block: int
    median_ns: float
    percentile_99_ns: float


def ways(net: Network) -> list[Way]:
    """Return all layers on one core, and three ways to use two."""
    first, last = net.layers[0].name, net.layers[-1].name
    front, back = _halves(net)
    whole = f"{first}..{last}=network"
    staged = (f"{first}..{front}=prepost", f"{back}..{last}=network", "pipeline")
    return [
        Way("one core", (whole,)),
        Way("parallel layers, barriers", (whole, "parallel=network+prepost")),
        Way("parallel layers, flags", (whole, "parallel=network+prepost"), "flag"),
        Way("pipeline of two stages", staged),
    ]


def _halves(net: Network) -> tuple[str, str]:
    """Return the layers between which half of the products is done."""
    work = [layer.weights.size if isinstance(layer, QGemm) else 0 for layer in net.layers]
    cut = int(np.searchsorted(np.cumsum(work), sum(work) / 2))
    return net.layers[cut].name, net.layers[cut + 1].name


@dataclass(frozen=True)
class Program:
    """The built program of a way."""

    made: Plan
    path: Path

    def run(self, vectors: Path, folder: Path, *options: str) -> float:
        """Its wall time in s; it must end well."""
        cores = itertools.islice(itertools.cycle(sorted(os.sched_getaffinity(0))), len(self.made.items))
        pinned = ["--pin", ",".join(map(str, cores))]
        command = [self.path, "--vectors", vectors, "--out", folder, "--dump", "none", *pinned, *options]
        begin_s = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin_s


def build(way: Way, net: Network, host: Profile, block: int, cache: Path) -> Program:
    """Return the program as `harness run` builds it."""
    planned = planner.make(net, host, block=block, split=way.split, sync=way.sync)
    return Program(planned, bundle.build(codegen.generate(planned), host, cache).folder / bundle.PROGRAM)


def compare(net: Network, host: Profile, block: int, rounds: int, folder: Path) -> list[Result]:
    """Return all ways at one block size, in turns."""
    vectors = folder / "vectors.npy"
    np.save(vectors, stimuli(net, VECTORS, 1).chunk(0, VECTORS))
    programs = {way.name: build(way, net, host, block, folder) for way in ways(net)}
    differences_s: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            few, many = (program.run(vectors, folder, "--repeat", str(repeat)) for repeat in (FEW, MANY))
            differences_s[name].append(many - few)
    scale = 1e9 / (VECTORS * (MANY - FEW))
    return [Result(name, block, statistics.median(found) * scale) for name, found in differences_s.items()]


def crossings(net: Network, host: Profile, block: int, folder: Path) -> list[Crossing]:
    """Measure the hand-overs of parallel layers, by barriers and by flags, from traces."""
    vectors = folder / "vectors.npy"
    np.save(vectors, stimuli(net, block, 1).chunk(0, block))
    found = []
    for way in ways(net)[1:3]:
        program = build(way, net, host, block, folder)
        program.run(vectors, folder, "--repeat", str(TRACED), "--warmup", "100", "--trace")
        trace = conformance.arrange(program.made, conformance.read(folder / "trace.jsonl"), TRACED)
        waits = np.concatenate(
            [
                trace.end_ns[:, number] - trace.begin_ns[:, number]
                for number, column in enumerate(trace.columns)
                if column.kind != "layer"
            ]
        )
        found.append(Crossing(way.sync, block, float(np.median(waits)), float(np.percentile(waits, 99))))
    return found


def pays_from(results: Sequence[Result], name: str) -> str:
    """Return the smallest block size from which on a way is faster than one core at every larger one measured."""
    alone = {result.block: result.vector_ns for result in results if result.name == "one core"}
    faster = [r.block for r in results if r.name == name and r.vector_ns < alone[r.block]]
    slower = [r.block for r in results if r.name == name and r.vector_ns >= alone[r.block]]
    paying = [block for block in faster if block > max(slower, default=0)]
    return f"{min(paying):,}" if paying else "never"


@click.command()
@click.option("--model", default="acas_coc", show_default=True)
@click.option("--shape", help="Instead of a model: the widths of a network with random weights, e.g. 64-512-512-8.")
@click.option("--blocks", default="1,10,100,1000", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(model: str, shape: str | None, blocks: str, rounds: int, as_json: bool) -> None:
    """Measure all ways at all block sizes and print them with the machine and the day."""
    described = machine.describe()
    space = workspace.find(None, None)
    host = profile.load(space.boards).board("host")
    net = space.model(model)
    if shape:
        widths = [int(width) for width in shape.split("-")]
        random = builders.random_network(np.random.default_rng(1), widths)
        net = dataclasses.replace(parse(random.SerializeToString(), "random"), name=shape)
    sizes = [int(block) for block in blocks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        results = [result for block in sizes for result in compare(net, host, block, rounds, Path(folder))]
        waits = [found for block in sizes for found in crossings(net, host, block, Path(folder))]
    if as_json:
        found = {"results": [asdict(result) for result in results], "crossings": [asdict(wait) for wait in waits]}
        print(json.dumps({"machine": described, "network": net.name} | found, indent=1))  # noqa: T201 - standard output is the interface
        return
    Console().print(described, _table(net, results, sizes), _waits(waits))


def _table(net: Network, results: Sequence[Result], sizes: Sequence[int]) -> Table:
    table = Table(f"{net.name}: ns a vector", *(f"block {block:,}" for block in sizes), "pays from block")
    times = {(result.name, result.block): result.vector_ns for result in results}
    for way in ways(net):
        cells = (f"{times[way.name, b]:,.0f} ({times['one core', b] / times[way.name, b]:.2f})" for b in sizes)
        table.add_row(way.name, *cells, pays_from(results, way.name))
    return table


def _waits(waits: Sequence[Crossing]) -> Table:
    table = Table("a hand-over", "block", "median ns", "99th percentile ns")
    for wait in waits:
        table.add_row(wait.sync, f"{wait.block:,}", f"{wait.median_ns:,.0f}", f"{wait.percentile_99_ns:,.0f}")
    return table


if __name__ == "__main__":
    main()

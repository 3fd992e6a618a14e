"""One inference of a convolutional network on one core: c:vector, as deployed on `host`, against ONNX Runtime's C API.

    .venv/bin/python benchmarks/convolution.py [--networks lenet5_int8,resnet8,...] [--activations uint8] [--json]

The networks have the shapes of LeNet-5 and of MLPerf Tiny, random weights, and a maximum where those have an average.
As in inference.py, all must agree in every bit, and calls are timed one by one, in alternating slices.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import inference
import machine
import numpy as np
from peers.convolutional import NETWORKS
from rich.console import Console
from rich.table import Table

from harness import model
from harness.boards import profile
from harness.core.errors import HarnessError
from harness.core.installation import ROOT
from harness.targets import toolchain

VECTORS = 64


@dataclass(frozen=True)
class Result:
    """Times of one inference; `ratio` is that of the minima, `spread` the least and greatest of a pass's medians."""

    network: str
    activations: str
    generated: inference.Times
    onnxruntime: inference.Times
    ratio: float
    spread: tuple[float, float]


def measure(network: str, activations: str, target: str, core: int, passes: int) -> Result:
    """Build and time a network."""
    host = profile.load(ROOT / "boards.yaml").board("host")
    net = model.parse(NETWORKS[network](activations).SerializeToString(), network)
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as name:
        folder = Path(name)
        program = inference.build_program(net, [target], host, toolchain.find(host), folder, ("WITH_ARENA",))
        inference.run(program, net, core, passes, VECTORS)
        times = [np.load(folder / f"{contender}.npy").reshape(passes, -1) for contender in ("network_0", "onnxruntime")]
        ratios = np.median(times[1], axis=1) / np.median(times[0], axis=1)
        generated, runtime = (inference.read_times(folder / f"{each}.npy") for each in ("network_0", "onnxruntime"))
    ratio = runtime.minimum_ns / generated.minimum_ns
    return Result(network, activations, generated, runtime, ratio, (float(ratios.min()), float(ratios.max())))


def parse_networks(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Names of NETWORKS; BadParameter if one is not known."""
    chosen = tuple(dict.fromkeys(value.split(",")))
    unknown = [name for name in chosen if name not in NETWORKS]
    if unknown:
        raise click.BadParameter(f"unknown network {unknown[0]!r}; valid choices: {', '.join(NETWORKS)}")
    return chosen


def table(results: Sequence[Result], target: str) -> Table:
    """One row a network."""
    shown = Table(title="one inference, ns", title_justify="left")
    headings = ("network", "activations", f"{target}, minimum", "median", "onnxruntime, minimum", "median")
    for heading in (*headings, "ratio of minima", "of medians, by passes"):
        shown.add_column(heading, justify="left" if heading in {"network", "activations"} else "right")
    for each in results:
        times = (*inference.in_digits(each.generated), *inference.in_digits(each.onnxruntime))
        spread = f"{each.spread[0]:.2f} to {each.spread[1]:.2f}"
        shown.add_row(each.network, each.activations, *times, f"{each.ratio:.2f}", spread)
    return shown


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--networks", default=",".join(NETWORKS), callback=parse_networks, show_default=True, help="Networks.")
@click.option("--activations", default="uint8,int8", show_default=True, help="Types of activations.")
@click.option("--target", default="c:vector", show_default=True, help="Variant of target c.")
@click.option("--passes", default=10, show_default=True, type=click.IntRange(1), help=f"Times {VECTORS} vectors.")
@click.option("--core", default=max(os.sched_getaffinity(0)), show_default=True, help="Core of all calls.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(networks: Sequence[str], activations: str, target: str, passes: int, core: int, *, as_json: bool) -> None:
    """Measure and print the results."""
    try:
        results = [measure(name, kind, target, core, passes) for name in networks for kind in activations.split(",")]
    except HarnessError as error:
        raise SystemExit(str(error)) from None
    where = machine.describe()
    if as_json:
        click.echo(json.dumps({"machine": where, "results": [asdict(result) for result in results]}, indent=1))
        return
    for key, value in where.items():
        click.echo(f"{key}: {value}")
    Console(width=140).print(table(results, target))


if __name__ == "__main__":
    main()

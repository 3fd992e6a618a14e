"""What becomes of a network's codes if its multipliers are powers of two, and if halves are rounded as a DPU does.

.venv/bin/python benchmarks/dpu.py [--model NAME] [--vectors 100000] [--seed 1] [--json]

Not a model of a DPU, but the most that one could keep of the network: its own weights, biases, accumulators, a shift
for every column.  A DPU has one shift for a layer, and symmetric codes.

    exact       saturate(round_half_even(float32(acc) * m) + zy)
    shifted     the same with m' = 2^round(log2 m)
    DPU_ROUND   floor(acc * m' + 1/2): halves go up
"""  # noqa: INP001 - a script

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict, dataclass

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from harness.boards import workspace
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.reference.stimuli import stimuli


@dataclass(frozen=True)
class Changed:
    """Of a layer whose inputs are the network's own: how many codes differ, by how much, and how many sums are halves.

    `rounded_up` are shifted codes that differ between DPU_ROUND and half to even.
    """

    name: str
    codes: int
    differing: int
    largest: int
    halves: int
    rounded_up: int


def shifted(layer: QGemm) -> QGemm:
    """Return the layer with the nearest powers of two, on a logarithmic scale."""
    powers = np.exp2(np.rint(np.log2(layer.multiplier.astype(np.float64)))).astype(np.float32)
    return dataclasses.replace(layer, multiplier=powers)


def changed(layer: QGemm, inputs: Array) -> Changed:
    """Compare the three roundings of a layer; products of an accumulator and a power of two are exact in float64."""
    acc, near = layer.accumulate()(inputs), shifted(layer)
    exact, even = layer.finish()(acc), near.finish()(acc)
    product = acc * near.multiplier.astype(np.float64)
    limits = np.iinfo(layer.dtype)
    up = np.clip(np.floor(product + 0.5) + layer.y_zero_point, limits.min, limits.max)
    steps = np.abs(even.astype(np.int64) - exact)
    halves = int((product - np.floor(product) == 0.5).sum())
    return Changed(layer.name, exact.size, int((steps > 0).sum()), int(steps.max()), halves, int((up != even).sum()))


def measure(network: Network, vectors: Array) -> tuple[list[Changed], int]:
    """All layers with codes as output; and for how many vectors the network's last output differs, all shifted."""
    kept = values = {network.vector.name: vectors}
    found = []
    for layer in network.layers:
        inputs = [values[source] for source in layer.sources]
        codes = isinstance(layer, QGemm) and layer.dtype != np.float32
        if isinstance(layer, QGemm) and codes:
            found.append(changed(layer, inputs[0]))
        moved = shifted(layer) if isinstance(layer, QGemm) and codes else layer
        kept = kept | {layer.output.name: moved.prepare()(*(kept[source] for source in layer.sources))}
        values = values | {layer.output.name: layer.prepare()(*inputs)}
    last = network.layers[-1].output.name
    return found, int((kept[last] != values[last]).any(axis=1).sum())


@click.command()
@click.option("--model", default="acas_coc", show_default=True)
@click.option("--vectors", default=100_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(model: str, vectors: int, seed: int, as_json: bool) -> None:
    """Count what differs."""
    network = workspace.find(None, None).model(model)
    layers, outputs = measure(network, stimuli(network, vectors, seed).chunk(0, vectors))
    if as_json:
        document = {"vectors": vectors, "outputs_differing": outputs, "layers": [asdict(each) for each in layers]}
        print(json.dumps(document, indent=1))  # noqa: T201 - standard output is the interface
        return
    table = Table(*(field.name for field in dataclasses.fields(Changed)))
    for each in layers:
        table.add_row(each.name, *(f"{count:,}" for count in dataclasses.astuple(each)[1:]))
    Console().print(table, f"the network's output differs for {outputs:,} of {vectors:,} vectors")


if __name__ == "__main__":
    main()

"""Instructions of a network on a GPU for each product: the compiled PTX is executed by an interpreter, which counts.

    .venv/bin/python benchmarks/gpu_instructions.py models/resnet8_int8.onnx [--kernels tensor] [--arch sm_87] [--json]
    .venv/bin/python benchmarks/gpu_instructions.py --shape 2048-64 --vectors 64

It needs no GPU and says nothing of its time.  Every activation must be the specification's.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the interpreter of the tests

from inference import parse_shape

from harness.boards import profile, workspace
from harness.boards.profile import Profile
from harness.model import parse
from harness.model.network import Network
from harness.operators.contraction import Contraction
from harness.reference import SpecificationReference
from tests.simulators.cuda import interpreted
from tests.simulators.ptx.interpreter import Module
from tests.support import builders

KERNELS = ("layerwise", "fused", "tensor")
SEED = 1


@dataclass(frozen=True)
class Counted:
    """The instructions of all threads for a layer, and its products; both of all vectors."""

    kernels: str
    layer: str
    instructions: int
    products: int

    @property
    def of_a_product(self) -> float:
        """Instructions of a thread for each product."""
        return self.instructions / self.products


def count(net: Network, board: Profile, kernels: str, arch: str, vectors: int) -> list[Counted]:
    """Return the layers with products; those of cuda:fused have only what their own functions execute."""
    low, high = net.box
    inputs = np.random.default_rng(SEED).uniform(low, high, (vectors, net.vector.size)).astype(np.float32)
    code = interpreted.device_code(net, board, f"cuda:{kernels}")
    module = Module(interpreted.compiled(code, arch))
    found = interpreted.run(module, net, code, inputs, carried=code.carried)
    for layer, a, e in zip(net.layers, found, SpecificationReference(net).activations(inputs), strict=True):
        if a.tobytes() != e.tobytes():
            raise click.ClickException(f"layer {layer.name} is wrong in the interpreter: run make test")
    return [
        Counted(
            kernels,
            layer.name,
            sum(times for name, times in module.executed.items() if name.rpartition("_")[0] == layer.name),
            vectors * layer.weights.size * layer.positions,
        )
        for layer in net.layers
        if isinstance(layer, Contraction)
    ]


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.argument("model", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--shape", "widths", default="64-64", show_default=True, callback=parse_shape, help="Without a model.")
@click.option("--kernels", multiple=True, type=click.Choice(KERNELS), default=("fused", "tensor"), show_default=True)
@click.option("--arch", default="sm_87", show_default=True)
@click.option("--vectors", default=1, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(
    model: Path | None, *, widths: tuple[int, ...], kernels: tuple[str, ...], arch: str, vectors: int, as_json: bool
) -> None:
    """Count, and print it."""
    content = model.read_bytes() if model else builders.random_network(np.random.default_rng(SEED), widths)
    net = parse(content if isinstance(content, bytes) else content.SerializeToString(), "benchmark")
    board = profile.load(workspace.find(None, None).boards).board("host")
    rows = [row for each in kernels for row in count(net, board, each, arch, vectors)]
    if as_json:
        of_rows = [asdict(row) | {"of_a_product": row.of_a_product} for row in rows]
        click.echo(json.dumps({"arch": arch, "vectors": vectors, "calculated": True, "layers": of_rows}, indent=1))
        return
    shown = Table(
        "kernels", "layer", "products", "instructions", "of a product", title=f"calculated from PTX for {arch}"
    )
    for row in rows:
        cells = (f"{row.products:,}", f"{row.instructions:,}", f"{row.of_a_product:.3f}")
        shown.add_row(row.kernels, row.layer, *cells)
    Console().print(shown)


if __name__ == "__main__":
    main()

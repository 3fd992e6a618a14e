"""`harness models hybrid`: a decided network with its checks, its safety net and the selection."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, force, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.model.network import Network

SUFFIX = ".architecture.yaml"


@click.command("hybrid", epilog="Example: harness models hybrid acas_coc acas_coc_hybrid --decision last")
@click.argument("description", shell_complete=_completion.models)
@click.argument("output")
@click.option(
    "--decision",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder or name of a finished decision (`last`), or its certificate with the packed decisions beside it.",
)
@force
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, description: str, output: str, decision: Path, force: bool) -> None:
    """Write the hybrid architecture of DESCRIPTION as the model OUTPUT: network, checks, safety net and selection.

    DESCRIPTION is a file, or a model that has a MODEL.architecture.yaml beside it.
    """
    from harness import model
    from harness.applications.decide.hybrid import build as hybrid

    file, path = _described(space, description), space.new_model(output, force=force)
    console = Console.open(as_json=as_json)
    found = hybrid.build(file, decision if decision.is_file() else space.run(decision))
    network = model.graph.parse(found.onnx_bytes, path.stem)
    write_whole(path, found.onnx_bytes)
    counts = found.document.counts
    sentence = (
        f"{counts.safe:,} boxes are safe, {counts.violated:,} are not: the network decides in {found.safe_share:.2%} "
        "of the domain's volume, the safety net in the rest"
    )
    console.show(_table(path, network), Text(sentence))
    console.document(
        {
            "model": path.stem,
            "file": str(path),
            "sha256": hashlib.sha256(found.onnx_bytes).hexdigest(),
            "source_sha256": found.source.sha256,
            "decisions_sha256": found.document.decisions_sha256,
            "boxes": {"safe": counts.safe, "violated": counts.violated},
            "safe_share_of_volume": found.safe_share,
            "constants_bytes": {layer.name: _bytes(layer.constants().values()) for layer in network.layers},
        }
    )


def _described(space: Workspace, name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    path = space.model_file(name).with_suffix(SUFFIX)
    if not path.is_file():
        raise RequestError(f"model {name!r} has no architecture: there is no {path}", "see docs/hybrid-architecture.md")
    return path


def _table(path: Path, network: Network) -> Table:
    table = Table("layer", "operator", "constants", right=("constants",), title=str(path))
    for layer in network.layers:
        table.add_row(layer.name, layer.operator, f"{_bytes(layer.constants().values()):,} B")
    return table


def _bytes(constants: Iterable[Any]) -> int:
    import numpy as np  # here, because --help must be quick

    return sum(np.asarray(constant).nbytes for constant in constants)

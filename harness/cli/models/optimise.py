"""`harness models optimise`: a smaller file of the same network, by constant folding."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import as_json, force, pass_workspace, seed
from harness.cli.models.show import plain_table
from harness.core.console import Console
from harness.core.errors import RequestError

if TYPE_CHECKING:
    from harness.core.table import Table
    from harness.model.analysis.folding import Folding

STRATEGIES = ("sinks", "lca", "none")
LISTED = 4


@click.command("optimise", epilog="Example: harness models optimise net.onnx net_folded --prune lca")
@click.argument("model", shell_complete=_completion.models)
@click.argument("output")
@click.option(
    "--prune", type=click.Choice(STRATEGIES),
    help="Replace the last constant tensors (sinks), or their lowest common ancestor (lca). "
    "Default: for each part of the graph what gives the smallest file.",
)  # fmt: skip
@click.option(
    "--fact", "facts", multiple=True, metavar="NAME:PART=VALUE",
    help="State the shape, type or value of a tensor, as in harness models analyse; OUTPUT takes no other inputs.",
)  # fmt: skip
@click.option("--vectors", type=click.IntRange(1), default=16, show_default=True, help="Number of compared inputs.")
@seed
@force
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str,
    output: str,
    prune: str | None,
    facts: tuple[str, ...],
    vectors: int,
    seed: int,
    force: bool,
) -> None:
    """Write MODEL as OUTPUT with its constant parts computed, if that is smaller and changes no bit.

    ONNX Runtime, and the specification where it supports the model, run both files on seeded inputs.
    """
    from harness.analysis.folded import verify
    from harness.model.analysis import parse_hint
    from harness.model.analysis.folding import fold
    from harness.model.analysis.propagation import propagate
    from harness.model.importer import simplify

    console, file = Console.open(as_json=as_json), space.model_file(model)
    path = space.new_model(output, force=force)
    simplified, source = simplify.read(file, folds=False)
    before, size = simplified.model, simplified.source.path.stat().st_size
    simplified.check()
    for note in simplified.notes:
        console.note(note)
    found = propagate(before, [parse_hint(fact, before) for fact in facts])
    after, foldings = fold(before, found, prune)  # type: ignore[arg-type] # click checks the choice
    written = after.SerializeToString()
    changed = sum(bool(each.removed) for each in foldings)
    if not foldings:
        raise RequestError(f"model {file.stem!r} has no constant nodes, so nothing can be folded", "keep the file")
    console.show(_table(foldings), Text(f"{changed} of {len(foldings)} constant parts of the graph change"))
    sizes = f"{size:,} bytes before, {len(written):,} after"
    nodes = f"{len(before.graph.node)} nodes before, {len(after.graph.node)} after"
    if not any(each.removed for each in foldings):
        raise RequestError(
            f"model {file.stem!r} has no constant nodes that are removed",
            "keep the file, or try --prune lca or --prune sinks",
        )
    if len(written) >= size:
        raise RequestError(f"model {file.stem!r} gets no smaller: {sizes}", "try another --prune, or keep the file")
    console.note(f"{vectors} inputs of seed {seed}: running both files")
    verified = verify(before, after, found, vectors, seed)
    write_whole(path, written)
    engines = " and ".join(verified.engines)
    same = f"{verified.values:,} values of outputs, of {vectors} inputs, have the same bits according to {engines}"
    console.show(Text(f"wrote {path}: {sizes}; {nodes}\n{same}"))
    console.document(
        {
            "model": path.stem,
            "file": str(path),
            "sha256": hashlib.sha256(written).hexdigest(),
            "source_file": str(file),
            "source_sha256": json.loads(source["source_sha256"]),
            "notes": list(simplified.notes),
            "bytes_before": size,
            "bytes_after": len(written),
            "nodes_before": len(before.graph.node),
            "nodes_after": len(after.graph.node),
            "seed": seed,
            "verified": asdict(verified),
            "components": [asdict(each) for each in foldings],
        }
    )


def _table(foldings: list[Folding]) -> Table:
    """Return a line for each component that changes, with the estimated bytes of each strategy."""
    changed = [folding for folding in foldings if folding.removed] or foldings[:LISTED]
    rows = (
        (
            ", ".join(each.component.nodes[:LISTED]) + (" ..." if len(each.component.nodes) > LISTED else ""),
            *(f"{each.estimates[name]:,}" for name in ("none", "lca", "sinks")),
            each.strategy,
            str(len(each.removed)),
            ", ".join(each.folded) or "-",
        )
        for each in changed
    )
    headings = ("constant nodes", "bytes: none", "lca", "sinks", "chosen", "removed", "new constants")
    return plain_table(*headings, rows=rows)

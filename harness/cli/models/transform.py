"""`harness models transform`: changes of a float network that keep its function of real numbers."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli import _completion
from harness.cli._options import Words, as_json, force, pass_workspace, seed
from harness.core.console import Console
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.analysis.transformation import Transformed


@click.command("transform", epilog="Example: harness models transform net net_folded --apply batch-normalization")
@click.argument("model", shell_complete=_completion.models)
@click.argument("output")
@click.option(
    "--apply", "asked", type=Words(), multiple=True, metavar="NAME",
    help="Transform to apply; repeat it or use commas for several. Default: all that leave every bit unchanged.",
)  # fmt: skip
@click.option("--vectors", type=click.IntRange(1), default=256, show_default=True, help="Number of compared vectors.")
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
    asked: tuple[tuple[str, ...], ...],
    vectors: int,
    seed: int,
    force: bool,
) -> None:
    """Write MODEL as OUTPUT without nodes that other nodes can take over, and measure which bits that changes.

    Transforms that leave all bits unchanged: constants, dropout, reshape. Others: normalization, batch-normalization.
    """
    from harness.analysis import transformation
    from harness.model.graph import read_file

    file, path = space.model_file(model), space.new_model(output, force=force)
    console = Console.open(as_json=as_json)
    onnx_bytes = read_file(file)
    found = transformation.transform(onnx_bytes, file.stem, [name for names in asked for name in names], vectors, seed)
    write_whole(path, found.onnx_bytes)
    for report in found.reports:
        for reason in report.kept:
            console.note(f"{report.name}: kept {reason}")
    where = f"According to the specification, on {vectors:,} vectors of seed {seed},"
    console.show(_table(path, found), Text(_sentence(found, where)))
    files = {"model": path.stem, "file": str(path), "sha256": hashlib.sha256(found.onnx_bytes).hexdigest()}
    source = {"source_file": str(file), "source_sha256": hashlib.sha256(onnx_bytes).hexdigest()}
    reports = [asdict(report) for report in found.reports]
    measured = {"vectors": vectors, "seed": seed, "transforms": reports, "measured": asdict(found.measured)}
    console.document({**files, **source, **measured})


def _table(path: Path, found: Transformed) -> Table:
    table = Table(
        "transform", "nodes removed", "values that differ", "by at most", "in ulp", "of its bound", title=str(path)
    )
    for report in found.reports:
        row = ["-"] * 4
        if each := report.measured:
            row[0] = f"{each.differing:,} of {each.values:,}"
            row[1:3] = f"{each.largest_difference:.3g}", f"{each.largest_difference_ulp:,.4g}"
        if report.share_of_bound is not None:
            row[3] = f"{report.share_of_bound:.2g}"
        table.add_row(report.name, str(len(report.nodes)), *row)
    return table


def _sentence(found: Transformed, where: str) -> str:
    total = found.measured
    if not any(report.measured for report in found.reports):
        return "No transform found a node to remove: the new file differs in its metadata only."
    if not total.differing:
        return f"{where} all {total.values:,} values of the outputs are bit for bit those of the original."
    return (
        f"{where} {total.differing:,} of {total.values:,} values of the outputs differ from those of the original, by "
        f"at most {total.largest_difference:.3g} ({total.largest_difference_ulp:,.4g} ulp of the value); the largest "
        f"value is {total.largest_value:.3g}. The bits of the new file are those of another network."
    )

"""`harness models transform`: changes of a float network that keep its function of real numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.text import Text

from harness.boards.workspace import Workspace, write_whole
from harness.cli._options import Words, as_json, force, pass_workspace, seed
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.analysis.transformation import Measured
    from harness.model.transforms import Step


BOUND_VECTORS = 16  # of which every activation is kept


@click.command("transform", epilog="Example: harness models transform net net_folded --apply batch-normalization")
@click.argument("name", metavar="MODEL")
@click.argument("output")
@click.option(
    "--apply", "asked", type=Words(), multiple=True, metavar="NAME",
    help="Transform to apply; repeat it or use commas for several. Default: all that leave every bit unchanged.",
)  # fmt: skip
@click.option(
    "--vectors", type=click.IntRange(1), default=256, show_default=True, help="Number of vectors of the comparison."
)
@seed
@force
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    name: str,
    output: str,
    asked: tuple[tuple[str, ...], ...],
    vectors: int,
    seed: int,
    force: bool,
) -> None:
    """Write MODEL as OUTPUT without nodes that other nodes can take over, and measure which bits that changes.

    Transforms that leave all bits unchanged: constants, dropout, reshape. Others: normalization, batch-normalization.
    """
    file, path = space.model_file(name), space.new_model(output, force=force)
    names = [word for words in asked for word in words]
    transform(file, path, names, (vectors, seed), Console.open(as_json=as_json))


@dataclass(frozen=True)
class Report:
    """A transform with its measurements, None if it changed nothing.

    `measured` is by the specification; `runtime` by ONNX Runtime, if all bits must be unchanged; `share` is the largest
    difference of a folded layer as a share of its bound.
    """

    step: Step
    measured: Measured | None = None
    runtime: Measured | None = None
    share: float | None = None


def transform(file: Path, path: Path, asked: Sequence[str], drawn: tuple[int, int], console: Console) -> None:
    """Apply the transforms, write the model to `path`, and print what they changed; `drawn` are vectors and seed."""
    from harness.analysis import transformation
    from harness.model import transforms
    from harness.reference.stimuli import stimuli

    try:
        onnx_bytes = file.read_bytes()
    except OSError as error:
        raise RequestError(f"model {file}: {error.strerror}", "give the path of an .onnx file") from error
    network = transforms.original(onnx_bytes, file.stem)
    count, seed = drawn
    vectors = stimuli(network, count, seed).chunk(0, count)
    first = before = transformation.specified(network, vectors)
    theirs = transformation.computed(network, onnx_bytes, vectors)
    reports, previous = [], network
    for step in transforms.apply(onnx_bytes, file.stem, asked):
        reports.append(Report(step))
        if not step.applied.nodes:
            continue
        after = transformation.specified(step.network, vectors)
        ours = transformation.computed(network, step.onnx_bytes, vectors)
        measured, runtime = transformation.measure(before, after), transformation.measure(theirs, ours)
        share = transformation.share_of_bound(previous, step.network, step.applied.folds, vectors[:BOUND_VECTORS])
        transformation.require_same_function(step.transform, share)
        if step.keeps_bits:
            transformation.require_kept_bits(step.transform, "the specification", measured)
            transformation.require_kept_bits(step.transform, "ONNX Runtime", runtime)
        reports[-1] = Report(step, measured, runtime if step.keeps_bits else None, share)
        before, theirs, previous = after, ours, step.network
    written = reports[-1].step.onnx_bytes
    total = transformation.measure(first, before)
    write_whole(path, written)
    for report in reports:
        for reason in report.step.applied.kept:
            console.note(f"{report.step.transform}: kept {reason}")
    console.show(_table(path, reports), _sentence(reports, total, drawn))
    console.document(
        {
            "model": path.stem,
            "file": str(path),
            "sha256": hashlib.sha256(written).hexdigest(),
            "source_file": str(file),
            "source_sha256": hashlib.sha256(onnx_bytes).hexdigest(),
            "vectors": count,
            "seed": seed,
            "transforms": [_entry(report) for report in reports],
            "measured": asdict(total),
        }
    )


def _entry(report: Report) -> dict[str, Any]:
    return {
        "name": report.step.transform,
        "keeps_bits": report.step.keeps_bits,
        "nodes": list(report.step.applied.nodes),
        "kept": list(report.step.applied.kept),
        "measured": report.measured and asdict(report.measured),
        "share_of_bound": report.share,
        "onnx_runtime": report.runtime and asdict(report.runtime),
    }


def _table(path: Path, reports: Sequence[Report]) -> Table:
    table = Table(title=str(path), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("transform", "nodes removed", "values that differ", "largest difference", "in ulp", "of its bound"):
        table.add_column(heading)
    for report in reports:
        found, nodes = report.measured, str(len(report.step.applied.nodes))
        row = ("-",) * 4
        if found:
            ulp = f"{found.largest_difference_ulp:,.4g}"
            share = "-" if report.share is None else f"{report.share:.2g}"
            row = (f"{found.differing:,} of {found.values:,}", f"{found.largest_difference:.3g}", ulp, share)
        table.add_row(report.step.transform, nodes, *row)
    return table


def _sentence(reports: Sequence[Report], total: Measured, drawn: tuple[int, int]) -> Text:
    count, seed = drawn
    if not any(report.measured for report in reports):
        return Text("No transform found a node to remove: the new file differs in its metadata only.")
    where = f"According to the specification, on {count:,} vectors of seed {seed},"
    if not total.differing:
        return Text(f"{where} all {total.values:,} values of the outputs are bit for bit those of the original.")
    return Text(
        f"{where} {total.differing:,} of {total.values:,} values of the outputs differ from those of the original, by "
        f"at most {total.largest_difference:.3g} ({total.largest_difference_ulp:,.4g} ulp of the value); the largest "
        f"value is {total.largest_value:.3g}. The bits of the new file are those of another network."
    )

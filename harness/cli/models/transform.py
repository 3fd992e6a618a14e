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
    """A transform with its measurements: by the specification, and by ONNX Runtime if all bits must be unchanged.

    `measured` is None if it changed nothing.
    """

    step: Step
    measured: Measured | None = None
    runtime: Measured | None = None


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
    reports = []
    for step in transforms.apply(onnx_bytes, file.stem, asked):
        reports.append(Report(step))
        if not step.applied.nodes:
            continue
        after = transformation.specified(step.network, vectors)
        reports[-1] = Report(step, transformation.measure(before, after))
        ours = transformation.computed(network, step.onnx_bytes, vectors)
        if step.keeps_bits:
            reports[-1] = Report(step, transformation.measure(before, after), transformation.measure(theirs, ours))
            _require_kept_bits(reports[-1])
        before, theirs = after, ours
    written = reports[-1].step.onnx_bytes
    total = transformation.measure(first, before)
    write_whole(path, written)
    for report in reports:
        for reason in report.step.applied.kept:
            console.note(f"{report.step.transform}: kept {reason}")
    console.show(_table(path, reports), _sentence(total, count, seed))
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


def _require_kept_bits(report: Report) -> None:
    from harness.analysis.transformation import require_kept_bits

    for engine, measured in (("the specification", report.measured), ("ONNX Runtime", report.runtime)):
        if measured:
            require_kept_bits(report.step.transform, engine, measured)


def _entry(report: Report) -> dict[str, Any]:
    return {
        "name": report.step.transform,
        "keeps_bits": report.step.keeps_bits,
        "nodes": list(report.step.applied.nodes),
        "kept": list(report.step.applied.kept),
        "measured": report.measured and asdict(report.measured),
        "onnx_runtime": report.runtime and asdict(report.runtime),
    }


def _table(path: Path, reports: Sequence[Report]) -> Table:
    table = Table(title=str(path), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("transform", "nodes removed", "values that differ", "largest difference", "in ulp"):
        table.add_column(heading)
    for report in reports:
        found, nodes = report.measured, str(len(report.step.applied.nodes))
        row = ("-",) * 3
        if found:
            ulp = f"{found.largest_difference_ulp:,.4g}"
            row = (f"{found.differing:,} of {found.values:,}", f"{found.largest_difference:.3g}", ulp)
        table.add_row(report.step.transform, nodes, *row)
    return table


def _sentence(total: Measured, count: int, seed: int) -> Text:
    where = f"on {count:,} vectors of seed {seed}, all {total.values:,} values of the outputs"
    if not total.differing:
        return Text(f"According to the specification, and {where} are bit for bit those of the original.")
    return Text(
        f"According to the specification, and {where}: {total.differing:,} differ from the original, by at most "
        f"{total.largest_difference:.3g} ({total.largest_difference_ulp:,.4g} ulp of the value); the largest value is "
        f"{total.largest_value:.3g}. Quote the SHA-256 of the new file: it is another network."
    )

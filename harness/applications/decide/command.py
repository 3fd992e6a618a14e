"""`harness decide`: the complete decision of a property over the operational design domain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE, RequestError
from harness.core.table import Table
from harness.core.text import duration

if TYPE_CHECKING:
    from harness.applications.decide.entries import BoundsDocument, DecisionDocument
    from harness.applications.decide.job import Job
    from harness.model.network import Network

WAITING_FOR_EACH = 2
"""Slabs that wait or run for each worker, so that none is idle."""


@click.command("decide", epilog="Example: harness decide --model acas_coc")
@click.option(
    "--model", shell_complete=_completion.models, help="Model: a name under models/ or the path of an ONNX file."
)
@click.option(
    "--property",
    "stated",
    type=click.Path(path_type=Path),
    help="File that states the property (default: MODEL.property.yaml beside the model).",
)
@click.option("--resume", type=click.Path(path_type=Path), help="Continue an unfinished decision: its folder or name.")
@click.option("--workers", type=click.IntRange(1, 1024), help="Threads on this machine (default: one for each core).")
@click.option("--scheduler", help="Address of a Dask scheduler, whose workers decide the slabs.")
@click.option(
    "--bounds", is_flag=True, help="Bound the decisions in each box, for many inputs; some may stay undecided."
)
@click.option("--gpu", is_flag=True, help="Decide the slabs on the NVIDIA GPU of this machine, or of each worker.")
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    model: str | None,
    stated: Path | None,
    resume: Path | None,
    bounds: bool,
    workers: int | None,
    scheduler: str | None,
    gpu: bool,
) -> int:
    """Decide a property of a quantised network for every input of its domain, with a witness for each violation.

    Exit code: 0 the property holds in every box, 1 it is violated in some, 2 the request is invalid, 3 a part failed,
    or --bounds left a box undecided.
    """
    from harness.applications.decide import job as decision
    from harness.applications.decide import page

    console = Console.open(as_json=as_json)
    if (resume is None) == (model is None) or (resume and (stated or bounds)):
        raise click.UsageError("give --model, and --property if the model has none, or --resume")
    if gpu and bounds:
        raise click.UsageError("--bounds computes on processors only: give it without --gpu")
    with executor(1 if gpu else workers, scheduler) as (pool, count):
        if resume:
            job = replace(decision.resumed(space.run(resume)), on_gpu=gpu)
            console.note(feasibility(job))
            console.note(f"decided again: {job.recheck_kept(console.progress)}")
        else:
            network, file = space.model(str(model)), stated or _beside(space.model_file(str(model)))
            if bounds:
                return by_bounds(space.runs, network, file, pool, count, console)
            job = replace(decision.planned(space.runs, network, file), on_gpu=gpu)
            console.note(feasibility(job))
            job = decision.new(job, network, file)
        document = decision.run(job, pool, WAITING_FOR_EACH * count, console.progress)
    document = decision.write(job, document, page.html(job, document))
    console.show(*summary(job, document))
    console.document(document.to_json() | {"run": str(job.path)})
    return EXIT_DIFFERS if document.counts.violated else EXIT_DONE


def _beside(model: Path) -> Path:
    """Return the property of a model; RequestError if it has none."""
    path = model.with_suffix(".property.yaml")
    if not path.is_file():
        raise RequestError(
            f"model {model.stem!r} has no property: there is no {path}", "name one: --property FILE.yaml"
        )
    return path


@contextmanager
def executor(workers: int | None, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """Provide the pool of workers and their number: threads of this machine, or those of a Dask scheduler.

    The engine releases Python's lock, so that one thread for each core uses all of them.
    """
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        with ThreadPoolExecutor(count) as pool:
            yield pool, count
        return
    from harness.applications.decide.cluster import connected

    with connected(scheduler) as (cluster, count):
        yield cluster, count


def feasibility(job: Job) -> str:
    """Return how much there is to decide, and how long one core or the GPU of this machine takes for it."""
    from harness.applications.decide import job as decision

    per_s, vectors = decision.measured_speed(job), job.partition.code_vectors
    processor = "the GPU" if job.on_gpu else "one core"
    speed = f"{vectors:,} code vectors; {per_s / 1e6:.0f} million a second on {processor}"
    decision.require_feasible(speed, vectors / per_s)
    needed = duration(vectors / per_s)
    return f"{job.partition.boxes:,} boxes in {len(job.tasks)} slabs, {speed}: about {needed} of {processor}"


def by_bounds(runs: Path, network: Network, stated: Path, pool: Executor, count: int, console: Console) -> int:
    """Bound the decisions in each box, show the result, and return the exit code."""
    from harness.applications.decide import bounded, page
    from harness.applications.decide import job as decision

    job = bounded.planned(runs, network, stated)
    boxes, per_box_s = job.partition.boxes, bounded.seconds_of_a_box(job)
    needed = f"{boxes:,} boxes of {job.network.inputs} inputs, {per_box_s * 1e3:.2g} ms each on one core"
    decision.require_feasible(needed, boxes * per_box_s)
    console.note(f"{needed}: about {duration(boxes * per_box_s)} of one core")
    job = bounded.new(job, network, stated)
    document = bounded.run(job, pool, WAITING_FOR_EACH * count, console.progress)
    document = decision.write(job, document, page.html_of_bounds(job, document))
    verdict = f"{document.property.kind}: {document.verdict}"
    console.show(results(document), Text(verdict, style="bold"), Text(f"evidence: {job.path}"))
    console.document(document.to_json() | {"run": str(job.path)})
    if document.counts.violated:
        return EXIT_DIFFERS
    return EXIT_INFRASTRUCTURE if document.counts.undecided else EXIT_DONE


def summary(job: Job, document: DecisionDocument) -> tuple[Any, ...]:
    """Return the result for people."""
    verdict = f"{document.property.kind}: {document.verdict}"
    speed = f"{document.code_vectors_per_s / 1e6:.0f} million code vectors a second on {document.processor}"
    return (
        results(document),
        Text(f"{verdict}, {job.partition.code_vectors:,} code vectors, {speed}", style="bold"),
        Text(f"evidence: {job.path}"),
    )


def results(document: DecisionDocument | BoundsDocument) -> Table:
    """Return the number of boxes by result."""
    counts, boxes = document.counts, document.partition.boxes
    numbers = ("boxes", "share")
    table = Table("result", *numbers, right=numbers, box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, number in (("safe", counts.safe), ("violated", counts.violated), ("undecided", counts.undecided)):
        table.add_row(name, f"{number:,}", f"{number / boxes:.2%}")
    return table

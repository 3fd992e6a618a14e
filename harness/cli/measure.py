"""`harness measure`: set the board to a known state, time every execution, and store times and state of the board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._group import Command
from harness.cli._options import Duration, as_json, pass_workspace, planned, recorded, samples, seed, warmup
from harness.core.console import Console
from harness.core.errors import InfrastructureError
from harness.core.outcome import Outcome

if TYPE_CHECKING:
    from harness.pipeline.measure import Extension, MeasurementRequest


@click.command("measure", cls=Command, epilog="Example: harness measure --board xavier --model acas_coc")
@planned
@samples
@click.option(
    "--duration",
    "duration_s",
    metavar="TIME",
    type=Duration(),
    help="Minimum duration of the measurement: 90s, 15m, 8h.",
)
@click.option(
    "--scope",
    type=click.Choice(["network", "item", "layer"]),
    help="Measured part; default: network for times, layer for counts.",
)
@click.option(
    "--count",
    type=click.Choice(["time", "instructions", "cycles"]),
    help="Measure times, or events of the processor; default on an emulated board: instructions.",
)
@click.option(
    "--load",
    type=click.Choice(["idle", "memory", "cpu", "io", "network"]),
    default="idle",
    show_default=True,
    help="Load on the board during the measurement.",
)
@warmup
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    multiple=True,
    metavar="RUN",
    help="Earlier measurement to compare with: a folder or a name under runs/. "
    "Name at least three, so that the gate contains the noise between runs.",
)
@seed
@recorded
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, **options: Any) -> int:
    """Measure the execution times of a model on a board, or count its instructions.

    Exit code: 0 measured, 1 wrong outputs, varying counts or slower than --against, 2 the request is invalid,
    3 inconclusive.
    """
    return measure(build_request(space, **options), space, Console.open(as_json=as_json))


def measure(request: MeasurementRequest, workspace: Workspace, console: Console) -> int:
    """Measure, show the result and return the exit code of the verdict."""
    from harness.pipeline.measure import execute
    from harness.report import terminal
    from harness.runs import document as run_document
    from harness.runs.measurement import document

    try:
        measurement, folder = execute(request, workspace, console)
    except InfrastructureError as failure:
        console.document(run_document.inconclusive(request.request, failure))
        console.failure(failure)
        return failure.exit_code
    terminal.show_measurement(measurement.to_json(), folder / "report.html", console)
    console.document(document.summary(measurement, folder))
    return Outcome(measurement.verdict).exit_code


def build_request(
    space: Workspace, *, against: Sequence[Path], extension: Extension | None = None, **options: Any
) -> MeasurementRequest:
    """Check the whole request before anything is built; `options` are those of a run and of what is measured."""
    from harness.pipeline import measure as pipeline
    from harness.runs.job import Request
    from harness.runs.measurement.request import Choices

    if not (options["board"] and options["model"]):
        raise click.UsageError("give --board and --model")
    choices = {name: options.pop(name) for name in Choices.__annotations__}
    return pipeline.build_request(Request(**options), space, against=against, extension=extension, **choices)

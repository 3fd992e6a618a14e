"""`harness run`: plan, build, deploy, execute, collect, compare, store the evidence, report the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._group import Command
from harness.cli._options import (
    accepting,
    as_json,
    labelled,
    pass_workspace,
    planned,
    recorded,
    require_alone,
    seed,
    traced,
)
from harness.core.console import Console
from harness.core.errors import EXIT_DONE, InfrastructureError
from harness.core.outcome import Outcome

if TYPE_CHECKING:
    from harness.runs.job import Request


@click.command("run", cls=Command, epilog="Example: harness run --board xavier --model acas_coc")
@planned
@click.option("--vectors", default="100000", show_default=True, help="Number of vectors, or a file or folder of them.")
@seed
@click.option(
    "--cover",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Share of all codes of all layers; search for vectors until it is covered or the search stalls; "
    "--vectors is then the maximum.",
)
@click.option(
    "--chunk",
    type=click.IntRange(1),
    show_default="10000, or as many as fit into 512 MiB",
    help="Vectors per step; the unit of resume.",
)
@click.option(
    "--fetch",
    type=click.Choice(["all", "mismatch"]),
    show_default="all, or mismatch if all would take over 1 GiB",
    help="Dumps to fetch from the board.",
)
@click.option("--plan", help="Plan written by `harness plan -o`, instead of board, model and the options of a plan.")
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(path_type=Path),
    shell_complete=_completion.runs,
    help="Resume this unfinished run: a folder, or its name under runs/.",
)
@labelled
@accepting
@traced
@recorded
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, resume: Path | None, board: str, model: str, **options: Any) -> int:
    """Run a model on a board and compare every activation with the reference.

    Exit code: 0 identical, or within bound with --accept bound; 1 differs, or within bound; 2 the request is invalid;
    3 inconclusive.
    """
    request = build_request(space, resume, board, model, **options)
    return run(request, space.run(resume) if resume else None, space, Console.open(as_json=as_json))


def build_request(
    space: Workspace, resume: Path | None, board: str | None, model: str | None, **options: Any
) -> Request:
    """Return the request of these options, or that of an unfinished run; UsageError if options exclude each other."""
    from harness.reference import engines
    from harness.runs.job import Request, unfinished_request

    if resume:
        stored = ("plan", "run_folder", "labels", "metric", "float_model")
        if any(options.get(key) for key in stored) or options["reference"] != engines.ALWAYS:
            raise click.UsageError(
                "--resume uses the plan, the folder, the labels and the engines of its run: omit the other options"
            )
        return unfinished_request(space.run(resume))
    if options["plan"]:
        defined = ("items", "split", "sync", "buffers", "block", "stream", "pulse", "steps")
        require_alone("--plan", board, model, *(options[key] for key in defined))
    elif not (board and model):
        raise click.UsageError("give --board and --model, --plan FOLDER, or --resume RUN")
    return Request(board=board or "", model=model or "", **options)


def run(request: Request, resume: Path | None, workspace: Workspace, console: Console) -> int:
    """Run the request, show the result and return the exit code of the verdict."""
    from harness.pipeline.run import execute
    from harness.report import terminal
    from harness.runs import document as run_document

    try:
        document, folder = execute(request, resume, workspace, console)
    except InfrastructureError as failure:
        console.document(run_document.inconclusive(request, failure))
        console.failure(failure)
        return failure.exit_code
    terminal.show(document.to_json(), folder / "report.html", console)
    console.document(run_document.summary(document, str(folder)))
    return EXIT_DONE if document.accepted else Outcome(document.verdict).exit_code

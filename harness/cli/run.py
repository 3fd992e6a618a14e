"""`harness run`: its options; the work is in run_flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json, planned, precise, require_alone, run_folder, seed, traced
from harness.core.console import Console


@click.command()
@planned
@click.option("--vectors", default="100000", show_default=True, help="How many, or a .npy file of them.")
@seed
@click.option(
    "--cover",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="Search for vectors until this share of all codes of all layers is met, or nothing new is found; "
    "--vectors is then the most.",
)
@click.option(
    "--chunk",
    type=click.IntRange(1),
    show_default="10000, or as many as fit into 512 MiB",
    help="Vectors a step; unit of resume.",
)
@click.option(
    "--fetch", type=click.Choice(["all", "mismatch"]), default="all", show_default=True, help="Dumps that travel."
)
@click.option("--plan", help="A folder of `harness plan -o` in place of board, model and all that makes a plan.")
@click.option(
    "--resume",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Go on with this unfinished run: a folder, or its name under runs/.",
)
@traced
@precise
@run_folder
@as_json
@click.pass_obj
def run(space: Workspace, /, as_json: bool, resume: Path | None, board: str, model: str, **asked: Any) -> int:
    """Run a model on a board and compare every activation with the reference.

    Exit code: 0 identical, 1 differs, 2 the request is wrong, 3 inconclusive.
    """
    from harness.cli import run_flow as command
    from harness.runs.job import Request

    if resume and (asked["plan"] or asked["run_folder"]):
        raise click.UsageError("--resume goes on with the plan and in the folder of its run: leave the others out")
    if asked["plan"]:
        require_alone("--plan", board, model, *(asked[key] for key in ("items", "split", "sync", "block")))
    elif not resume and not (board and model):
        raise click.UsageError("give --board and --model, --plan FOLDER, or --resume RUN")
    request = Request(board=board, model=model, **asked)
    return command.run(request, space.run(resume) if resume else None, space, Console.open(as_json=as_json))

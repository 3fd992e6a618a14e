"""`harness prove`: a proof for all inputs, followed by the steps of `harness run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli._group import Command
from harness.cli._options import as_json, pass_workspace, planned, recorded, seed, traced
from harness.core.console import Console

if TYPE_CHECKING:
    from harness.runs.job import Floats, Request


@click.command("prove", cls=Command, epilog="Example: harness prove --board xavier --model acas_coc")
@planned
@click.option(
    "--vectors",
    default="10000",
    show_default=True,
    help="Number of vectors to compare, or a file or folder of them, as in run.",
)
@seed
@click.option(
    "--floats",
    type=click.Choice(["all", "thresholds"]),
    help="Inputs of QuantizeLinear on the board: all 2^32, or those where codes change (default on an emulated board).",
)
@traced
@recorded
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, **options: Any) -> int:
    """Prove that a model on a board gives the reference's activations for every input, and list the assumptions.

    Exit code: 0 every claim holds, 1 a claim does not hold, 2 the request is invalid, 3 inconclusive.
    """
    from harness.cli.run import run

    return run(build_request(space, **options), None, space, Console.open(as_json=as_json))


def build_request(space: Workspace, board: str, model: str, floats: Floats | None, **options: Any) -> Request:
    """Return the request of these options; the default of `floats` depends on the board."""
    from harness import targets
    from harness.pipeline.prove import default_floats
    from harness.runs.job import Request

    if not (board and model):
        raise click.UsageError("give --board and --model")
    profile = targets.load_boards(space.boards).board(board)
    return Request(board=board, model=model, floats=floats or default_floats(profile), **options)

"""`harness plan`: its options; the work is in plan_flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json, planned, require_alone
from harness.core.console import Console


@click.command()
@planned
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the description of all items to this folder."
)
@click.option("--force", is_flag=True, help="Replace another plan in the folder of -o.")
@click.option("--load", type=click.Path(path_type=Path), help="Read the plan from such a folder, changed or not.")
@as_json
@click.pass_obj
def plan(
    space: Workspace,
    /,
    as_json: bool,
    board: str,
    model: str,
    output: Path | None,
    force: bool,
    load: Path | None,
    items: tuple[str, ...] | None,
    **asked: Any,
) -> None:
    """Show which item computes which layers of a model, and what is known of that, without touching the board."""
    from harness.cli import plan_flow as command

    console = Console.open(as_json=as_json)
    if load:
        require_alone("--load", board, model, items, *asked.values())
        command.load(load, output, space, console, force=force)
    elif board and model:
        command.show(board, model, asked | {"targets": items}, output, space, console, force=force)
    else:
        raise click.UsageError("give --board and --model, or --load FOLDER")

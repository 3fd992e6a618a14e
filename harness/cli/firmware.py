"""`harness firmware`: its options; the work is in firmware_flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json, planned
from harness.core.console import Console


@click.command()
@planned
@click.option(
    "--sdk",
    type=click.Path(path_type=Path),
    help="TDA4VM: TI's Processor SDK RTOS; else the profile's tiovx.sdk or TIOVX_SDK.",
)
@click.option("--dry-run", is_flag=True, help="Look at tools and board, say what would be done, and change nothing.")
@as_json
@click.pass_obj
def firmware(
    space: Workspace,
    /,
    as_json: bool,
    board: str,
    model: str,
    sdk: Path | None,
    dry_run: bool,
    items: tuple[str, ...] | None,
    **asked: Any,
) -> int:
    """Build a model's kernels with the vendor's tools, install them on the board, start them there, ask who they are.

    On a TDA4VM they become part of its DSP's firmware, and the board is restarted; on a KV260 they are an application
    for its fabric, which is loaded.  --model is acas_coc unless it is given.

    Exit code: 0 the board runs these kernels, 2 the request is wrong, 3 something failed.
    """
    from harness import targets
    from harness.cli import firmware_flow as command
    from harness.plan import plan
    from harness.targets import codegen

    if not board:
        raise click.UsageError("give --board")
    console, found = Console.open(as_json=as_json), targets.load_boards(space.boards).board(board)
    command.check_real(found)
    made = plan.make(space.model(model or "acas_coc"), found, items, **asked, supports=targets.supports)
    return command.install(codegen.generate(made), found, sdk, space, console, dry_run=dry_run)

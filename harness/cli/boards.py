"""`harness boards ...`: who has which board, and whether it is well."""

from __future__ import annotations

import click

from harness.boards.workspace import Workspace
from harness.cli.options import Duration, as_json
from harness.core.console import Console


@click.group()
def boards() -> None:
    """Share boards: who has which, for what and until when, and whether they are well."""


@boards.command("list")
@as_json
@click.pass_obj
def boards_list(space: Workspace, /, as_json: bool) -> None:
    """List the boards: where each is, who has it, who waits, whether it is quarantined."""
    from harness.cli import boards_flow as command

    command.show(space, Console.open(as_json=as_json))


@boards.command("lock")
@click.argument("board")
@click.option("--for", "lease", type=Duration(), default="1h", show_default=True, help="It ends by itself: 30m, 8h.")
@click.option("--purpose", default="by hand", show_default=True, help="What others read.")
@click.option("--wait", type=Duration(), help="Wait so long for the board; else not at all.")
@as_json
@click.pass_obj
def boards_lock(space: Workspace, /, as_json: bool, board: str, lease: float, purpose: str, wait: float | None) -> None:
    """Keep a board for yourself without a running command; your own commands still get it."""
    from harness.cli import boards_flow as command

    command.lock_by_hand(board, lease, purpose, wait or 0.0, space, Console.open(as_json=as_json))


@boards.command("unlock")
@click.argument("board")
@click.option("--force", is_flag=True, help="Also take it from somebody else; what runs there is stopped.")
@as_json
@click.pass_obj
def boards_unlock(space: Workspace, /, as_json: bool, board: str, force: bool) -> None:
    """Give a board back."""
    from harness.cli import boards_flow as command

    command.unlock(board, space, Console.open(as_json=as_json), force=force)


@boards.command("check")
@click.argument("names", metavar="[BOARD]...", nargs=-1)
@click.option("--quarantine", is_flag=True, help="Take a board that fails out of use until it passes again.")
@click.option(
    "--remove-older",
    metavar="DAYS",
    type=click.IntRange(0, 36500),
    help="Remove folders of runs and bundles that are older from boards that nobody uses.",
)
@as_json
@click.pass_obj
def boards_check(
    space: Workspace, /, as_json: bool, names: tuple[str, ...], quarantine: bool, remove_older: int | None
) -> int:
    """Tell whether boards are fit for work: reachable, tools, free disk and memory, clock; all if none is named.

    Exit code: 0 all are fit, 2 the request is wrong, 3 one is not.
    """
    from harness.cli import boards_flow as command

    console = Console.open(as_json=as_json)
    return command.check(names, space, console, quarantine_failing=quarantine, remove_older_days=remove_older)


@boards.command("cycle")
@click.argument("board")
@as_json
@click.pass_obj
def boards_cycle(space: Workspace, /, as_json: bool, board: str) -> None:
    """Switch a board off and on by the power switch that its profile names, and wait until it answers."""
    from harness.cli import boards_flow as command

    command.cycle(board, space, Console.open(as_json=as_json))

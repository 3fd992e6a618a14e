"""`harness history`: its options; the work is in history_flow."""

from __future__ import annotations

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.command()
@click.option("--board", help="Of this board alone.")
@click.option("--model", help="Of this model alone.")
@click.option("--verdict", help="With this verdict alone, e.g. differs.")
@click.option("--since", metavar="DATE", help="Begun on that day or later, e.g. 2026-11-01, or 7d.")
@click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="So many, the latest.")
@click.option("--rebuild", is_flag=True, help="Forget the index and read all run folders again.")
@as_json
@click.pass_obj
def history(space: Workspace, /, as_json: bool, rebuild: bool, **wanted: str | int | None) -> None:
    """List former runs: verdicts, times, what they were built from."""
    from harness.cli import history_flow as command

    command.history(wanted, space, Console.open(as_json=as_json), rebuild=rebuild)

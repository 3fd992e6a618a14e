"""The commands that look back: history, diff, report, serve."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import as_json
from harness.screen import Screen
from harness.workspace import Workspace


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
    from harness.commands import history as command

    command.history(wanted, space, Screen.open(as_json=as_json), rebuild=rebuild)


@click.command()
@click.argument("before", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("after", metavar="RUN", type=click.Path(path_type=Path))
@as_json
@click.pass_obj
def diff(space: Workspace, /, as_json: bool, before: Path, after: Path) -> None:
    """Tell what changed between two runs: compiler, flags, model, board, verdict, times.

    RUN is a folder, or its name under runs/.
    """
    from harness.commands import diff as command

    command.diff(before, after, space, Screen.open(as_json=as_json))


@click.command()
@click.option("--site", type=click.Path(path_type=Path), required=True, help="The folder to write; files only.")
@click.option("--nights", type=click.IntRange(1), default=30, show_default=True, help="So many, the latest.")
@as_json
@click.pass_obj
def report(space: Workspace, /, as_json: bool, site: Path, nights: int) -> None:
    """Write the laboratory's page: last night, what changed, trends, every run's report."""
    from harness.commands import report as command

    command.report(site, nights, space, Screen.open(as_json=as_json))


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="On this machine alone.")
@click.pass_obj
def serve(space: Workspace, /, port: int) -> None:
    """Show the laboratory's page at http://localhost:8000, as it is now, also while a night runs."""
    from harness.commands import serve as command

    command.serve(port, space, Screen.open(as_json=False))

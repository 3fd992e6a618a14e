"""`harness report`: its options; the work is in report_flow."""

from __future__ import annotations

from pathlib import Path

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.command()
@click.option("--site", type=click.Path(path_type=Path), required=True, help="The folder to write; files only.")
@click.option("--nights", type=click.IntRange(1), default=30, show_default=True, help="So many, the latest.")
@as_json
@click.pass_obj
def report(space: Workspace, /, as_json: bool, site: Path, nights: int) -> None:
    """Write the laboratory's page: last night, what changed, trends, every run's report."""
    from harness.cli import report_flow as command

    command.report(site, nights, space, Console.open(as_json=as_json))

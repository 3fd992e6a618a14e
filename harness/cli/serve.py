"""`harness serve`: its options; the work is in serve_flow."""

from __future__ import annotations

import click

from harness.boards.workspace import Workspace
from harness.core.console import Console


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="On this machine alone.")
@click.pass_obj
def serve(space: Workspace, /, port: int) -> None:
    """Show the laboratory's page at http://localhost:8000, as it is now, also while a night runs."""
    from harness.cli import serve_flow as command

    command.serve(port, space, Console.open(as_json=False))

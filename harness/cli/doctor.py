"""`harness doctor`: its options; the work is in doctor_flow."""

from __future__ import annotations

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.command()
@as_json
@click.pass_obj
def doctor(space: Workspace, /, as_json: bool) -> int:
    """Tell what this machine has, what is missing for which board, and the command that brings it."""
    from harness.cli import doctor_flow as command

    return command.examine(space, Console.open(as_json=as_json))

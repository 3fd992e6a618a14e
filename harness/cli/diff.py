"""`harness diff`: its options; the work is in diff_flow."""

from __future__ import annotations

from pathlib import Path

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.command()
@click.argument("before", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("after", metavar="RUN", type=click.Path(path_type=Path))
@as_json
@click.pass_obj
def diff(space: Workspace, /, as_json: bool, before: Path, after: Path) -> None:
    """Tell what changed between two runs: compiler, flags, model, board, verdict, times.

    RUN is a folder, or its name under runs/.
    """
    from harness.cli import diff_flow as command

    command.diff(before, after, space, Console.open(as_json=as_json))

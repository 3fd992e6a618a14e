"""`harness sign`: its options; the work is in sign_flow."""

from __future__ import annotations

from pathlib import Path

import click

from harness.boards.workspace import Workspace
from harness.cli.options import as_json
from harness.core.console import Console


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The laboratory's private Ed25519 key.")
@as_json
@click.pass_obj
def sign(space: Workspace, /, as_json: bool, run: Path, key: Path) -> None:
    """Vouch for a run: an in-toto statement of run.json in a DSSE envelope beside it; of several keys, one by one."""
    from harness.cli import sign_flow as command

    command.sign(run, key, space, Console.open(as_json=as_json))

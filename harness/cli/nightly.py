"""`harness nightly`: a matrix of boards, models and actions."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import as_json
from harness.screen import Screen
from harness.workspace import Workspace


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="nightly.yaml")
@click.option("--new", is_flag=True, help="Begin anew, even if the last night of this file has not ended.")
@click.option("--resume", is_flag=True, help="Only go on with a night that has not ended, if there is one.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, in which order, and touch no board.")
@click.option("--install", metavar="TIME", help="Have systemd do it every day at that time, e.g. 02:00.")
@as_json
@click.pass_obj
def nightly(
    space: Workspace, /, as_json: bool, file: Path, new: bool, resume: bool, dry_run: bool, install: str | None
) -> int:
    """Run, prove and measure many models on many boards, as FILE says; go on where an interrupted night stopped.

    Exit code: 0 all as expected, 1 a wrong verdict, 2 the request is wrong, 3 something was inconclusive or not run.
    """
    from harness.commands import nightly as command

    if sum([new, resume, dry_run, install is not None]) > 1:
        raise click.UsageError("give one of --new, --resume, --dry-run, --install")
    screen = Screen.open(as_json=as_json)
    if install is not None:
        return command.install(file, install, space, screen)
    if dry_run:
        return command.show(file, space, screen)
    return command.nightly(file, space, screen, new=new, only_resume=resume)

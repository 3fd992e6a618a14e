"""`harness nightly`: a matrix of boards, models and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.boards.workspace import Workspace
from harness.cli import measure, prove, run
from harness.cli.options import as_json
from harness.core.console import Console
from harness.core.errors import RequestError

if TYPE_CHECKING:
    from harness.nightly.matrix import Taken
    from harness.nightly.record import Action

OURS = {"board", "model", "items", "plan", "resume", "against", "run-folder", "json"}
"""Options that an entry has keys of its own for, or that the night gives itself."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default="nightly.yaml")
@click.option("--new", is_flag=True, help="Begin anew, even if the last night of this file has not ended.")
@click.option("--resume", is_flag=True, help="Only go on with a night that has not ended, if there is one.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, in which order, and touch no board.")
@click.option("--junit", type=click.Path(path_type=Path), help="Also write the night's JUnit XML there.")
@click.option("--install", metavar="TIME", help="Have systemd do it every day at that time, e.g. 22:00.")
@as_json
@click.pass_obj
def nightly(
    space: Workspace,
    /,
    as_json: bool,
    file: Path,
    new: bool,
    resume: bool,
    dry_run: bool,
    junit: Path | None,
    install: str | None,
) -> int:
    """Run, prove and measure many models on many boards, as FILE says; go on where an interrupted night stopped.

    Exit code: 0 all as expected, 1 a wrong verdict, 2 the request is wrong, 3 something was inconclusive or not run.
    """
    from harness.cli import nightly_flow as command

    if sum([new, resume, dry_run, install is not None]) > 1:
        raise click.UsageError("give one of --new, --resume, --dry-run, --install")
    if junit and (dry_run or install is not None):
        raise click.UsageError("--junit is of a night that is carried out; each has its own, too, in its folder")
    console, commands = Console.open(as_json=as_json), taken()
    if install is not None:
        return command.install(file, install, commands, space, console)
    if dry_run:
        return command.show(file, commands, space, console)
    return command.nightly(file, commands, space, console, junit, new=new, only_resume=resume)


def taken() -> dict[Action, Taken]:
    """What an entry may ask of each command, as its command line takes it."""
    return {"run": _taken(run.run), "prove": _taken(prove.prove), "measure": _taken(measure.measure)}


def _taken(command: click.Command) -> Taken:
    from harness.nightly.matrix import Taken

    def read(words: Sequence[str]) -> Mapping[str, Any]:
        try:
            return command.make_context(str(command.name), list(words)).params
        except click.UsageError as error:
            raise RequestError(error.format_message(), f"harness {command.name} --help") from error

    options = [option for option in command.params if isinstance(option, click.Option)]
    mine = {name: option for option in options if (name := option.opts[-1].removeprefix("--")) not in OURS}
    flags = {name: tuple(option.secondary_opts) for name, option in mine.items() if option.is_flag}
    return Taken(frozenset(mine), flags, read)

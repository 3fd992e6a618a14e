"""`harness open`: the report of a run in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.text import Text

from harness.boards.workspace import LAST, Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core.console import Console
from harness.core.errors import RequestError

REPORT = "report.html"
GRAPHICAL = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@click.command("open", epilog="Example: harness open last")
@click.argument("run", type=click.Path(path_type=Path), default=LAST, shell_complete=_completion.runs)
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, run: Path) -> None:
    """Open the report of RUN, by default of the last run, in the browser, and print its path."""
    console = Console.open(as_json=as_json)
    report = space.run(run) / REPORT
    if not report.is_file():
        raise RequestError(f"{report}: there is no report", "name a finished run: harness history lists them")
    console.show(Text(str(report)))
    console.document({"report": str(report)})
    if not as_json:
        launch(report, console)


def launch(page: Path, console: Console) -> None:
    """Open a page in the browser; without a graphical session, note that."""
    if sys.platform == "linux" and not any(map(os.environ.get, GRAPHICAL)):
        console.note("not opened: there is no graphical session, and BROWSER is not set")
    else:
        click.launch(str(page))

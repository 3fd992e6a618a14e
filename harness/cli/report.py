"""`harness report`: the web page of the lab as a folder of files, or the page of a decision anew."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace
from harness.core import registry
from harness.core.console import Console
from harness.core.errors import HarnessError, RequestError
from harness.core.installation import ROOT
from harness.core.safe_io import read_document
from harness.core.text import plural

if TYPE_CHECKING:
    from harness.boards.locks.quarantine import Quarantine
    from harness.boards.profile import Profile
    from harness.report.site import LabContent, QuarantineState


DECISION, PAGE = "decide.json", "report.html"
MUTATION = ROOT / "docs" / "results" / "mutation.md"


@click.command("report", epilog="Example: harness report --site site")
@click.argument("decision", type=click.Path(path_type=Path), required=False, shell_complete=_completion.runs)
@click.option("--site", type=click.Path(path_type=Path), help="Folder to write the page of the lab to.")
@click.option(
    "--nights", type=click.IntRange(1), default=30, show_default=True, help="Number of nights, the latest first."
)
@as_json
@pass_workspace
def command(space: Workspace, /, as_json: bool, decision: Path | None, site: Path | None, nights: int) -> int:
    """Write the web page of the lab as files: last night, changes, trends, reports of runs.

    With a DECISION, write its page anew: a folder of harness decide, its name, or last.
    """
    console = Console.open(as_json=as_json)
    if sum(given is not None for given in (site, decision)) != 1:
        raise click.UsageError("give --site or a decision")
    if site is not None:
        report(site, nights, space, console)
    elif decision is not None:
        page = report_of_decision(space.run(decision))
        console.document({"report": str(page)})
        console.show(Text(str(page)))
    return 0


def report_of_decision(path: Path) -> Path:
    """Write the page of a finished decision anew, and return its path; RequestError if the folder has none."""
    if not (path / "request.decide.json").is_file():
        raise RequestError(f"{path}: not a folder of harness decide", "name a folder under runs/")
    written = registry.evidence(DECISION).page(path).encode()
    listed = read_document(path / DECISION).get("files", {}).get(PAGE)
    if listed not in {None, hashlib.sha256(written).hexdigest()}:
        raise RequestError(
            f"{path}: this version words the page otherwise, and {DECISION} lists the page that was written",
            "keep the folder; to see the page of this version, decide again",
        )
    (path / PAGE).write_bytes(written)
    return path / PAGE


def report(folder: Path, nights: int, workspace: Workspace, console: Console) -> None:
    """Write or update the site of the latest `nights`."""
    from harness.report import site

    lab = gather(nights, workspace)
    written = site.build(folder, lab)
    page = folder / "index.html"
    told = {"site": str(page), "nights": len(lab.nights), "runs": len(lab.runs)}
    console.document(told | asdict(written))
    counts = f"{plural(len(lab.nights), 'night')}, {plural(len(lab.runs), 'run')}"
    pages = f"{written.pages:,} pages written, {written.kept:,} unchanged, {written.reports:,} files of runs copied"
    console.show(Text(f"{page}: {counts}; {pages}, {written.removed:,} removed"))


def gather(nights: int, workspace: Workspace) -> LabContent:
    """Read the data of the page: the latest `nights` and the boards in quarantine."""
    from harness.report import site

    return site.gather(workspace.runs, nights, MUTATION, _quarantine(workspace))


def _quarantine(workspace: Workspace) -> QuarantineState | None:
    """Return the state of the boards; None if there is no file of boards, or if the locks cannot be read."""
    from harness import targets
    from harness.report.site import OutOfUse, QuarantineState

    with suppress(HarnessError):
        boards = targets.load_boards(workspace.boards).profiles
        known = dict(_quarantines(boards.values(), workspace))
        out = [OutOfUse(name, ill.reason, ill.since_s, ill.by) for name, ill in known.items() if ill]
        return QuarantineState(tuple(known), tuple(out), time.time()) if known else None
    return None


def _quarantines(boards: Iterable[Profile], workspace: Workspace) -> Iterator[tuple[str, Quarantine | None]]:
    """Yield the quarantine of each board whose locks can be read."""
    from harness.boards.locks import quarantined

    for board in boards:
        with suppress(HarnessError):
            yield board.name, quarantined(board, workspace.locks(board))

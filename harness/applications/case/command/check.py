"""`harness case check`: a new check of every leaf of a case, and of the goals above it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.text import Text

from harness.applications.case.command.build import placed, tables
from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace, recomputed
from harness.core.console import Console
from harness.core.errors import RequestError
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.applications.case.check import Checked

VERDICTS = {0: "valid", 1: "not valid", 3: "inconclusive"}
STYLES = {"valid": "green", "not checked": "yellow"}


@click.command("check", epilog="Example: harness case check last")
@click.argument("case", type=click.Path(path_type=Path), shell_complete=_completion.runs, required=False)
@click.option("--board", shell_complete=_completion.boards, help="Check the newest case of this board and --model.")
@click.option("--model", shell_complete=_completion.models, help="Model of the case: the name or path of its build.")
@recomputed
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    case: Path | None,
    board: str | None,
    model: str | None,
    reference: Literal["all", "chunk", "none"],
    rebuild: bool,
) -> int:
    """Verify every leaf of CASE again; a rejected leaf fails the goals above it, and no others.

    CASE is a folder, a name under runs/, or `last`; or give --board and --model.

    Exit code: 0 valid, also with undeveloped goals; 1 a leaf is missing, stale, contradictory or forged, or a goal is
    refuted; 2 the request is invalid; 3 a leaf could not be checked.
    """
    from harness import report
    from harness.applications.case.check import Verification, check
    from harness.applications.case.page import pages, require_dot
    from harness.boards.keys import GUEST_KEYS, host_fingerprint
    from harness.runs.verification import VerificationScope

    if (case is None) != bool(board and model) or (case and (board or model)):
        raise click.UsageError("give CASE, or --board and --model")
    console, folder = Console.open(as_json=as_json), found(case, space) if case else newest(space, board, model)
    require_dot()
    known = host_fingerprint(space.cache / GUEST_KEYS)
    scope = VerificationScope(space, report.reports, None, reference, rebuild, known)
    checked = check(folder, space, pages, Verification(scope, console.progress))
    console.show(*_shown(checked))
    console.document(result(checked, folder))
    return checked.exit_code


def found(case: Path, space: Workspace) -> Path:
    """Return the folder of a case; `last` is the newest one of the folder of runs.  RequestError if there is none."""
    return newest(space) if case == Path("last") else space.run(case)


def newest(space: Workspace, board: str | None = None, model: str | None = None) -> Path:
    """Return the newest case of the folder of runs, or of that board and model; RequestError if there is none."""
    from harness.applications.case.entries import DOCUMENT, CaseDocument

    for path in sorted(space.runs.glob(f"*/{DOCUMENT}"), reverse=True):
        if board is None:
            return path.parent
        with suppress(RequestError):
            asked = CaseDocument.read(path).request
            if (asked.board, asked.model) == (board, placed(str(model))):
                return path.parent
    about = f" of {model} on {board}" if board else ""
    raise RequestError(f"{space.runs}: there is no case{about}", "build one: harness case build")


def _shown(checked: Checked) -> tuple[Any, ...]:
    files = Table("of the case", "", "", box=None, padding=(0, 2, 0, 0))
    for claim in checked.case:
        style = {"ok": "green", "not ok": "bold red"}.get(claim.state, "yellow")
        files.add_row(claim.name, Text(claim.state, style=style), claim.text)
    leaves = Table("leaf", "", "", box=None, padding=(0, 2, 0, 0))
    for leaf in checked.leaves:
        leaves.add_row(leaf.name, Text(leaf.state, style=STYLES.get(leaf.state, "bold red")), leaf.text)
    if checked.document is None:
        return files, Text("the case is NOT valid", style="bold red")
    words = {0: "the case is valid", 1: "the case is NOT valid", 3: "the case could not be checked completely"}
    failed = f"; failed goals: {', '.join(checked.failed)}" if checked.failed else ""
    end = Text(f"{words[checked.exit_code]}{failed}", style="bold" if checked.exit_code == 0 else "bold red")
    return files, leaves, *tables(checked.document, checked.states), end


def reason(checked: Checked) -> str:
    """Return why the verdict is what it is: the claims and leaves that are not as they should be, or their number."""
    wrong = [f"{each.name}: {each.text}" for each in checked.case if each.state == "not ok"]
    wrong += [f"{leaf.name} is {leaf.state}: {leaf.text}" for leaf in checked.leaves if leaf.state != "valid"]
    failed = [f"failed goals: {', '.join(checked.failed)}"] if checked.failed else []
    return "; ".join([*wrong, *failed]) or f"{len(checked.leaves)} leaves are valid"


def result(checked: Checked, folder: Path) -> dict[str, Any]:
    """Return the findings as JSON types."""
    return {
        "case": str(folder),
        "verdict": VERDICTS[checked.exit_code],
        "reason": reason(checked),
        "part": "tool",
        "claims": [{"claim": each.name, "state": each.state.value, "text": each.text} for each in checked.case],
        "leaves": [{"leaf": leaf.name, "state": leaf.state.value, "text": leaf.text} for leaf in checked.leaves],
        "failed": checked.failed,
        "states": dict(checked.states),
    }

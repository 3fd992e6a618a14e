"""`harness verify`: look at every claim of a run's evidence again, and tell which stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from harness.boards.identity import HARDWARE
from harness.boards.workspace import Workspace
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE
from harness.runs.facts import where_it_ran
from harness.runs.verification import Claim, ClaimState, Wanted, stands
from harness.runs.verification import verify as claims_of
from harness.runs.verification.claims import MALFORMED
from harness.runs.verification.folder import Evidence, how_to_finish, read

STYLES = {ClaimState.OK: "green", ClaimState.WRONG: "bold red", ClaimState.UNCHECKED: "yellow"}
EXIT_CODES = {True: EXIT_DONE, False: EXIT_DIFFERS, None: EXIT_INFRASTRUCTURE}
WORDS = {True: "the evidence stands", False: "the evidence does NOT stand", None: "the evidence could not be checked"}


def verify(run: Path, wanted: Wanted, workspace: Workspace, console: Console) -> int:
    """The whole command; `run` is a folder, or its name under runs/."""
    path = workspace.run(run)
    evidence = read(path)
    claims = list(claims_of(evidence, wanted, console.progress)) if evidence else [_unfinished(path)]
    found = stands(claims)
    console.show(_table(claims), Text(f"{WORDS[found]}{_verdict(evidence)}", style="bold" if found else "bold red"))
    console.document(_document(path, evidence, claims))
    return EXIT_CODES[found]


def _unfinished(path: Path) -> Claim:
    return Claim("finished", ClaimState.UNCHECKED, f"the run is not: there is no run.json; {how_to_finish(path)}")


def _verdict(evidence: Evidence | None) -> str:
    """A run's evidence can stand and say that it differs."""
    return f"; its verdict is: {evidence.run.get('verdict')}{_where(evidence.run)}" if evidence else ""


def _where(run: Mapping[str, Any]) -> str:
    """Where that was, so that nobody takes an emulated board for hardware; nothing of a document that does not say."""
    with suppress(*MALFORMED):
        stand_ins = tuple(item for item in run["plan"]["items"] if item["ran_on"] != HARDWARE)
        return f", {where_it_ran(str(run['board']['kind']), stand_ins)}"
    return ""


def _table(claims: Sequence[Claim]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for claim in claims:
        table.add_row(claim.name, Text(claim.state.value, style=STYLES[claim.state]), Text(claim.text, overflow="fold"))
    return table


def _document(path: Path, evidence: Evidence | None, claims: Sequence[Claim]) -> dict[str, Any]:
    return {
        "run": str(path),
        "stands": stands(claims),
        "verdict": evidence.run.get("verdict") if evidence else None,
        "claims": [{"claim": c.name, "state": c.state.value, "text": c.text, "needed": c.needed} for c in claims],
    }

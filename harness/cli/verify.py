"""`harness verify`: a new check of every claim of evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.text import Text

from harness.boards.workspace import Workspace
from harness.cli import _completion
from harness.cli._options import as_json, pass_workspace, recomputed
from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE
from harness.core.table import Table

if TYPE_CHECKING:
    from harness.runs.verification import Claim, VerificationScope


STYLES = {"ok": "green", "not ok": "bold red", "not checked": "yellow"}
EXIT_CODES = {True: EXIT_DONE, False: EXIT_DIFFERS, None: EXIT_INFRASTRUCTURE}
WORDS = {True: "the evidence is valid", False: "the evidence is NOT valid", None: "the evidence could not be checked"}


@click.command("verify", epilog="Example: harness verify last")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=_completion.runs)
@click.option(
    "--key", type=click.Path(path_type=Path), help="The lab's public key, which must have made the signature."
)
@recomputed
@as_json
@pass_workspace
def command(
    space: Workspace,
    /,
    as_json: bool,
    run: Path,
    key: Path | None,
    reference: Literal["all", "chunk", "none"],
    rebuild: bool,
) -> int:
    """Check the evidence of RUN: hashes, missing and added files, verdict, sources, bundle, signature.

    RUN is a folder, a name under runs/, or `last`: of a run, a decision, bounds or a case.

    Exit code: 0 the evidence is valid, 1 it is not, 2 the request is invalid, 3 it could not be checked.
    """
    from harness import report
    from harness.boards.keys import GUEST_KEYS, host_fingerprint
    from harness.runs.signing import public_key
    from harness.runs.verification import VerificationScope

    known = host_fingerprint(space.cache / GUEST_KEYS)
    scope = VerificationScope(space, report.reports, public_key(key) if key else None, reference, rebuild, known)
    return verify(run, scope, space, Console.open(as_json=as_json))


def verify(run: Path, scope: VerificationScope, workspace: Workspace, console: Console) -> int:
    """Verify evidence; `run` is a folder, or its name under runs/."""
    from harness.runs.verification import folders, is_valid

    path = workspace.run(run)
    evidence = folders.read(path)
    document = evidence.run if evidence else {}
    claims = list(folders.claims(evidence, scope, console.progress)) if evidence else [_unfinished(path)]
    found = is_valid(claims)
    console.show(_table(claims), Text(f"{WORDS[found]}{_verdict(document)}", style="bold" if found else "bold red"))
    console.document(_document(path, document, claims))
    return EXIT_CODES[found]


def _unfinished(path: Path) -> Claim:
    from harness.runs.verification import Claim, ClaimState
    from harness.runs.verification.folder import how_to_finish

    return Claim(
        "finished", ClaimState.UNCHECKED, f"the run is unfinished: there is no run.json; {how_to_finish(path)}"
    )


def _verdict(document: Mapping[str, Any]) -> str:
    """Return the verdict that the evidence states; evidence can be sound and state that the run differs."""
    return f"; its verdict is: {document['verdict']}{_where(document)}" if "verdict" in document else ""


def _where(run: Mapping[str, Any]) -> str:
    """Return where the run ran, so that an emulated board is not taken for hardware; empty if unknown."""
    from harness.boards.identity import HARDWARE
    from harness.runs.facts import where_it_ran
    from harness.runs.verification.claims import MALFORMED

    with suppress(*MALFORMED):
        stand_ins = tuple(item for item in run["plan"]["items"] if item["ran_on"] != HARDWARE)
        return f", {where_it_ran(str(run['board']['kind']), stand_ins)}"
    return ""


def _table(claims: Sequence[Claim]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for claim in claims:
        table.add_row(claim.name, Text(claim.state.value, style=STYLES[claim.state]), Text(claim.text, overflow="fold"))
    return table


def _document(path: Path, document: Mapping[str, Any], claims: Sequence[Claim]) -> dict[str, Any]:
    from harness.runs.verification import is_valid

    return {
        "run": str(path),
        "stands": is_valid(claims),
        "verdict": document.get("verdict"),
        "claims": [{"claim": c.name, "state": c.state.value, "text": c.text, "needed": c.needed} for c in claims],
    }

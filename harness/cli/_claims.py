"""The claims of a folder of evidence of any kind, for `harness verify` and `harness sign`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.boards.workspace import Workspace
from harness.core.console import Console

if TYPE_CHECKING:
    from harness.runs.verification import Claim, Wanted

CASE = "case.json"


def claims_of(
    path: Path, wanted: Wanted, workspace: Workspace, console: Console
) -> tuple[Path, Mapping[str, Any], Iterable[Claim]] | None:
    """Return the document in a folder, its content and its claims, which are checked as they are read.

    None for an unfinished run, RequestError if the folder has no finished evidence.
    """
    if (path / CASE).is_file():
        return path / CASE, {}, _of_case(path, wanted, workspace, console)
    from harness.runs.verification import folders

    evidence = folders.read(path)
    if evidence is None:
        return None
    return path / evidence.name, evidence.run, folders.claims(evidence, wanted, console.progress)


def _of_case(path: Path, wanted: Wanted, workspace: Workspace, console: Console) -> Iterable[Claim]:
    from harness.report.case import pages, require_dot
    from harness.runs.cases.check import Verification, check
    from harness.runs.verification import Claim, ClaimState
    from harness.runs.verification.claims import claim
    from harness.runs.verification.signature import signed

    require_dot()
    checked = check(path, workspace, pages, Verification(wanted, console.progress))
    yield from checked.case
    states = {"valid": ClaimState.OK, "not checked": ClaimState.UNCHECKED}
    for leaf in checked.leaves:
        yield Claim(f"leaf {leaf.name}", states.get(leaf.state, ClaimState.WRONG), leaf.text)
    yield claim("signature", lambda: signed(path / CASE, wanted.key), needed=wanted.key is not None)

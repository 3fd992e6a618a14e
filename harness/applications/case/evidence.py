"""A case as a kind of evidence: the claims about its own files, and a claim for each leaf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.applications.case.check import LeafState, Verification, check
from harness.applications.case.entries import DOCUMENT
from harness.applications.case.page import pages, require_dot
from harness.runs.verification import Claim, ClaimState, VerificationScope
from harness.runs.verification.claims import Progress, claim
from harness.runs.verification.folder import Evidence
from harness.runs.verification.folders import Kind
from harness.runs.verification.signature import signed

STATES = {LeafState.VALID: ClaimState.OK, LeafState.UNCHECKED: ClaimState.UNCHECKED}


class CaseEvidence(Kind):
    """The folder of `harness case build`."""

    predicate = ("urn:harness:case:v1", ("request", "model", "template", "content_sha256", "harness"))

    def read(self, path: Path) -> Evidence:
        """Return the folder without its document, whose form is a claim of its own."""
        return Evidence(path, {}, DOCUMENT)

    def check(self, evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield the claims about the case and each of its leaves; ToolError without Graphviz."""
        require_dot()
        checked = check(evidence.path, scope.workspace, pages, Verification(scope, progress))
        yield from checked.case
        for leaf in checked.leaves:
            yield Claim(f"leaf {leaf.name}", STATES.get(leaf.state, ClaimState.WRONG), leaf.text)
        yield claim("signature", lambda: signed(evidence.path / DOCUMENT, scope.key), needed=scope.key is not None)


KIND = CaseEvidence()

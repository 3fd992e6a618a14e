"""A decision as a kind of evidence: every claim about a folder, checked again."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.applications.decide import certificate, check, check_bounds, job
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.runs.verification.claims import Claim, ClaimState, Progress
from harness.runs.verification.folder import Evidence
from harness.runs.verification.folders import PageKind, findings
from harness.runs.verification.verify import VerificationScope


class DecisionEvidence(PageKind):
    """The folder of `harness decide`, of either method."""

    document = job.DOCUMENT
    predicate = ("urn:harness:decision:v1", ("model", "property", "verdict", "counts", "harness"))

    def written(self, evidence: Evidence, _names: set[str]) -> set[str]:
        """Return the files of the command."""
        return {*job.files_of(evidence.run)}

    def claims(self, evidence: Evidence, _scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield the claims about property, boxes and witnesses; random boxes are decided again."""
        seed, path = secrets.randbits(32), evidence.path
        again = check_bounds.check if job.is_by_bounds(path) else check.check

        def steps(name: str, total: int, _done: int) -> Any:
            return progress(name, total)

        yield from findings("decision", lambda: again(path, check.BOXES, seed, steps))
        yield Claim("seed", ClaimState.OK, f"{seed}, from which the random boxes follow")

    def page(self, folder: Path) -> str:
        """Return the page of the decision in a folder; RequestError if there is none, or it is damaged."""
        from harness.applications.decide import page

        return page.page(folder)

    def unfinished(self, path: Path) -> RequestError:
        """Return the error for a decision without its document."""
        hint = f"continue it: harness decide --resume {path}"
        if job.is_by_bounds(path):
            hint = "start it again: a decision by bounds is not resumed"
        return RequestError(f"{path}: no finished decision", hint)

    def files_of_certificate(self, path: Path) -> tuple[Path, Path]:
        """Return the document of a certificate, and the file of its decisions beside it."""
        return path, path.with_suffix(certificate.PACKED)

    def slabs(self, path: Path) -> int:
        """Return the number of slabs of a consistent certificate; RequestError for any other file."""
        return len(certificate.consistent(path).slabs)

    def require_decisions(self, path: Path, network: Network, property_file: Path) -> None:
        """Raise RequestError if the decision or certificate at `path` is not that of the property of a network."""
        certificate.read(path, job.read_stated(path.parent, network, property_file))


KIND = DecisionEvidence()

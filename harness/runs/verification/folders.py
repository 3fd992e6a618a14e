"""The claims of each kind of evidence in a folder: a run, or a kind that an application registers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from harness.core import registry
from harness.core.errors import HarnessError, RequestError
from harness.core.file_digest import file_sha256
from harness.core.safe_io import read_document
from harness.runs.verification.claims import MALFORMED, Claim, ClaimState, ContradictionError, Progress, claim
from harness.runs.verification.folder import RUN, Evidence, plain, require_files
from harness.runs.verification.folder import read as read_run
from harness.runs.verification.revisions import require_possible_time
from harness.runs.verification.signature import signed
from harness.runs.verification.verify import VerificationScope, reports, verify

PAGE = "report.html"


class Kind(ABC):
    """A kind of evidence of an application: its document, its claims, and what a signature of it repeats."""

    predicate: ClassVar[tuple[str, tuple[str, ...]]]
    """The type of the predicate of a signature, and the entries of the document that it repeats."""

    @abstractmethod
    def read(self, path: Path) -> Evidence:
        """Return the finished evidence in a folder; RequestError if its document cannot be read."""

    @abstractmethod
    def check(self, evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield every claim, as soon as it is decided."""

    def unfinished(self, path: Path) -> RequestError:
        """Return the error for a folder with a request and without a document."""
        return RequestError(f"{path}: no finished evidence", "run its command again")


class PageKind(Kind):
    """A kind of evidence with files that its document lists, and a page that follows from them."""

    document: ClassVar[str]
    """The name of the document."""

    @abstractmethod
    def written(self, evidence: Evidence, names: set[str]) -> set[str]:
        """Return the files that the command writes; `names` are those of the folder."""

    @abstractmethod
    def claims(self, evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield the claims of this kind alone."""

    @abstractmethod
    def page(self, folder: Path) -> str:
        """Return the page of finished evidence; RequestError if it is damaged."""

    def read(self, path: Path) -> Evidence:
        """Return the finished evidence in a folder; RequestError if its document cannot be read."""
        try:
            return Evidence(path, read_document(path / self.document), self.document)
        except (OSError, ValueError) as error:
            raise RequestError(
                f"{path / self.document}: cannot be read: {error}", "copy the folder again from its source"
            ) from error

    def check(self, evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield the claims about the files, then those of this kind, its page and its signature."""
        yield claim("files", lambda: self._files(evidence, progress))
        try:
            list(plain(evidence.path))
        except ContradictionError as error:  # a pipe would never end, a link lead anywhere
            yield Claim("content", ClaimState.UNCHECKED, f"no other file is opened: {error}")
            return
        yield claim("times", lambda: require_possible_time(evidence, str(evidence.run["began"])))
        yield from self.claims(evidence, scope, progress)
        yield claim("reports", lambda: reports(evidence, lambda _: {PAGE: self.page(evidence.path)}))
        document = evidence.path / evidence.name
        yield claim("signature", lambda: signed(document, scope.key), needed=scope.key is not None)

    def _files(self, evidence: Evidence, progress: Progress) -> str:
        """Check the files; documents of earlier versions list none, or not the page, which follows from them."""
        there = set(plain(evidence.path))
        written = self.written(evidence, there)
        recorded = dict(evidence.run.get("files", {}))
        unlisted = written if not recorded else {PAGE} - recorded.keys()
        recorded |= {name: file_sha256(evidence.path / name) for name in unlisted & there}
        return require_files(evidence, recorded, written, progress)


def read(path: Path) -> Evidence | None:
    """Return the evidence in a folder, None for an unfinished run; RequestError if there is none."""
    for name in registry.EVIDENCE:
        if (path / name).exists():
            return _kind(name).read(path)
    for request, document in registry.REQUESTS.items():
        if (path / request).exists():
            raise _kind(document).unfinished(path)
    return read_run(path)


def claims(evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
    """Yield every claim of a run or of evidence of an application, as soon as it is decided."""
    if evidence.name == RUN:
        yield from verify(evidence, scope, progress)
    else:
        yield from _kind(evidence.name).check(evidence, scope, progress)


def _kind(name: str) -> Kind:
    kind: Kind = registry.evidence(name)
    return kind


def findings(name: str, check: Callable[[], Iterable[Any]]) -> Iterator[Claim]:
    """Yield the findings of an application as claims; an error ends them with the claim `name`."""
    states = {True: ClaimState.OK, False: ClaimState.WRONG}
    try:
        for found in check():
            yield Claim(found.claim, states[found.holds], found.finding)
    except (HarnessError, *MALFORMED) as error:
        yield claim(name, partial(_fail, error))


def _fail(error: Exception) -> str:
    raise error

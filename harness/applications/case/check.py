"""The check of a case: every leaf is verified again, and the goals above a rejected leaf fail."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from harness.applications.case import argument, build, gsn
from harness.applications.case.build import Render
from harness.applications.case.entries import (
    DOCUMENT,
    FAILED,
    PAGE,
    PDF,
    PICTURE,
    REFUTED,
    TABLE,
    YAML,
    CaseDocument,
    LeafEntry,
    content_sha256,
)
from harness.applications.case.leaves import CERTIFICATE, DECIDE, DOCUMENTS, FILE, Leaf, contradictions, read
from harness.applications.case.subject import Subject, changed_sources
from harness.boards.workspace import Workspace
from harness.core import registry
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE, HarnessError, RequestError
from harness.core.file_digest import file_sha256
from harness.runs.folder import envelope_of
from harness.runs.verification import Claim, ClaimState, VerificationScope, folders
from harness.runs.verification.claims import (
    MALFORMED,
    ContradictionError,
    Progress,
    UncheckedError,
    claim,
    is_valid,
    listed,
)
from harness.runs.verification.folder import Evidence, plain, require_files
from harness.runs.verification.revisions import require_possible_time


class LeafState(StrEnum):
    """State of a leaf."""

    VALID = "valid"
    MISSING = "missing"
    STALE = "stale"
    CONTRADICTORY = "contradictory"
    FORGED = "forged"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class LeafFinding:
    """The state of a leaf, and the reason."""

    name: str
    state: LeafState
    text: str

    @property
    def rejected(self) -> bool:
        """Return whether the goals above the leaf fail."""
        return self.state not in {LeafState.VALID, LeafState.UNCHECKED}


@dataclass(frozen=True)
class Checked:
    """A checked case: the claims about its own files, its leaves, and the state of each element of the argument."""

    document: CaseDocument | None
    case: tuple[Claim, ...]
    leaves: tuple[LeafFinding, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[str]:
        """Return the goals that failed, because a leaf below them was rejected."""
        return [name for name, state in self.states.items() if state == FAILED and gsn.kind_of(name) == gsn.GOAL]

    @property
    def exit_code(self) -> int:
        """Return 0 for a valid case, 1 if a leaf or file is rejected or a goal refuted, 3 if some was not checked."""
        valid = is_valid(self.case)
        if valid is False or any(leaf.rejected for leaf in self.leaves) or REFUTED in self.states.values():
            return EXIT_DIFFERS
        unchecked = valid is None or any(leaf.state is LeafState.UNCHECKED for leaf in self.leaves)
        return EXIT_INFRASTRUCTURE if unchecked else EXIT_DONE


LAYOUT = re.compile(r' (points|d|x|y|cx|cy|rx|ry|width|height|viewBox|transform)="[-0-9.,a-zA-Z() ]*"')
Verifier = Callable[[Leaf], Sequence[Claim]]
"""Verifies a leaf whose bytes are those that the case records."""


Current = Callable[[Leaf], "LeafFinding | None"]
"""Returns the finding of a leaf that is not about the present subject; None if it is."""


def check(folder: Path, workspace: Workspace, render: Render, verifier: Verifier) -> Checked:
    """Check the case in a folder; RequestError if there is none, or if another version wrote it."""
    if not (folder / DOCUMENT).is_file():
        raise RequestError(f"{folder}: there is no {DOCUMENT}", "name a case: a folder that harness case build wrote")
    try:
        list(plain(folder))  # a pipe would never end, a link lead anywhere
        document = CaseDocument.read(folder / DOCUMENT)
    except ContradictionError as error:
        return Checked(None, (Claim("files", ClaimState.WRONG, str(error)),))
    except RequestError as error:
        if "its schema is" in error.message:
            raise
        return Checked(None, (Claim(DOCUMENT, ClaimState.WRONG, error.message),))
    found = read_leaves(document, folder)
    leaves = {name: each for name, each in found.items() if isinstance(each, Leaf)}
    case = tuple(_of_case(document, folder, leaves, render))
    current = functools.partial(_current, document=document, subject=_subject(document, workspace))
    return replace(judged(document, found, current, verifier), case=case)


def read_leaves(document: CaseDocument, folder: Path) -> dict[str, Leaf | LeafFinding]:
    """Return each leaf of the case in a folder, or why it is not the one that the case records."""
    return {name: _read(name, entry, folder) for name, entry in document.leaves.items()}


def judged(
    document: CaseDocument, found: Mapping[str, Leaf | LeafFinding], current: Current, verifier: Verifier
) -> Checked:
    """Return the state of each leaf, and of each element above it, without the files of the case."""
    leaves = {name: each for name, each in found.items() if isinstance(each, Leaf)}
    findings = {
        name: (current(each) or _verified(each, verifier)) if isinstance(each, Leaf) else each
        for name, each in found.items()
    }
    for name, reason in contradictions(leaves):
        findings[name] = LeafFinding(name, LeafState.CONTRADICTORY, reason)
    rejected = {name for name, finding in findings.items() if finding.rejected}
    unchecked = {name for name, finding in findings.items() if finding.state is LeafState.UNCHECKED}
    return Checked(document, (), tuple(findings.values()), document.states(rejected, unchecked))


def _read(name: str, entry: LeafEntry, folder: Path) -> Leaf | LeafFinding:
    """Return a leaf whose bytes are those of the case; otherwise its finding."""
    path = folder / entry.path
    if not path.exists():
        return LeafFinding(name, LeafState.MISSING, f"{entry.path} is not there")
    try:
        if text := different(path, entry):
            return LeafFinding(name, LeafState.FORGED, text)
        leaf = read(path, folder)
    except (ContradictionError, RequestError, OSError) as error:
        return LeafFinding(name, LeafState.FORGED, str(error))
    found = leaf.entry.model_copy(update={"files": entry.files})  # a signature may have been added
    if found.to_json() != entry.to_json() or leaf.name != name:
        return LeafFinding(name, LeafState.FORGED, f"{DOCUMENT} states another origin, date, board or hash than it")
    return leaf


def different(path: Path, entry: LeafEntry) -> str:
    """Return which files of a leaf are not those that the case records; empty if all are.

    A signature that was added later is no change.
    """
    if not path.is_dir():
        return "" if file_sha256(path) == entry.sha256 else f"changed: {entry.path}"
    there = set(plain(path))
    missing, added = entry.files.keys() - there, there - entry.files.keys() - {*map(envelope_of, DOCUMENTS)}
    changed = [name for name, sha256 in entry.files.items() if name in there and file_sha256(path / name) != sha256]
    wrong = (("missing", missing), ("added", added), ("changed", changed))
    return "; ".join(f"{word}: {listed(names)}" for word, names in wrong if names)


def _subject(document: CaseDocument, workspace: Workspace) -> Subject | str:
    """Return the present subject, or why there is none any more."""
    try:
        return Subject.of(document.request, workspace)
    except RequestError as error:
        return f"the subject of the case is not here any more: {error.message}"


def _current(leaf: Leaf, document: CaseDocument, subject: Subject | str) -> LeafFinding | None:
    """Return the finding of a leaf that is about another model, or about an earlier state; None if it is current."""
    if leaf.subject_sha256 not in {None, document.model.sha256}:
        return LeafFinding(leaf.name, LeafState.CONTRADICTORY, "it is about another model than the case")
    try:
        reason = subject if isinstance(subject, str) else subject.staleness(leaf)
    except RequestError as error:
        reason = error.message
    except HarnessError as error:
        return LeafFinding(leaf.name, LeafState.UNCHECKED, error.message)
    if reason or isinstance(subject, str):
        return LeafFinding(leaf.name, LeafState.STALE, reason)
    text = subject.contradiction(leaf)
    return LeafFinding(leaf.name, LeafState.FORGED, text) if text else None


def _verified(leaf: Leaf, verifier: Verifier) -> LeafFinding:
    try:
        claims = verifier(leaf)
    except RequestError as error:
        return LeafFinding(leaf.name, LeafState.FORGED, error.message)
    except HarnessError as error:
        return LeafFinding(leaf.name, LeafState.UNCHECKED, error.message)
    except MALFORMED as error:
        return LeafFinding(leaf.name, LeafState.UNCHECKED, f"damaged: {type(error).__name__}: {error}")
    wrong = [f"{each.name}: {each.text}" for each in claims if each.state is ClaimState.WRONG]
    if wrong:
        return LeafFinding(leaf.name, LeafState.FORGED, "; ".join(wrong))
    unchecked = [f"{each.name}: {each.text}" for each in claims if each.needed and each.state is ClaimState.UNCHECKED]
    if unchecked:
        return LeafFinding(leaf.name, LeafState.UNCHECKED, "; ".join(unchecked))
    shown = f"{len(claims)} claims verified again" if claims else "the bytes are those of the case and of the model"
    return LeafFinding(leaf.name, LeafState.VALID, shown)


def _of_case(document: CaseDocument, folder: Path, leaves: Mapping[str, Leaf], render: Render) -> Iterator[Claim]:
    """Yield the claims about the files of the case itself."""
    yield claim(DOCUMENT, lambda: _own_hash(document, folder))
    yield claim("files", lambda: _own_files(document, folder))
    yield claim("times", lambda: require_possible_time(_evidence(document, folder), document.built))
    yield claim(YAML, lambda: _yaml(document, folder))
    outdated = _outdated(document)
    yield claim("argument", lambda: _argument(document, leaves, outdated))
    yield claim("pages", lambda: _pages(document, folder, render, outdated), needed=False)


def _require(same: bool, text: str) -> None:
    if not same:
        raise ContradictionError(text)


def _own_hash(document: CaseDocument, folder: Path) -> str:
    _require(content_sha256(document) == document.content_sha256, "content_sha256 is not that of its entries")
    _require((folder / DOCUMENT).read_bytes() == build.canonical(document), "its bytes are not those that were written")
    return f"content {document.content_sha256}"


def _own_files(document: CaseDocument, folder: Path) -> str:
    there, in_leaves = set(plain(folder)), {entry.path for entry in document.leaves.values()}
    if PDF in there - document.files.keys():
        raise UncheckedError(f"{DOCUMENT} of an earlier version does not list {PDF}: remove it, and print it again")
    recorded = {name: sha256 for name, sha256 in document.files.items() if name not in in_leaves}
    recorded |= {name: file_sha256(folder / name) for name in in_leaves & there}  # the leaves themselves are checked
    written = {YAML, PAGE, PICTURE, TABLE, PDF, *in_leaves}
    return require_files(_evidence(document, folder), recorded, written)


def _evidence(document: CaseDocument, folder: Path) -> Evidence:
    return Evidence(folder, document.to_json(), DOCUMENT)


def _yaml(document: CaseDocument, folder: Path) -> str:
    text = (folder / YAML).read_text(encoding="utf-8")
    try:
        made = build.texts_of(document)[YAML]
    except ValueError as error:
        raise ContradictionError(str(error)) from error
    _require(text == made, f"not what {DOCUMENT} gives")
    return f"{len(document.elements)} elements, no rule of gsn2x is broken"


def _argument(document: CaseDocument, leaves: Mapping[str, Leaf], outdated: str) -> str:
    if lost := document.leaves.keys() - leaves.keys():
        raise UncheckedError(f"it follows from all leaves, and of these not all can be read: {listed(lost)}")
    _require(not outdated, outdated)
    wrong = argument.same_argument(document, leaves)
    _require(not wrong, wrong)
    return "elements and objectives follow from template and leaves"


def _pages(document: CaseDocument, folder: Path, render: Render, outdated: str) -> str:
    _require(not outdated, outdated)
    page = render(document)
    there = {name: (folder / name).read_text(encoding="utf-8") for name in page}
    other = [name for name, text in page.items() if _without_layout(there[name]) != _without_layout(text)]
    _require(not other, f"{listed(other)}: not what {DOCUMENT} gives")
    if there != page:
        raise UncheckedError("words, links and colours follow; other fonts or another Graphviz placed the elements")
    return f"{', '.join(page)} follow from {DOCUMENT}"


def _without_layout(page: str) -> str:
    """Return a page without what depends on fonts and Graphviz: its version, and positions and sizes in pictures."""
    page = re.sub(r"<!-- Generated by graphviz version [0-9.]+ \([0-9.]+\)\s*-->", "", page)
    return re.sub(r"<svg .*?</svg>", lambda picture: LAYOUT.sub("", picture[0]), page, flags=re.DOTALL)


def _outdated(document: CaseDocument) -> str:
    """Return whether another template or other sources wrote the case; empty if these did."""
    if document.template.to_json() != argument.template().entry.to_json():
        return "stale: the template of this version is another one: build the case again"
    reason = changed_sources(document.harness.revision)
    return f"stale: {reason}: build the case again" if reason else ""


@dataclass(frozen=True)
class Verification:
    """The verification of leaves, each by the verification of its kind."""

    scope: VerificationScope
    progress: Progress

    def __call__(self, leaf: Leaf) -> Sequence[Claim]:
        """Return the claims of a leaf, each checked again."""
        if leaf.entry.kind == FILE:
            return ()
        if leaf.entry.kind == CERTIFICATE:
            return (claim("certificate", lambda: _certificate(leaf.path)),)
        evidence = folders.read(leaf.path)
        if evidence is None:
            raise RequestError(f"{leaf.path}: the run is not finished")
        if evidence.name not in DOCUMENTS:
            raise RequestError(f"{leaf.path}: it has {evidence.name}, which is no evidence of a leaf")
        return tuple(folders.claims(evidence, replace(self.scope, key=None), self.progress))


def _certificate(path: Path) -> str:
    """Check that a certificate is consistent, without deciding slabs; its counts belong to `Subject.contradiction`."""
    slabs: int = registry.evidence(DECIDE).slabs(path)
    return f"{slabs} slabs cover the domain once; none of them was decided again"

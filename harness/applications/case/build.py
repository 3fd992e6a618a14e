"""The build of a case: usable evidence is chosen, the argument follows from it, and a folder is written.

runs/<time>_case_<board>_<model>/
    case.yaml        the argument, in the format of gsn2x
    index.html       the page, with the picture argument.svg
    objectives.csv   the coverage of the objectives
    evidence/        the files of the model, and the certificate and decisions of a decision, byte for byte
    case.json        written last and atomically
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from harness import __version__
from harness.applications.case import argument, gsn
from harness.applications.case.entries import (
    DOCUMENT,
    EVIDENCE,
    SCHEMA,
    YAML,
    CaseDocument,
    ModelEntry,
    VersionEntry,
    content_sha256,
    yaml_of,
)
from harness.applications.case.leaves import CERTIFICATE, DECIDE, DOCUMENTS, Leaf, contradictions, read
from harness.applications.case.subject import Subject, require_kind
from harness.core import registry, strict_json
from harness.core.document import write_json
from harness.core.errors import HarnessError, RequestError, ToolError
from harness.core.file_digest import folder_sha256
from harness.core.installation import ROOT, revision
from harness.core.text import plural
from harness.runs.folder import RunFolder, now

CERTIFICATES = ROOT / "docs" / "evidence" / "decide"
Render = Callable[[CaseDocument], Mapping[str, str]]
"""Writes the pages of a case, by their names."""
Complete = Callable[[Path], object]


def found(runs: Path, subject: Subject, notify: Callable[[str], object]) -> dict[str, Leaf]:
    """Return all usable evidence: folders of `runs`, certificates, and the files of the model."""
    answers: dict[tuple[object, ...], str] = {}  # by program: many folders may be about the same one
    refused = []
    places = sorted({path.parent for name in DOCUMENTS for path in runs.glob(f"*/{name}")}, reverse=True)
    leaves = {}
    for path in (*places, *sorted(CERTIFICATES.glob("*.json")), *subject.files.values()):
        try:
            leaf = read(path, runs, with_files=False)
        except RequestError:  # of another version, or damaged: harness verify says so
            continue
        if leaf.subject_sha256 not in {None, subject.network.sha256}:
            continue
        if leaf.entry.board not in {"", subject.profile.name}:
            continue
        entry = leaf.entry
        program = (entry.kind, entry.model_sha256, entry.bundle, entry.revision, entry.bundle or leaf.name)
        if program not in answers:
            answers[program] = _unusable(leaf, subject)
        if answers[program]:
            refused.append(f"{leaf.name}: {answers[program]}")
        else:
            leaves[leaf.name] = leaf
    if refused:
        more = f" (and {plural(len(refused) - 1, 'other')})" if refused[1:] else ""
        notify(f"not used: {refused[0]}{more}")
    return leaves


def named(paths: Iterable[Path], subject: Subject, runs: Path) -> dict[str, Leaf]:
    """Return the evidence at these paths, and the files of the model; RequestError if some of it is not usable."""
    leaves = {}
    for path in paths:
        leaf = read(path, runs, with_files=False)
        require_kind(leaf)
        if reason := _unusable(leaf, subject):
            raise RequestError(f"{path}: not usable as evidence: {reason}", "run it again, or name other evidence")
        leaves[leaf.name] = leaf
    return leaves | {path.name: read(path, runs) for path in subject.files.values()}


def _unusable(leaf: Leaf, subject: Subject) -> str:
    try:
        return subject.staleness(leaf) or subject.contradiction(leaf)
    except ToolError:
        raise
    except HarnessError as error:
        return str(error)


def build(
    subject: Subject, leaves: Mapping[str, Leaf], runs: Path, render: Render, complete: Complete = lambda _: None
) -> tuple[CaseDocument, Path]:
    """Write the case of a subject with this evidence to a new folder; return document and folder.

    `complete` adds files to a folder that has the pages.  RequestError if evidence contradicts itself.
    """
    for name, reason in contradictions(leaves):
        raise RequestError(f"{name}: {reason}", "name the evidence of one of them: --evidence")
    began = now()
    folder = RunFolder.create(runs, f"case_{subject.profile.name}", subject.network.name, began).path
    try:
        (folder / "chunks").rmdir()
        document = _document(subject, leaves, folder, f"{began:%Y-%m-%dT%H:%M:%SZ}")
        return finish(document, folder, render, complete), folder
    except BaseException:
        shutil.rmtree(folder)  # it cannot be continued
        raise


def _document(subject: Subject, leaves: Mapping[str, Leaf], folder: Path, built: str) -> CaseDocument:
    """Return the document of a case, without its files; the leaves that it uses are put into their places."""
    model = ModelEntry(name=subject.network.name, sha256=subject.network.sha256, layers=len(subject.network.layers))
    used = argument.used_leaves(argument.argue(subject.request, model, leaves)[0])
    kept = {name: _kept(leaves[name], folder) for name in used}
    elements, objectives = argument.argue(subject.request, model, kept)
    return CaseDocument(
        schema=SCHEMA,
        harness=VersionEntry(version=__version__, revision=revision()),
        built=built,
        template=argument.template().entry,
        request=subject.request,
        model=model,
        elements=elements,
        leaves={name: leaf.entry for name, leaf in kept.items()},
        objectives=objectives,
    )


def _kept(leaf: Leaf, folder: Path) -> Leaf:
    """Return a leaf of the case in `folder`: a file is copied into it, a folder stays where it is."""
    if leaf.path.is_dir():
        return read(leaf.path, folder)
    (folder / EVIDENCE).mkdir(exist_ok=True)
    if leaf.entry.kind == CERTIFICATE:
        packed = registry.evidence(DECIDE).files_of_certificate(leaf.path)[1]
        shutil.copyfile(packed, folder / EVIDENCE / packed.name)
    return read(Path(shutil.copyfile(leaf.path, folder / EVIDENCE / leaf.name)), folder)


def finish(document: CaseDocument, folder: Path, render: Render, complete: Complete = lambda _: None) -> CaseDocument:
    """Write the argument, the pages and, last, `case.json`; return the document with the hashes of all files."""
    for name, text in (texts_of(document) | dict(render(document))).items():
        (folder / name).write_text(text, encoding="utf-8")
    complete(folder)
    document = document.model_copy(update={"files": folder_sha256(folder)})
    document = document.model_copy(update={"content_sha256": content_sha256(document)})
    write_json(folder / DOCUMENT, document)
    return document


def texts_of(document: CaseDocument) -> dict[str, str]:
    """Return `case.yaml` by its name; ValueError if it breaks a rule of its format."""
    text = yaml_of(document)
    if broken := list(gsn.problems(gsn.parsed(text))):
        raise ValueError(f"{YAML} breaks rules of gsn2x: {'; '.join(broken)}")
    return {YAML: text}


def canonical(document: CaseDocument) -> bytes:
    """Return the bytes of `case.json`."""
    return f"{strict_json.text(document.to_json())}\n".encode()

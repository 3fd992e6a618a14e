"""What a competent forger does: every hash, number and report that he can make again after a change, he makes again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from harness import report
from harness.analysis.proof_document import ProofDocument
from harness.applications.case import build
from harness.applications.case import page as case_pages
from harness.applications.case.entries import CaseDocument
from harness.applications.case.entries import content_sha256 as content_of_case
from harness.core.file_digest import file_sha256
from harness.execution import dumps
from harness.operators.counters import Met, Quantity
from harness.plan.conformance import ConformanceEntry
from harness.runs import verdict
from harness.runs.folder import RunFolder, content_sha256, envelope_of, write_json
from harness.runs.verification import inputs
from harness.runs.verification.folder import RUN, read
from harness.runs.verification.verify import AFTERWARDS

Document: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Path], object]
Edit: TypeAlias = Callable[[Document], object]
REQUEST, PROOF, ATTEMPTS = "request.json", "proof.json", "attempts.jsonl"
CASE, DOCUMENTS = "case.json", ("run.json", "decide.json", "wcet.json", "case.json")


def forge(base: Path, target: Path, change: Change) -> None:
    """Copy a run to `target`, change it, and make everything again that depends on the change."""
    shutil.copytree(base, target)
    change(target)
    redo(target)


def edit(path: Path, how: Edit) -> None:
    """Change a JSON file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    how(document)
    write_json(path, document)


def document_in(folder: Path) -> Path:
    """Return the document of evidence."""
    return next(folder / name for name in DOCUMENTS if (folder / name).exists())


def in_document(how: Edit) -> Change:
    """Return a change of the document of evidence."""
    return lambda folder: edit(document_in(folder), how)


def in_run(how: Edit) -> Change:
    """Return a change of run.json."""
    return lambda folder: edit(folder / RUN, how)


def in_file(name: str, how: Edit) -> Change:
    """Return a change of another JSON file of the run."""
    return lambda folder: edit(folder / name, how)


def in_request(**changes: Any) -> Change:
    """Return a change of what was asked."""
    return in_file(REQUEST, lambda kept: kept["request"].update(changes))


def in_chunks(how: Edit) -> Change:
    """Return a change of every chunk's record."""

    def change(folder: Path) -> None:
        for path in sorted((folder / "chunks").iterdir()):
            edit(path, how)

    return change


def in_attempts(how: Callable[[list[Document]], object]) -> Change:
    """Return a change of the lines of attempts.jsonl."""

    def change(folder: Path) -> None:
        lines = [json.loads(line) for line in (folder / ATTEMPTS).read_text(encoding="utf-8").splitlines()]
        how(lines)
        (folder / ATTEMPTS).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")

    return change


def in_text(name: str, old: str, new: str) -> Change:
    """Return a change of a text file, in which the old text must be."""

    def change(folder: Path) -> None:
        before = (folder / name).read_text(encoding="utf-8")
        if old not in before:
            raise AssertionError(f"{name} has no {old!r}")
        (folder / name).write_text(before.replace(old, new, 1), encoding="utf-8")

    return change


def all_of(*changes: Change) -> Change:
    """Return these changes, one after the other."""

    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def redo(folder: Path) -> None:
    """Make the hashes of dumps, vectors and readings again, the reports, and the list of files."""
    if document_in(folder).name != RUN:
        redo_pages(folder)
        return
    for path in (folder / "chunks").glob("*.json"):
        _hash_dumps(folder, path)
    edit(folder / RUN, lambda run: _hash_arrays(folder, run))
    run = json.loads((folder / RUN).read_text(encoding="utf-8"))
    with suppress(ValueError, LookupError, TypeError):  # a report shows no contradiction: then the old one stays
        for name, text in _reports(run).items():
            (folder / name).write_text(text, encoding="utf-8")
    rehash(folder)


def redo_pages(folder: Path) -> None:
    """Make the pages and the list of files again of a decision, of bounds or of a case."""
    name = document_in(folder).name
    if name == CASE:
        case = CaseDocument.read(folder / name)
        pages = case_pages.pages(case) | build.texts_of(case)
    else:
        pages = report.reports(json.loads((folder / name).read_text(encoding="utf-8")), folder)
    for page, text in pages.items():
        (folder / page).write_text(text, encoding="utf-8")
    rehash(folder)


def _hash_dumps(folder: Path, path: Path) -> None:
    """Write the hashes of the dumps that are here into the record of their chunk."""
    record = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(record)
    for kind in ("reference", "target"):
        for dump in (folder / kind / path.stem).glob("*.npy"):
            index = int(dump.name.partition("_")[0])
            if index < len(record[f"{kind}_sha256"]):
                record[f"{kind}_sha256"][index] = file_sha256(dump)
    if json.dumps(record) != before:
        write_json(path, record)


def _hash_arrays(folder: Path, run: Document) -> None:
    run["stimuli"]["sha256"] = file_sha256(folder / "stimuli.npy")
    if "readings" in run:
        run["readings"]["sha256"] = file_sha256(folder / "readings.npy")


def _reports(run: Mapping[str, Any]) -> dict[str, str]:
    document = {key: value for key, value in run.items() if key not in AFTERWARDS}
    if run.get("kind") == "measure":
        return report.measurement(document)
    return {"report.html": report.html(document), "junit.xml": report.junit(document)}


def rehash(folder: Path) -> None:
    """Make the list of files and the hash of the content again."""
    names = (p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink())
    own = document_in(folder)
    files = {name: file_sha256(folder / name) for name in names if name not in {own.name, envelope_of(own.name)}}
    edit(own, lambda listed: listed.update(files=files))
    if own.name == RUN:
        edit(own, lambda run: run.update(content_sha256=content_sha256(files)))
    if own.name == CASE:
        case = CaseDocument.read(own)
        own.write_bytes(build.canonical(case.model_copy(update={"content_sha256": content_of_case(case)})))


def conclude(folder: Path) -> None:
    """Make verdict, reason and all numbers again that follow from chunks, coverage, traces and proof."""
    evidence = read(folder)
    if evidence is None:
        raise AssertionError(f"{folder} is not finished")
    plan, vectors = inputs.read(evidence)
    ran_on = [item["ran_on"] for item in evidence.run["plan"]["items"]]
    covered = [
        {Quantity(name): Met(**met) for name, met in layer["coverage"].items()} for layer in evidence.run["layers"]
    ]
    kept = RunFolder(folder)
    records = tuple(kept.chunks())
    changed = verdict.changed_vectors(folder, plan.network, records)
    proof, traces = ProofDocument.view(kept.read_proof()), ConformanceEntry.view(evidence.run["conformance"])
    observations = verdict.Observations(records, covered, proof, traces, changed)
    results = verdict.results(plan, ran_on, vectors.count, observations)
    edit(folder / RUN, lambda run: run.update(results.to_json()))


def hide_difference(folder: Path) -> None:
    """Make the records say that nothing differs, remove the failing case, and conclude again."""

    def hide(chunk: Document) -> None:
        chunk.update(diagnoses=[], portraits=[])
        for layer in chunk["layers"]:
            layer.update(differing=0, own=0, first=None)

    in_chunks(hide)(folder)
    remove_failing(folder)
    conclude(folder)


def remove_failing(folder: Path) -> None:
    """Remove the failing case."""
    (folder / "failing.npy").unlink(missing_ok=True)
    edit(folder / RUN, lambda run: run.update(failing=None))


def copy_dumps(source: str, target: str) -> Change:
    """Return a change that replaces the dumps of one side by those of the other."""

    def change(folder: Path) -> None:
        shutil.rmtree(folder / target)
        shutil.copytree(folder / source, folder / target)

    return change


def change_dumps(folder: Path) -> None:
    """Change one activation of the last layer in the same way on both sides."""
    for kind in ("reference", "target"):
        path = folder / kind / "00000" / "02_layer_1.npy"
        values = np.load(path)
        values[2, 1] ^= 1
        dumps.write(path, values)


def change_vector(folder: Path) -> None:
    """Change one input of one vector."""
    vectors = np.load(folder / "stimuli.npy")
    vectors[123, 0] += 0.25
    dumps.write(folder / "stimuli.npy", vectors)

"""The claims of each kind of evidence in a folder: a run, a decision of a property, bounds of a program."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.build.bundle import MANIFEST, PROGRAM, Manifest
from harness.core.errors import HarnessError, RequestError
from harness.core.file_digest import file_sha256
from harness.core.safe_io import read_document
from harness.plan import folder as plan_folder
from harness.runs import wcet
from harness.runs.decision import check as decision_check
from harness.runs.decision import check_bounds
from harness.runs.decision import job as decision
from harness.runs.verification import bundle
from harness.runs.verification.claims import (
    MALFORMED,
    Claim,
    ClaimState,
    ContradictionError,
    Progress,
    UncheckedError,
    claim,
    listed,
)
from harness.runs.verification.folder import RUN, Evidence, plain, require_files
from harness.runs.verification.folder import read as read_run
from harness.runs.verification.revisions import require_possible_time
from harness.runs.verification.signature import signed
from harness.runs.verification.verify import Wanted, description, reports, verify
from harness.targets.base import COMPILED

OF_OTHERS = (decision.DOCUMENT, wcet.DOCUMENT)


def read(path: Path) -> Evidence | None:
    """Return the evidence in a folder, None for an unfinished run; RequestError if there is none."""
    name = next((name for name in OF_OTHERS if (path / name).exists()), None)
    if name is None and (path / decision.REQUEST).exists():
        hint = f"continue it: harness decide --resume {path}"
        if decision.is_by_bounds(path):
            hint = "start it again: a decision by bounds is not resumed"
        raise RequestError(f"{path}: no finished decision", hint)
    if name is None:
        return read_run(path)
    try:
        return Evidence(path, read_document(path / name), name)
    except (OSError, ValueError) as error:
        raise RequestError(
            f"{path / name}: cannot be read: {error}", "copy the folder again from its source"
        ) from error


def claims(evidence: Evidence, wanted: Wanted, progress: Progress) -> Iterator[Claim]:
    """Yield every claim of a run, a decision or bounds, as soon as it is decided."""
    if evidence.name == RUN:
        yield from verify(evidence, wanted, progress)
        return
    yield claim("files", lambda: _files(evidence, progress))
    try:
        list(plain(evidence.path))
    except ContradictionError as error:  # a pipe would never end, a link lead anywhere
        yield Claim("content", ClaimState.UNCHECKED, f"no other file is opened: {error}")
        return
    yield claim("times", lambda: require_possible_time(evidence, str(evidence.run["began"])))
    yield from (_of_decision if evidence.name == decision.DOCUMENT else _of_bounds)(evidence, wanted, progress)
    yield claim("reports", lambda: reports(evidence, wanted))
    yield claim("signature", lambda: signed(evidence.path / evidence.name, wanted.key), needed=wanted.key is not None)


def _files(evidence: Evidence, progress: Progress) -> str:
    """Check the files; documents of earlier versions list none, or not the page, which follows from the document."""
    there = set(plain(evidence.path))
    if evidence.name == decision.DOCUMENT:
        written = decision.files_of(evidence.run)
    else:  # another claim checks the plan
        written = {*wcet.FILES, *(name for name in there if name.startswith(f"{wcet.PLAN}/"))}
    recorded = dict(evidence.run.get("files", {}))
    unlisted = written if not recorded else {wcet.REPORT} - recorded.keys()
    recorded |= {name: file_sha256(evidence.path / name) for name in unlisted & there}
    return require_files(evidence, recorded, written, progress)


def _of_decision(evidence: Evidence, _: Wanted, progress: Progress) -> Iterator[Claim]:
    seed, path = secrets.randbits(32), evidence.path
    check = check_bounds.check if decision.is_by_bounds(path) else decision_check.check

    def steps(name: str, total: int, _done: int) -> Any:
        return progress(name, total)

    yield from _found("decision", lambda: check(path, decision_check.BOXES, seed, steps))
    yield Claim("seed", ClaimState.OK, f"{seed}, from which the random boxes follow")


def _of_bounds(evidence: Evidence, wanted: Wanted, progress: Progress) -> Iterator[Claim]:
    with progress(f"bounds of {evidence.path.name}", 1):
        yield from _found("bounds", lambda: wcet.verify(evidence.path))
    yield claim("description", lambda: description(evidence, plan_folder.read(evidence.path / wcet.PLAN)))
    yield claim("program", lambda: _program(evidence, wanted), needed=wanted.rebuild)


def _found(name: str, check: Callable[[], Iterable[Any]]) -> Iterator[Claim]:
    """Yield the findings of a decision or an analysis as claims; an error ends them with the claim `name`."""
    states = {True: ClaimState.OK, False: ClaimState.WRONG}
    try:
        for found in check():
            yield Claim(found.claim, states[found.holds], found.finding)
    except (HarnessError, *MALFORMED) as error:
        yield claim(name, partial(_fail, error))


def _fail(error: Exception) -> str:
    raise error


def _program(evidence: Evidence, wanted: Wanted) -> str:
    """Check that the sources give the bounded program; if it cannot be built here, that no run contradicts it."""
    document = evidence.run
    manifest = Manifest.read(evidence.path / wcet.BUNDLE / MANIFEST).to_json()
    files = {name: sha256 for name, sha256 in manifest["files"].items() if not name.startswith(f"{COMPILED}/")}
    recorded = {key: manifest[key] for key in ("compiler", "flags", "inputs")}
    run = {"bundle": recorded | {"sha256": document["bundle"], "files": files}, "harness": document["harness"]}
    try:
        if not wanted.rebuild:
            raise UncheckedError("--no-rebuild")  # noqa: TRY301 - runs of the bundle are compared
        with tempfile.TemporaryDirectory() as scratch:
            of_program = replace(evidence, run=run | {"board": {"name": document["board"]}})
            return bundle.reproduced(of_program, wanted.boards, Path(scratch))
    except UncheckedError:
        if others := _runs_of_other_programs(evidence.path.absolute().parent, document):
            raise ContradictionError(f"{listed(others)} ran another program of bundle {document['bundle']}") from None
        raise


def _runs_of_other_programs(runs: Path, document: Mapping[str, Any]) -> list[str]:
    found = []
    for path in runs.glob(f"*/{RUN}"):
        with suppress(OSError, ValueError, LookupError, TypeError):  # of another version, or damaged
            ran = read_document(path)["bundle"]
            if ran["sha256"] == document["bundle"] and ran["files"][PROGRAM] != document["program_sha256"]:
                found.append(path.parent.name)
    return found

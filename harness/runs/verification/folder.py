"""The files of a folder of evidence: exactly the unchanged files that its document lists."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import __version__
from harness.core import registry
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.installation import revision
from harness.core.safe_io import read_document
from harness.runs.folder import FLOAT_MODEL, LABELS, ChunkRecord, RunFolder, content_sha256, envelope_of
from harness.runs.measurement.request import CPU_FILES
from harness.runs.verification.claims import ContradictionError, Progress, UncheckedError, listed

RUN = "run.json"

# Files that a run writes; other claims check the files in the folders.
_KNOWN = re.compile(
    r"(attempts\.jsonl|log\.txt|report\.html|junit\.xml|table\.tex|times\.csv|model\.onnx"
    r"|(stimuli|failing|readings|cpu|user|system|wrong-outputs)\.npy"
    r"|(request|proof|profile|wrong-outputs|run|run\.dsse)\.json"
    r"|(plan|chunks|reference|target)/.+|boards/(\d{5}|traces|readings)\.json|traces/([^/]+\.jsonl|vectors\.npy))"
)


@dataclass(frozen=True)
class Evidence:
    """Finished evidence: its folder, its document, which of a run is `run`, and the name of the document."""

    path: Path
    run: Mapping[str, Any]
    name: str = RUN

    @property
    def measured(self) -> bool:
        """Return whether it is a measurement."""
        return self.run.get("kind") == "measure"

    @property
    def is_of_here(self) -> bool:
        """Return whether the installed version of harness wrote it."""
        return bool(self.run["harness"] == {"version": __version__, "revision": revision()})

    @cached_property
    def request(self) -> dict[str, Any]:
        """Return the request."""
        return dict(RunFolder(self.path).read_request()["request"])

    @cached_property
    def records(self) -> tuple[ChunkRecord, ...]:
        """Return all chunks."""
        return tuple(RunFolder(self.path).chunks())


def read(path: Path) -> Evidence | None:
    """Read the run in a folder, None if it is not finished; RequestError if it is not a run or cannot be read."""
    if not os.path.lexists(path / RUN):
        if (path / "request.json").is_file():
            return None
        raise RequestError(f"{path}: not a run folder", "name a folder under runs/, or the path of one")
    try:
        return Evidence(path, read_document(path / RUN))
    except (OSError, ValueError) as error:
        raise RequestError(f"{path / RUN}: cannot be read: {error}", "copy the folder again from its source") from error


def how_to_finish(path: Path) -> str:
    """Return the hint for a run that is not finished."""
    with suppress(RequestError):
        if RunFolder(path).read_request().get("kind") == "measure":
            return "measure again: a measurement cannot be resumed"
    return f"harness run --resume {shlex.quote(str(path))}"


def files(evidence: Evidence, progress: Progress) -> str:
    """Check that a run has exactly the files of run.json, with their SHA-256, run.json and the signature."""
    found = set(plain(evidence.path))
    without_use = set() if found & registry.PARTS.keys() else found & {*CPU_FILES.values()}
    written = {name for name in found - without_use if _KNOWN.fullmatch(name)}
    if evidence.request.get("labels") is not None:
        written |= {LABELS, FLOAT_MODEL}
    chunks = {Path(name).stem for name in found if name.startswith("chunks/")}
    empty = {"chunks"} | {f"{kind}/{name}" for kind in ("reference", "target") for name in chunks}
    return require_files(evidence, evidence.run["files"], written, progress, empty)


def require_files(
    evidence: Evidence,
    recorded: Mapping[str, str],
    written: Collection[str],
    progress: Progress | None = None,
    empty: Collection[str] = (),
) -> str:
    """Check that the folder has exactly the recorded files, with their SHA-256, the document and the signature.

    `written` are the names that the command of the evidence writes, `empty` the folders that may be empty.
    """
    found = set(plain(evidence.path)) - {evidence.name, envelope_of(evidence.name)}
    missing = recorded.keys() - found
    added = (found - recorded.keys()) | {f"{name}/" for name in empty_folders(evidence.path) if name not in empty}
    if missing or added:
        wrong = (f"missing: {listed(missing)}" if missing else "", f"added: {listed(added)}" if added else "")
        raise ContradictionError("; ".join(filter(None, wrong)))
    if unknown := found - set(written):
        raise ContradictionError(f"added, and listed: {listed(unknown)}; harness writes no such file into this folder")
    changed = []
    with progress("hashing files", len(recorded)) if progress else nullcontext() as bar:
        for name, sha256 in recorded.items():
            if file_sha256(evidence.path / name) != sha256:
                changed.append(name)
            if bar:
                bar.advance(1)
    if changed:
        raise ContradictionError(f"changed: {listed(changed)}")
    return f"{len(recorded):,} files are those that {evidence.name} lists, without others"


def empty_folders(folder: Path) -> Iterator[str]:
    """Yield the names of all folders below a folder that have neither files nor folders."""
    for path, folders, names in os.walk(folder, onerror=_not_seen):
        if not folders and not names:
            yield Path(path).relative_to(folder).as_posix()


def plain(folder: Path) -> Iterator[str]:
    """Yield the names of all files in the folder; ContradictionError for files that no run writes, such as links."""
    for path, folders, names in os.walk(folder, onerror=_not_seen):
        for found in (Path(path, name) for name in (*folders, *names)):
            mode, name = found.lstat().st_mode, found.relative_to(folder).as_posix()
            if stat.S_ISREG(mode):
                yield name
            elif not stat.S_ISDIR(mode):
                raise ContradictionError(f"added: {name}, which is not a regular file")


def _not_seen(error: OSError) -> None:
    """Raise an error for a folder that cannot be read."""
    raise ContradictionError(f"cannot be opened: {error}") from error


def content(evidence: Evidence) -> str:
    """Check that the hash of the results follows from the hashes of the files."""
    recorded, found = evidence.run.get("content_sha256"), content_sha256(evidence.run["files"])
    if recorded is None:
        raise UncheckedError(f"{RUN} has no content_sha256: written by an older version")
    if recorded != found:
        raise ContradictionError(f"{RUN} says {recorded}, its files give {found}")
    return f"{found}, of the results of the run"

"""The folder of an exported library: its files are complete before it gets its name."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness import __version__
from harness.applications.export import forms
from harness.applications.export.document import MANIFEST, SCHEMA, EvidenceEntry, ExportDocument, MemoryEntry
from harness.applications.export.library import Library
from harness.core.document import write_json
from harness.core.errors import RequestError
from harness.core.installation import revision
from harness.runs.programs import board_text, result_of
from harness.targets import toolchain


def require_free(path: Path) -> None:
    """Raise RequestError if something is at `path` already, other than an empty folder."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists():
        raise RequestError(f"cannot write {path}: it exists already", "name a new folder, or remove this one")
    if not path.absolute().parent.is_dir():
        raise RequestError(f"cannot write {path}: {path.absolute().parent} is no folder", "make it, or name another")


def evidence_of(run: Path | None) -> EvidenceEntry | None:
    """Return the result of the run of the program; RequestError if it is unfinished."""
    if run is None:
        return None
    result = result_of(run)
    if result is None:
        raise RequestError(
            f"{run}: the run is not finished, so it shows nothing of its program",
            f"finish it: harness run --resume {run.name}; or export its plan: {run}/plan",
        )
    return EvidenceEntry(
        run=result.name,
        kind=result.kind,
        board_kind=result.board,
        verdict=result.verdict,
        vectors=result.vectors,
        proof_holds=result.proof_holds,
    )


def _origin(library: Library) -> str:
    return (
        f"Exported by harness {__version__} for board {library.subject.board.name}, bundle "
        f"{library.bundle.sha256[:16]}."
    )


def write(library: Library, form: str, path: Path, comparing: str, evidence: EvidenceEntry | None) -> ExportDocument:
    """Write the library in a form to a new folder and return its manifest.

    `comparing` is the command that compares or proves the same object on the board, `evidence` a run that did.

    ToolError if the compiler refuses the interface; RequestError if the folder cannot be written.
    """
    plan, board = library.subject.plan, library.subject.board
    facts = {"origin": _origin(library), "evidence": evidence, "comparing": comparing,
             "ran_on": board_text(evidence.board_kind) if evidence else ""}  # fmt: skip
    written = forms.texts(library, form, facts)
    files = library.sources() | written | {"LICENSE": forms.licence()}
    files[f"lib/lib{library.name}.a"] = library.archive(_interface(library, files))
    files[f"{library.name}.spdx.json"] = forms.spdx(library, files)
    memory = library.sizes
    manifest = ExportDocument(
        schema=SCHEMA,
        harness={"version": __version__, "revision": revision()},
        name=library.name,
        form=form,
        model=plan.network.name,
        model_sha256=plan.network.sha256,
        board=board.name,
        items={item.name: item.target for item in plan.items},
        block=plan.block,
        bundle=library.bundle.sha256,
        compiler=library.bundle.compiler,
        flags=list(library.bundle.flags),
        evidence=evidence,
        memory=MemoryEntry(code=memory.code, constants=memory.constants, ram=memory.ram, stack=library.stack),
        vectors=library.test.count,
        proved={name: _sha256(content) for name, content in library.proved.items()},
        files={name: _sha256(content) for name, content in sorted(files.items())},
    )
    try:
        _put(files, manifest, path)
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror}", "name a folder on another disk") from error
    return manifest


def _interface(library: Library, files: Mapping[str, bytes]) -> bytes:
    """Compile the interface by the compiler and the flags of the board and return the object."""
    compiler = toolchain.find(library.subject.board)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _write_all(files, folder)
        include = [Path("src"), *([Path("freestanding")] if (folder / "freestanding").is_dir() else [])]
        compiler.build(folder, [Path(f"src/{library.name}.c")], include, (), folder / "api.o", ("-c", "-g0"))
        return (folder / "api.o").read_bytes()


def _put(files: Mapping[str, bytes], manifest: ExportDocument, path: Path) -> None:
    """Write a folder beside `path` and rename it."""
    with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}-") as scratch:
        work = Path(scratch) / "export"
        _write_all(files, work)
        write_json(work / MANIFEST, manifest)
        work.chmod(0o755)
        work.replace(path.absolute())


def _write_all(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

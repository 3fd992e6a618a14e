"""The comparison of an application with the proved code as a kind of evidence.

runs/<time>_trace_<board>_<model>/
    application.elf  the application, byte for byte
    libraries/       the files of --library and the compiler's libgcc.a, in their order, that provide a function
    model.onnx       the model, byte for byte
    plan/            the description of the plan (harness plan -o)
    bundle/          the program, its objects, and the manifest of what they were built from
    report.html
    contained.json   written last and atomically
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.applications.trace import elf_command
from harness.applications.trace.contained_document import DOCUMENT, ContainedDocument
from harness.applications.trace.flown import Flown
from harness.applications.trace.image import Image
from harness.build import codegen
from harness.build.bundle import CALLED, MANIFEST, NETWORK, PROGRAM, Bundle, Manifest, name_of, object_of
from harness.core.document import write_json
from harness.core.file_digest import file_sha256, folder_sha256
from harness.plan import folder as plan_folder
from harness.plan import plan_check
from harness.plan.plan import Plan
from harness.runs.folder import RunFolder, now
from harness.runs.verification import bundle as rebuilding
from harness.runs.verification.claims import Claim, ContradictionError, Progress, UncheckedError, claim, require_equal
from harness.runs.verification.folder import Evidence
from harness.runs.verification.folders import PAGE, PageKind
from harness.runs.verification.verify import VerificationScope, description
from harness.targets.base import COMPILED

APPLICATION, MODEL, PLAN, BUNDLE, LIBRARIES = "application.elf", "model.onnx", "plan", "bundle", "libraries"
NOT_COMPARED = {"began", "files", "harness", "run", "run_verdict", "run_board", "proof_holds", "application"}
"""Entries that do not follow from the files of the folder: names and dates, and the verdict of another folder."""


def write(
    document: ContainedDocument, plan: Plan, built: Bundle, elf: Path, libraries: Sequence[Path], runs: Path
) -> tuple[Path, ContainedDocument]:
    """Write the evidence to a new folder under `runs`; return folder and document, which lists the files."""
    folder = RunFolder.create(runs, f"trace_{plan.board}", plan.network.name, now()).path
    (folder / "chunks").rmdir()
    shutil.copyfile(elf, folder / APPLICATION)
    (folder / MODEL).write_bytes(plan.network.onnx_bytes)
    plan_folder.write(plan, plan_check.assess(plan), folder / PLAN)
    objects = (object_of(source) for source in (NETWORK, *CALLED))
    for name in (PROGRAM, MANIFEST, *(name for name in objects if (built.folder / name).is_file())):
        (folder / BUNDLE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built.folder / name, folder / BUNDLE / name)
    used = {function.provided_by.partition("(")[0] for function in document.called}
    kept = (library for library in libraries if library.name in used or document.verdict == "differs")
    for number, library in enumerate(kept):
        (folder / LIBRARIES / str(number)).mkdir(parents=True)
        shutil.copyfile(library, folder / LIBRARIES / str(number) / library.name)
    (folder / PAGE).write_text(elf_command.html(document), encoding="utf-8")
    document = document.model_copy(update={"files": folder_sha256(folder)})
    write_json(folder / DOCUMENT, document)
    return folder, document


def _bundle(folder: Path) -> tuple[Bundle, Manifest]:
    """Return the bundle in a folder of evidence, with its manifest."""
    manifest = Manifest.read(folder / BUNDLE / MANIFEST)
    files = dict(manifest.files)
    flags = tuple(manifest.flags)
    inputs = manifest.inputs.to_json()
    return Bundle(
        folder / BUNDLE, manifest.bundle, files, manifest.compiler, flags, reused=True, inputs=inputs
    ), manifest


class ContainedEvidence(PageKind):
    """The folder of `harness trace --elf --evidence`."""

    document = DOCUMENT
    predicate = (
        "urn:harness:contained:v1",
        ("board", "model", "model_sha256", "bundle", "application_sha256", "verdict", "harness"),
    )

    def written(self, _evidence: Evidence, names: set[str]) -> set[str]:
        """Return the files of the command; other claims check those in folders."""
        folders = tuple(f"{name}/" for name in (PLAN, BUNDLE, LIBRARIES))
        return {APPLICATION, MODEL, PAGE, *(name for name in names if name.startswith(folders))}

    def claims(self, evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield the claims about plan, bundle, object and application."""
        document = ContainedDocument.read(evidence.path / DOCUMENT)
        with progress(f"application of {evidence.path.name}", 1):
            yield claim("bundle", lambda: _require_bundle(evidence.path, document))
            yield claim("object", lambda: _require_object(evidence.path))
            yield claim("contained", lambda: _require_again(evidence.path, document))
        yield claim("description", lambda: description(evidence, plan_folder.read(evidence.path / PLAN)))
        yield claim("program", lambda: _require_rebuilt(evidence, scope), needed=scope.rebuild)

    def page(self, folder: Path) -> str:
        """Return the page of a folder; RequestError if its document is damaged."""
        return elf_command.html(ContainedDocument.read(folder / DOCUMENT))


KIND = ContainedEvidence()


def _require_bundle(path: Path, document: ContainedDocument) -> str:
    """Require that plan, generated code and manifest belong together; the objects are those of the manifest."""
    plan = plan_folder.read(path / PLAN)
    stated = [document.board, document.model, document.model_sha256, document.model_sha256]
    require_equal("the plan's board and model", [plan.board, plan.network.name, plan.network.sha256,
                                                 file_sha256(path / MODEL)], stated)  # fmt: skip
    built, manifest = _bundle(path)
    sources = {
        name: sha256 for name, sha256 in built.files.items() if name != PROGRAM and not name.startswith(f"{COMPILED}/")
    }
    name = name_of(sources, manifest.compiler, manifest.flags, manifest.inputs.to_json())
    require_equal("the bundle's name", [name, manifest.bundle], [document.bundle, document.bundle])
    require_equal("the program", manifest.files[PROGRAM], document.program_sha256)
    for file, content in codegen.generate(plan).files.items():
        require_equal(f"the generated {file}", hashlib.sha256(content).hexdigest(), sources.get(file))
    for there in sorted((path / BUNDLE).rglob("*")):
        file = str(there.relative_to(path / BUNDLE))
        if there.is_file() and file != MANIFEST:
            require_equal(f"bundle/{file}", file_sha256(there), manifest.files.get(file))
    return "the plan gives the generated code of the bundle, and the manifest lists its objects"


def _require_object(path: Path) -> str:
    """Require that the program of the bundle contains the objects."""
    built, _ = _bundle(path)
    comparison = Flown(Image(path / BUNDLE / PROGRAM), built, ())
    if comparison.differences:
        raise ContradictionError(f"the program of the bundle differs from them at {comparison.differences[0].symbol}")
    return f"the program of the bundle contains network.o, {comparison.main.compared_bytes:,} bytes"


def _require_again(path: Path, document: ContainedDocument) -> str:
    """Require that the comparison has the same result again."""
    built, _ = _bundle(path)
    program = codegen.generate(plan_folder.read(path / PLAN))
    libraries = sorted((path / LIBRARIES).glob("*/*"), key=lambda library: int(library.parent.name))
    again = elf_command.compared(program, built, None, path / APPLICATION, libraries)
    wrong = [
        name
        for name in ContainedDocument.model_fields
        if name not in NOT_COMPARED and getattr(again, name) != getattr(document, name)
    ]
    if wrong:
        raise ContradictionError(f"compared again, other entries are {', '.join(wrong)}")
    return f"{document.verdict}: {document.compared_bytes:,} bytes compared again"


def _require_rebuilt(evidence: Evidence, scope: VerificationScope) -> str:
    """Check that the sources give the program of the bundle."""
    if not scope.rebuild:
        raise UncheckedError("--no-rebuild")
    document = evidence.run
    manifest = Manifest.read(evidence.path / BUNDLE / MANIFEST).to_json()
    files = {name: sha256 for name, sha256 in manifest["files"].items() if not name.startswith(f"{COMPILED}/")}
    recorded = {key: manifest[key] for key in ("compiler", "flags", "inputs")}
    run = {"bundle": recorded | {"sha256": document["bundle"], "files": files}, "harness": document["harness"]}
    of_program = replace(evidence, run=run | {"board": {"name": document["board"]}})
    with tempfile.TemporaryDirectory() as scratch:
        return rebuilding.reproduced(of_program, scope.workspace.boards, Path(scratch))

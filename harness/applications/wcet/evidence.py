"""The bounds of a program as a kind of evidence: every claim about a folder, checked again."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.applications.wcet import flow_facts
from harness.applications.wcet.bounds import Bounds, of_program
from harness.applications.wcet.document import (
    AIS,
    ASSUMPTIONS,
    BUNDLE,
    DOCUMENT,
    FFX,
    FILES,
    MODEL,
    PLAN,
    SCHEMA,
    WcetDocument,
    item_entries,
    layer_entries,
    unbounded_entries,
)
from harness.applications.wcet.job import folds_constants
from harness.boards.profile import restored
from harness.boards.workspace import Workspace
from harness.build import codegen
from harness.build.bundle import MANIFEST, PROGRAM, Manifest, compiled, name_of
from harness.core import strict_json
from harness.core.console import Console
from harness.core.document import Entries
from harness.core.errors import ToolError
from harness.core.file_digest import file_sha256
from harness.core.safe_io import read_document
from harness.plan import folder as plan_folder
from harness.plan.plan import Plan
from harness.runs.verification import bundle
from harness.runs.verification.claims import Claim, ContradictionError, Progress, UncheckedError, claim, listed
from harness.runs.verification.folder import RUN, Evidence
from harness.runs.verification.folders import PageKind, findings
from harness.runs.verification.verify import VerificationScope, description
from harness.targets.base import COMPILED


class BoundsEvidence(PageKind):
    """The folder of `harness wcet`."""

    document = DOCUMENT
    predicate = (
        "urn:harness:bounds:v1",
        ("board", "model", "model_sha256", "bundle", "program_sha256", "instructions", "harness"),
    )

    def written(self, _evidence: Evidence, names: set[str]) -> set[str]:
        """Return the files of the command; another claim checks the plan."""
        return {*FILES, *(name for name in names if name.startswith(f"{PLAN}/"))}

    def claims(self, evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
        """Yield the claims about plan, program and bounds."""
        with progress(f"bounds of {evidence.path.name}", 1):
            yield from findings("bounds", lambda: verify(evidence.path))
        yield claim("description", lambda: description(evidence, plan_folder.read(evidence.path / PLAN)))
        yield claim("program", lambda: _program(evidence, scope), needed=scope.rebuild)

    def page(self, folder: Path) -> str:
        """Return the page of the bounds in a folder; RequestError if they are damaged."""
        from harness.applications.wcet import page

        return page.html(WcetDocument.read(folder / DOCUMENT))

    def make(self, space: Workspace, board: str, model: str, options: Mapping[str, Any], console: Console) -> Path:
        """Bound the program of these options of a plan; return the folder."""
        from harness.applications.wcet.command import bounded

        return bounded(space, board, model, None, options, console)[1]


KIND = BoundsEvidence()


@dataclass(frozen=True)
class Finding:
    """A claim of the evidence, and whether it holds."""

    claim: str
    holds: bool
    finding: str


def verify(path: Path, advance: Callable[[int], object] = lambda _: None) -> Iterator[Finding]:
    """Yield the claims of the bounds in a folder, each checked again; RequestError if it has no document."""
    document = WcetDocument.read(path / DOCUMENT)
    made = plan_folder.read(path / PLAN)
    program = codegen.generate(made)
    stated = (document.board, document.model, document.model_sha256, document.model_sha256)
    same = (made.board, made.network.name, made.network.sha256, file_sha256(path / MODEL)) == stated
    yield Finding(
        "plan", same, "the plan is of this board and model" if same else "the plan is of another board or model"
    )
    yield _bundle(path, document, program)
    yield _bounds(path, document, program, advance)


def _bundle(path: Path, document: WcetDocument, program: codegen.Program) -> Finding:
    manifest = Manifest.read(path / BUNDLE / MANIFEST)
    try:
        built = compiled(program, restored(document.profile)) if document.profile else {PROGRAM}
    except (KeyError, ValueError):
        return Finding("bundle", False, "its profile is not one that this version of harness keeps")
    sources = {
        name: sha256
        for name, sha256 in manifest.files.items()
        if name not in built and not name.startswith(f"{COMPILED}/")
    }
    name = name_of(sources, manifest.compiler, manifest.flags, manifest.inputs.to_json())
    generated = {file: hashlib.sha256(content).hexdigest() for file, content in program.files.items()}
    stated = (document.bundle, document.program_sha256, document.compiler, list(document.flags))
    found = (name, file_sha256(path / BUNDLE / PROGRAM), manifest.compiler, list(manifest.flags))
    if stated != found or manifest.files[PROGRAM] != document.program_sha256:
        return Finding("bundle", False, "the manifest is of another program")
    if any(sources.get(file) != sha256 for file, sha256 in generated.items()):
        return Finding("bundle", False, "the plan gives other generated code than the bundle was built from")
    return Finding("bundle", True, "the manifest names this program, and the code that the plan gives")


def _bounds(path: Path, document: WcetDocument, program: codegen.Program, advance: Callable[[int], object]) -> Finding:
    folds = folds_constants(Manifest.read(path / BUNDLE / MANIFEST).inputs.command)
    try:
        bounds = of_program(program, path / BUNDLE / PROGRAM, advance, folds_constants=folds)
    except ToolError as error:
        return Finding("bounds", False, error.message)
    wrong = next(_wrong(path, document, bounds, program.plan), None)
    right = f"all {len(document.layers)} layers have these bounds, {document.instructions:,} instructions"
    return Finding("bounds", wrong is None, wrong or right)


def _wrong(path: Path, document: WcetDocument, bounds: Bounds, plan: Plan) -> Iterator[str]:
    """Yield what is not in accordance with the program's bounds, as they are found again."""
    again, stated, items = layer_entries(bounds), document.layers, document.items
    for layer, own in zip(stated, again, strict=False):
        if _plain(layer) != _plain(own):
            yield f"the bound of {own.name} is not that of the program"
    if len(stated) != len(again) or [*map(_plain, items)] != [*map(_plain, item_entries(again, bounds.threads))]:
        yield "the layers or items are not those of the program"
    missing = [*map(_plain, unbounded_entries(plan, items))]
    if document.schema_number == SCHEMA and [*map(_plain, document.unbounded)] != missing:
        yield "the items without a bound are not those of the plan"
    total = sum(item.instructions for item in items)
    if (total, document.machine, tuple(document.assumptions)) != (document.instructions, bounds.machine, ASSUMPTIONS):
        yield "sum, machine or assumptions are not those of the program"
    for file, text in ((FFX, flow_facts.ffx(bounds)), (AIS, flow_facts.ais(bounds))):
        if (path / file).read_text(encoding="utf-8") != text:
            yield f"{file} is not that of the program"


def _plain(entry: Entries) -> str:
    """Return an entry without its estimate as JSON."""
    return strict_json.text({key: value for key, value in entry.to_json().items() if key != "cycles"})


def _program(evidence: Evidence, scope: VerificationScope) -> str:
    """Check that the sources give the bounded program; if it cannot be built here, that no run contradicts it."""
    document = evidence.run
    manifest = Manifest.read(evidence.path / BUNDLE / MANIFEST).to_json()
    files = {name: sha256 for name, sha256 in manifest["files"].items() if not name.startswith(f"{COMPILED}/")}
    recorded = {key: manifest[key] for key in ("compiler", "flags", "inputs")}
    run = {"bundle": recorded | {"sha256": document["bundle"], "files": files}, "harness": document["harness"]}
    try:
        if not scope.rebuild:
            raise UncheckedError("--no-rebuild")  # noqa: TRY301 - runs of the bundle are compared
        with tempfile.TemporaryDirectory() as scratch:
            of_program = replace(evidence, run=run | {"board": {"name": document["board"]}})
            return bundle.reproduced(of_program, scope.workspace.boards, Path(scratch))
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

"""All claims of a run's evidence; each depends only on earlier ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from harness.boards.workspace import Workspace
from harness.core import registry
from harness.core.errors import HarnessError
from harness.operators.counters import LayerCoverage
from harness.plan import folder as plan_folder
from harness.plan import plan_check
from harness.plan.plan import Plan
from harness.runs.entries import SCHEMA
from harness.runs.verification import board, bundle, fields, folder, inputs, measured, proved, results, sources
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
from harness.runs.verification.folder import RUN, Evidence
from harness.runs.verification.measured import Measurement
from harness.runs.verification.results import Outputs
from harness.runs.verification.signature import signed

Render = Callable[[Mapping[str, Any]], Mapping[str, str]]
AFTERWARDS = ("content_sha256", "files")  # of run.json: what the reports were made without


@dataclass(frozen=True)
class VerificationScope:
    """Scope of a verification: workspace, key of the signature, share of the reference, bundle.

    `render` writes the reports of a run's document by their names, as `harness.report.reports` does.
    `emulator_key` is the fingerprint of the host key of the emulated boards of this machine, if it has any.
    """

    workspace: Workspace
    render: Render
    key: Ed25519PublicKey | None = None
    reference: Literal["all", "chunk", "none"] = "all"
    rebuild: bool = True
    emulator_key: str | None = None


def verify(evidence: Evidence, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
    """Yield every claim, as soon as it is decided."""
    yield claim("files", lambda: folder.files(evidence, progress))
    try:
        list(folder.plain(evidence.path))
    except ContradictionError as error:  # a pipe would never end, a link lead anywhere
        yield Claim("content", ClaimState.UNCHECKED, f"no other file is opened: {error}")
        return
    yield claim("content", lambda: folder.content(evidence), needed=False)
    yield claim("fields", lambda: fields.known(evidence))
    if evidence.run.get("schema") != SCHEMA:  # another version has other documents
        return
    try:
        plan, vectors = inputs.read(evidence)
    except (HarnessError, *MALFORMED) as error:
        text = f"request, plan, model or vectors cannot be read, and all other claims depend on them: {error}"
        yield Claim("plan", ClaimState.WRONG, text)
        return
    yield claim("request", lambda: inputs.request(evidence, plan))
    yield claim("board", lambda: board.board(evidence, scope.emulator_key))
    yield claim("model", lambda: inputs.model(evidence, plan.network))
    yield claim("plan", lambda: inputs.plan(evidence, plan))
    yield claim("description", lambda: description(evidence, plan))
    yield claim("vectors", lambda: inputs.vectors(evidence, vectors, plan.network, progress), needed=False)
    if evidence.measured:
        yield from _of_measurement(Measurement(evidence, plan, vectors), scope, progress)
    else:
        yield from _of_run(Outputs(evidence, plan, vectors), scope, progress)
    yield claim("sources", lambda: _sources(evidence))
    yield claim("reports", lambda: reports(evidence, scope.render))
    with tempfile.TemporaryDirectory() as scratch:
        yield claim("bundle", lambda: _bundle(evidence, scope, Path(scratch)), needed=False)
        if evidence.run.get("proof"):
            needed = _is_rebuilt(evidence, Path(scratch))
            yield claim("structure", lambda: _structure(evidence, plan, Path(scratch)), needed=needed)
    yield claim("signature", lambda: signed(evidence.path / RUN, scope.key), needed=scope.key is not None)


def _of_run(outputs: Outputs, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
    yield claim("chunks", lambda: results.cover(outputs))
    yield claim("dumps", lambda: results.again(outputs, progress))
    reference = _Reference(outputs, scope.reference, progress)
    yield claim("reference", reference.check, needed=scope.reference != "none")
    if outputs.evidence.request.get("floats") is not None or outputs.evidence.run.get("proof"):
        yield from _of_proof(outputs, scope, progress)
    yield claim("failing", lambda: results.failing(outputs))
    if results.has_labels(outputs):
        yield claim("accuracy", lambda: results.accuracy(outputs, progress))
    yield claim("verdict", lambda: results.verdict(outputs, reference.covered))


def _of_proof(outputs: Outputs, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
    evidence, plan, again = outputs.evidence, outputs.plan, scope.reference != "none"

    def answers() -> str:
        if not again:
            raise UncheckedError("--reference none")
        return proved.answers(evidence, plan, progress)

    def questions() -> str:
        proved.consistent(evidence)
        return _as_written(evidence, lambda: proved.questions(evidence, plan))

    yield claim("proof", questions)
    yield claim("answers", lambda: _as_written(evidence, answers), needed=again)


class _Reference:
    """The coverage of the vectors, known after the reference was computed over all of them."""

    def __init__(self, outputs: Outputs, how_much: str, progress: Progress) -> None:
        self._outputs, self._how_much, self._progress = outputs, how_much, progress
        self.covered: tuple[LayerCoverage, ...] | None = None

    def check(self) -> str:
        """Compute the reference again; compare its hashes, and the faulty layers and causes of the chunks."""
        if self._how_much == "none":
            raise UncheckedError("--reference none")
        found = results.recompute(self._outputs, self._how_much, self._progress)
        self.covered = found.covered
        return (
            f"computed again over {found.vectors:,} vectors by {', '.join(found.engines)}: same activations, and the "
            "chunks follow from them"
        )


def _of_measurement(subject: Measurement, scope: VerificationScope, progress: Progress) -> Iterator[Claim]:
    evidence, again = subject.evidence, scope.reference != "none"
    yield claim("measured", lambda: _as_written(evidence, lambda: measured.measured(subject)))
    for name in registry.PARTS:
        if (evidence.path / name).exists():
            yield claim(Path(name).stem, partial(registry.part(name), subject), needed=False)
    yield claim("outputs", lambda: _outputs(subject, progress, again=again), needed=again)
    yield claim("numbers", lambda: _as_written(evidence, lambda: measured.numbers(evidence, progress)))
    if evidence.run.get("against"):
        yield claim("against", lambda: measured.against(evidence), needed=False)
    yield claim("verdict", lambda: measured.verdict(evidence))


def _outputs(subject: Measurement, progress: Progress, *, again: bool) -> str:
    if not again:
        raise UncheckedError("--reference none")
    return measured.outputs(subject, progress)


def reports(evidence: Evidence, render: Render) -> str:
    """Check the reports: written again from the document, here or by its revision, they have the same bytes."""
    document = {key: value for key, value in evidence.run.items() if key not in AFTERWARDS}
    made = render(document)
    if not (others := _unlike(evidence, made)):
        return f"{', '.join(made)} follow from {evidence.name}"
    if evidence.is_of_here:
        raise ContradictionError(f"{listed(others)}: not what {evidence.name} gives")
    with tempfile.TemporaryDirectory() as scratch:
        made = bundle.reports(evidence, Path(scratch))
    if others := _unlike(evidence, made):
        raise ContradictionError(
            f"{listed(others)}: not what {_name(evidence.run['harness'])} makes of {evidence.name}"
        )
    return f"{', '.join(made)} follow from {evidence.name}, as {_name(evidence.run['harness'])} writes them"


def _unlike(evidence: Evidence, made: Mapping[str, str]) -> list[str]:
    """Return the names of the reports that are others than these; one may be missing that no list of files names."""
    listed_files = evidence.run.get("files", {})
    there = [name for name in made if name in listed_files or (evidence.path / name).exists()]
    return [name for name in there if (evidence.path / name).read_text(encoding="utf-8") != made[name]]


def _as_written(evidence: Evidence, check: Callable[[], str]) -> str:
    """Return the check; differences from texts or statistics of another version are no contradiction."""
    try:
        return check()
    except ContradictionError as error:
        if evidence.is_of_here:
            raise
        raise UncheckedError(f"{error}; it was written by {_name(evidence.run['harness'])}") from error


def _name(harness: Mapping[str, Any]) -> str:
    return f"harness {harness['version']} ({harness['revision']})"


def description(evidence: Evidence, plan: Plan) -> str:
    """Check the plan's folder, written again here, or by the run's revision if this one words it otherwise."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch) / "here"
        plan_folder.write(plan, plan_check.assess(plan), here)
        try:
            return inputs.description(evidence, here)
        except ContradictionError:
            if evidence.is_of_here:
                raise
        return inputs.description(evidence, bundle.description(evidence, Path(scratch)))


def _sources(evidence: Evidence) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        return sources.same(evidence, Path(scratch))


def _bundle(evidence: Evidence, scope: VerificationScope, scratch: Path) -> str:
    if not scope.rebuild:
        raise UncheckedError("--no-rebuild")
    return bundle.reproduced(evidence, scope.workspace.boards, scratch)


def _is_rebuilt(evidence: Evidence, scratch: Path) -> bool:
    """Return whether the program that ran was built again in `scratch`."""
    with suppress(UncheckedError, *MALFORMED):
        return bundle.program(evidence, scratch).is_file()
    return False


def _structure(evidence: Evidence, plan: Plan, scratch: Path) -> str:
    """Check the claims about the program's file, if the bundle could be built again in `scratch`."""
    program = bundle.program(evidence, scratch)
    return _as_written(evidence, lambda: proved.structured(evidence, plan, program))

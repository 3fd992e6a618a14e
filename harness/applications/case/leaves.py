"""The leaves of an assurance case: what a folder or file of evidence shows, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.applications.case.entries import LeafEntry, Origin
from harness.boards.identity import EMULATED, HARDWARE, THIS_MACHINE, VIRTUAL
from harness.core import registry, strict_yaml
from harness.core.errors import RequestError
from harness.core.file_digest import file_sha256
from harness.core.outcome import Outcome
from harness.core.safe_io import parse_json, read_document
from harness.plan import folder as plan_folder
from harness.plan.plan import Plan
from harness.runs.entries import AnyDocument
from harness.runs.facts import where_it_ran
from harness.runs.verification.claims import ContradictionError
from harness.runs.verification.folder import RUN, plain

DECIDE, WCET, CONTAINED = "decide.json", "wcet.json", "contained.json"
RUN_KIND, HYBRID, MEASUREMENT, BOUNDS, APPLICATION = "run", "hybrid", "measurement", "bounds", "application"
DECISION, CERTIFICATE, FILE = "decision", "certificate", "file"
OF_A_PLAN = (RUN_KIND, HYBRID, MEASUREMENT, BOUNDS, APPLICATION)
"""Kinds of leaves that have a plan and a bundle."""
DECISIONS = (DECISION, CERTIFICATE)
DOCUMENTS = (RUN, WCET, DECIDE, CONTAINED)
REAL: tuple[Origin, ...] = ("hardware", "this machine")
"""Origins where every item ran on the board itself."""
ORDER: tuple[Origin, ...] = (*REAL, "analysis", "file", "simulation", "emulation")
"""Origins from the strongest to the weakest."""


@dataclass(frozen=True)
class Leaf:
    """A leaf: its folder or file, its document (None for a file that is no document), and its entry in `case.json`."""

    path: Path
    entry: LeafEntry
    document: Any

    @property
    def name(self) -> str:
        """Return the name of the folder or file."""
        return self.path.name

    @property
    def subject_sha256(self) -> str | None:
        """Return the SHA-256 of the network that the evidence is about; None for a file."""
        return self.entry.network_sha256 or self.entry.model_sha256

    @property
    def is_real(self) -> bool:
        """Return whether every item ran on the board itself."""
        return self.entry.origin in REAL

    def plan(self) -> Plan:
        """Read the plan of the folder; RequestError if it is damaged."""
        return plan_folder.read(self.path / "plan")


def layout(plan: Plan) -> tuple[Any, ...]:
    """Return the items with their targets, and the item of each task: equal for evidence about one program."""
    items = tuple((item.name, item.target) for item in plan.items)
    return items, tuple(sorted((task.name, task.item) for task in plan.tasks))


def read(path: Path, case: Path, *, with_files: bool = True) -> Leaf:
    """Return the leaf at `path` of a case in folder `case`; RequestError if it is no finished evidence or damaged.

    Without files, only its document is hashed, which is sufficient to choose evidence.
    """
    try:
        if path.is_file():
            return _of_file(path, case)
        name = next((name for name in DOCUMENTS if (path / name).is_file()), None)
        if name is None:
            missing = "it has none of " + ", ".join(DOCUMENTS)
            raise RequestError(f"{path}: no finished evidence: {missing}", "name a finished folder under runs/")
        document = read_document(path / name)
        readers = {RUN: _of_run, WCET: _of_bounds, DECIDE: _of_decision, CONTAINED: _of_application}
        entry = readers[name](document)
        files = {each: file_sha256(path / each) for each in (sorted(plain(path)) if with_files else [name])}
        common = {"path": os.path.relpath(path, case), "sha256": files[name], "files": files}
        return Leaf(path, LeafEntry.from_json(common | entry[0]), entry[1])
    except (ContradictionError, OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise RequestError(f"{path}: cannot be read as evidence: {error}", "see harness verify") from error


def _of_run(content: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    run = AnyDocument.view(content)
    simulated = tuple(item for item in run.plan.items if item.ran_on != HARDWARE)
    board, origin = run.board.kind, "simulation" if simulated else "hardware"
    if board in {EMULATED, VIRTUAL}:
        origin = "emulation"
    elif board == THIS_MACHINE and not simulated:
        origin = "this machine"
    places = "; ".join(f"item {item.name}: {item.ran_on}" for item in simulated)
    where = where_it_ran(board, simulated) + (f" ({places})" if places else "")
    inner = architecture(run)
    kind = MEASUREMENT if run.kind == "measure" else HYBRID if inner else RUN_KIND
    entry = _entry(kind, run.harness.revision, run.board.name, run.finished)
    entry |= {"model_sha256": run.model.sha256, "bundle": run.bundle.sha256, "origin": origin, "where": where}
    return entry | {"network_sha256": inner.get("model_sha256")}, run


def architecture(run: Any) -> Mapping[str, Any]:
    """Return what the model of a run states of its check module and safety net; empty for a plain network."""
    stated = parse_json((run.model.metadata or {}).get("architecture", "{}"))
    return stated if isinstance(stated, dict) else {}


def _of_bounds(content: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    found = registry.document("wcet").view(content)
    entry = _entry(BOUNDS, found.harness.revision, found.board, found.began)
    where = f"from the machine code of {found.machine}, without a board"
    return entry | {"model_sha256": found.model_sha256, "bundle": found.bundle, "where": where}, found


def _of_application(content: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    document = registry.document("contained").view(content)
    entry = _entry(APPLICATION, document.harness.get("revision"), document.board, document.began)
    where = f"from the file of the application, {document.machine}, without a board"
    return entry | {"model_sha256": document.model_sha256, "bundle": document.bundle, "where": where}, document


def _of_decision(content: Mapping[str, Any], kind: str = DECISION) -> tuple[dict[str, Any], Any]:
    any_decision = AnyDecision(content)
    entry = _entry(kind, content["harness"].get("revision"), "", str(content["began"]))
    where = "on processors, without a board" + (
        "; a certificate, whose slabs were not decided again" if kind == CERTIFICATE else ""
    )
    return entry | {"model_sha256": any_decision.model["sha256"], "where": where}, any_decision


def _of_file(path: Path, case: Path) -> Leaf:
    common = {"path": os.path.relpath(path, case), "sha256": file_sha256(path), "files": {}}
    if path.suffix == ".json":
        entry, document = _of_decision(read_document(path), CERTIFICATE)
        return Leaf(path, LeafEntry.from_json(common | entry), document)
    return Leaf(path, LeafEntry.from_json(common | _entry(FILE, None, "", "") | {"where": "a file of the model"}), None)


def _entry(kind: str, revision: str | None, board: str, date: str) -> dict[str, Any]:
    origin = "file" if kind == FILE else "analysis"
    found = {"kind": kind, "revision": revision, "board": board, "date": date, "origin": origin}
    return found | {"model_sha256": None, "network_sha256": None, "bundle": None}


class AnyDecision:
    """The entries of a decision that both methods have; LookupError or ValueError for another document."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        self.model, self.property, self.counts = content["model"], content["property"], content["counts"]
        self.boxes, self.code_vectors = content["partition"]["boxes"], content["partition"]["code_vectors"]
        self.safe, self.violated, self.undecided = (self.counts[key] for key in ("safe", "violated", "undecided"))
        if self.safe + self.violated + self.undecided != self.boxes:
            raise ValueError("the counts are not those of the boxes")


@dataclass(frozen=True)
class Role:
    """A role of evidence: the kinds of leaves that can have it, and whether a leaf shows it.

    `shows` returns True, False for evidence of the opposite, and None for a leaf without such a statement.
    """

    kinds: tuple[str, ...]
    shows: Callable[[Leaf], bool | None]


def _optional(found: Any, value: Callable[[Any], bool]) -> bool | None:
    return None if found is None else value(found)


def _real(role: Callable[[Leaf], bool | None]) -> Callable[[Leaf], bool | None]:
    """Return a role that only evidence of the board itself can have."""
    return lambda leaf: role(leaf) if leaf.is_real else None


def _identical(leaf: Leaf) -> bool | None:
    """Return whether every bit was compared and equal; None for layers that are only bounded."""
    return {Outcome.IDENTICAL: True, Outcome.DIFFERS: False}.get(leaf.document.verdict)


def _met(leaf: Leaf) -> bool | None:
    """Return whether the readings are MET; None for other readings."""
    measured = leaf.document.measured
    return None if measured.unit != "ns" or measured.not_met_because else _measured(leaf)


def _measured(leaf: Leaf) -> bool | None:
    """Return whether the outputs were right; None for a measurement without a result."""
    if leaf.document.outputs.differing:
        return False
    return True if leaf.document.verdict == Outcome.MEASURED else None


def _bounds_all(leaf: Leaf) -> bool | None:
    plan = leaf.plan()
    return True if {item.name for item in leaf.document.items} == {item.name for item in plan.items} else None


def _composed(leaf: Leaf) -> bool:
    found = leaf.document.assessment
    return bool(found.sound and found.equivalence.equal and not any(check.counterexamples for check in found.checks))


ROLES: Mapping[str, Role] = {
    "comparison": Role((RUN_KIND,), _identical),
    "real_comparison": Role((RUN_KIND,), _real(_identical)),
    "proof": Role((RUN_KIND,), lambda leaf: _optional(leaf.document.proof, lambda proof: bool(proof.holds))),
    "traces": Role((RUN_KIND,), lambda leaf: _optional(leaf.document.conformance, lambda one: bool(one.conforms))),
    "composition": Role((RUN_KIND,), _composed),
    "reference": Role((RUN_KIND,), lambda leaf: True if leaf.document.reference.agreement else None),
    "program": Role((RUN_KIND,), lambda leaf: True if leaf.document.bundle.inputs else None),
    "application": Role((APPLICATION,), lambda leaf: leaf.document.verdict == "contained"),
    "measurement": Role((MEASUREMENT,), _measured),
    "met": Role((MEASUREMENT,), _real(_met)),
    "bounds": Role((BOUNDS,), lambda _: True),
    "all_bounds": Role((BOUNDS,), _bounds_all),
    "decision": Role(DECISIONS, lambda leaf: None if leaf.document.undecided else True),
    "no_violation": Role(DECISIONS, lambda leaf: None if leaf.document.violated else True),
    "safety_net": Role((HYBRID,), _identical),
    "property": Role((FILE,), lambda leaf: True if leaf.name.endswith(PROPERTY_SUFFIX) else None),
    "table": Role((FILE,), lambda leaf: True if leaf.path.suffix == ".npz" else None),
}
PROPERTY_SUFFIX = ".property.yaml"
FINDINGS = ("comparison", "proof", "traces", "composition")
"""Roles of a run whose answers about one program must agree."""


def evidence_of(role: str, leaves: Mapping[str, Leaf]) -> tuple[Leaf, bool] | None:
    """Return the leaf that has the role, and whether it shows it; None if there is none.

    A leaf that shows the opposite comes first, so that it is never hidden by others.  Then the board itself comes
    before simulations and emulations, and newer evidence before older.
    """
    wanted = ROLES[role]
    of_kind = ((leaf, wanted.shows(leaf)) for leaf in leaves.values() if leaf.entry.kind in wanted.kinds)
    found = [(leaf, shown) for leaf, shown in of_kind if shown is not None]
    found.sort(key=lambda each: (each[0].entry.date, each[0].name), reverse=True)
    return min(found, key=lambda each: (each[1], ORDER.index(each[0].entry.origin)), default=None)


def contradictions(leaves: Mapping[str, Leaf]) -> Iterator[tuple[str, str]]:
    """Yield each leaf that contradicts another, with the reason: about one program, one shows what another refutes."""
    answers: dict[tuple[Any, ...], dict[bool, list[str]]] = {}
    for leaf in leaves.values():
        if leaf.entry.kind == RUN_KIND:
            for role in FINDINGS:
                if (shown := ROLES[role].shows(leaf)) is not None:
                    program = (leaf.entry.model_sha256, leaf.entry.bundle, role)
                    answers.setdefault(program, {}).setdefault(shown, []).append(leaf.name)
    for (*_, role), found in answers.items():
        for refuting in found.get(False, ()):
            for showing in found.get(True, ()):
                yield refuting, f"{role}: refutes what {showing} shows of the same program"
                yield showing, f"{role}: shows what {refuting} refutes of the same program"
    decided = {one.document.content.get("decisions_sha256") for one in leaves.values() if one.entry.kind in DECISIONS}
    for leaf in leaves.values():
        if leaf.entry.kind == HYBRID and decided and architecture(leaf.document).get("decisions_sha256") not in decided:
            yield leaf.name, "the boxes of its check module are those of another decision"


def files_of_model(model: Path) -> list[Path]:
    """Return the property of a model and the table that it names, those that are there."""
    stated = model.with_name(f"{model.stem}{PROPERTY_SUFFIX}")
    found = [stated]
    with suppress(OSError, UnicodeDecodeError, RequestError, AttributeError):
        named = strict_yaml.load(stated.read_text(encoding="utf-8"), stated)
        found += [stated.parent / str(named["table"])] if named.get("table") else []
    return [path for path in found if path.is_file()]

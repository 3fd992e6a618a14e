"""Checks of a proof: it asked all questions, and its answers are those of the specification."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analysis import proof
from harness.analysis.proof import Question, Side, Subject, composition, effort_of, launches, races, structure
from harness.analysis.proof.document import asked as asked_entries
from harness.analysis.proof_document import SCHEMA
from harness.build import codegen
from harness.core.errors import BoardError
from harness.core.file_digest import file_sha256
from harness.execution import fp_environment
from harness.plan.plan import Plan
from harness.reference import SpecificationReference
from harness.runs.folder import RunFolder
from harness.runs.verification import fields
from harness.runs.verification.claims import ContradictionError, Progress, UncheckedError, listed, require_equal
from harness.runs.verification.folder import Evidence

PROOF = "proof.json"


def consistent(evidence: Evidence) -> Mapping[str, Any]:
    """Check whether all claims of the proof hold; another check compares the verdict."""
    found = RunFolder(evidence.path).read_proof()
    if found is None:
        raise ContradictionError(f"a proof was asked for, and there is no {PROOF}")
    if evidence.request["floats"] is None:
        raise ContradictionError(f"request.json asks for no proof, and there is a {PROOF}")
    if unknown := fields.unknown_entries({"proof": found}, fields.RUNS):
        raise ContradictionError(f"{PROOF} has entries that this version does not know: {listed(unknown)}")
    silent = {layer["name"] for layer in evidence.run["layers"]} - {claim["layer"] for claim in found["claims"]}
    if silent:
        raise ContradictionError(f"{PROOF} claims nothing of {listed(silent)}")
    contradicted = [claim for claim in found["claims"] if claim["holds"] is bool(claim["counterexample"])]
    if contradicted:
        raise ContradictionError(f"{PROOF}: a claim holds and has a counterexample: {contradicted[0]['statement']}")
    if found["holds"] is not all(claim["holds"] for claim in found["claims"]):
        raise ContradictionError(f"{PROOF} says `holds` {found['holds']}, and its claims say otherwise")
    return found


def questions(evidence: Evidence, plan: Plan) -> str:
    """Check that the claims answer all questions about the plan, with the right assumptions."""
    found, request = consistent(evidence), evidence.request
    if found["schema"] != SCHEMA:
        raise UncheckedError(f"{PROOF} is of schema {found['schema']}, this version asks the questions of {SCHEMA}")
    with tempfile.TemporaryDirectory() as scratch:
        wanted = [asked_entries(question).to_json() for question in _asked(evidence, plan, Path(scratch))]
    said = [{key: claim.get(key) for key in wanted[0]} for claim in found["claims"]]
    require_equal(f"{PROOF}, claims,", said, wanted)
    ran_on = [item["ran_on"] for item in evidence.run["plan"]["items"]]
    taken = proof.of_plan(plan, ran_on, all_floats=request["floats"] == "all")
    taken += composition.untried(claim.get("observed") for claim in found["claims"])
    require_equal(f"{PROOF}, assumptions,", found["assumptions"], taken)
    return f"{len(wanted)} claims under {len(taken)} assumptions are all the questions about this plan"


def _require_environment(found: Mapping[str, Any], plan: Plan) -> None:
    """Require that the threads of all items computed in the standard floating-point environment."""
    try:
        reported = fp_environment.parse(found["fp_environment"])
    except BoardError as error:
        raise ContradictionError(f"{PROOF}: {error.message}") from error
    items = sorted({each.item for each in reported})
    require_equal(f"{PROOF}, fp_environment, items,", items, sorted(item.name for item in plan.items))


def answers(evidence: Evidence, plan: Plan, progress: Progress) -> str:
    """Check that the answers to each claim that holds have the hash of the right answers, computed again."""
    found = consistent(evidence)
    if any("answers_sha256" not in claim for claim in found["claims"]):
        raise UncheckedError(f"{PROOF} has no hashes of them: written by an older version")
    _require_environment(found, plan)
    with tempfile.TemporaryDirectory() as scratch:
        pairs = list(zip(found["claims"], _asked(evidence, plan, Path(scratch)), strict=True))
        board = [pair for pair in pairs if pair[1].side is Side.BOARD and pair[0]["holds"]]
        with progress("computing the proof's answers again, questions", len(board)) as bar:
            for claim, question in board:
                right = question.ask().answers_sha256
                require_equal(f"{PROOF}, {claim['statement']}, answers_sha256", claim["answers_sha256"], right)
                bar.advance(1)
    return f"the answers of the program to {len(board)} claims are right, computed again"


def _asked(evidence: Evidence, plan: Plan, scratch: Path) -> Sequence[Question]:
    request = evidence.request
    ran_on = [item["ran_on"] for item in evidence.run["plan"]["items"]]
    return asked(plan, request["seed"], ran_on, all_floats=request["floats"] == "all", scratch=scratch)


def asked(plan: Plan, seed: int, ran_on: Sequence[str], *, all_floats: bool, scratch: Path) -> Sequence[Question]:
    """Return all questions of a proof in their order, without a program; `scratch` is a folder for their files."""
    wanted = effort_of(ran_on, plan.network)
    vectors = composition.seeded(plan.network, seed, wanted)
    right = SpecificationReference(plan.network).activations(vectors)
    program = codegen.generate(plan)
    extents = [wanted.extent(task.item, all_floats=all_floats) for task in plan.tasks]
    stages = proof.questions(Subject.of(program, None), extents)
    parts = launches.questions(program, None, vectors, right, wanted)
    whole = composition.questions(plan, None, vectors, right, 0.0, scratch, wanted)
    asked = [*structure.questions(program, None), *stages, *parts, *whole, races.question(program, None)]
    return proof.in_order(asked)


def structured(evidence: Evidence, plan: Plan, program: Path) -> str:
    """Check again the claims about the file of the program, which was built again."""
    said = [claim for claim in consistent(evidence)["claims"] if claim["answered_by"] == Side.FILE.value]
    if not said:
        raise UncheckedError(f"{PROOF} claims nothing of the program's file: written by an older version")
    asked_again = structure.questions(codegen.generate(plan), (program, file_sha256(program)))
    for claim, question in zip(said, asked_again, strict=True):
        again = question.ask()
        found = [again.counterexample or None, again.answers_sha256 if again.holds else None]
        recorded = [claim["counterexample"], claim["answers_sha256"]]
        require_equal(f"{PROOF}, {claim['statement']}, counterexample and hash", recorded, found)
    return f"{len(said)} claims about the program's file follow again from its machine code"

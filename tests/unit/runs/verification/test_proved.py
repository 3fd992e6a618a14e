"""Verify the document of a proof; tests/integration/analysis/proof tests the answers of programs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.analysis import proof
from harness.analysis.proof.argument import Proof
from harness.boards.profile import Profile
from harness.plan import planner
from harness.plan.plan import Plan
from harness.runs.folder import RunFolder
from harness.runs.verification import proved
from harness.runs.verification.claims import ContradictionError, UncheckedError
from harness.runs.verification.folder import Evidence
from tests.support import builders
from tests.support.programs.board_program import parse

NET = parse(builders.random_network(np.random.default_rng(5), (4, 6, 3), argmax=True))
RAN_ON = ["hardware", "hardware"]
ENVIRONMENT = [
    {"item": item, "register": "MXCSR", "before": "0x1f80", "after": "0x1fa0"} for item in ("network", "prepost")
]


@contextlib.contextmanager
def no_bar(_what: str, _total: int) -> Iterator[Any]:
    yield dataclasses.make_dataclass("Silent", [], namespace={"advance": lambda _self, _steps: None})()


@pytest.fixture(scope="module")
def made(host: Profile) -> Plan:
    return planner.make(NET, host)


@pytest.fixture(scope="module")
def document(made: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a right program would have answered; the reference's side is not asked."""
    folder = tmp_path_factory.mktemp("proof")
    asked = proved.asked(made, 1, RAN_ON, all_floats=False, scratch=folder)
    claims = (q.ask() if q.side is proof.Side.BOARD else proof.Claim(q, "", 0.0) for q in asked)
    taken = proof.of_plan(made, RAN_ON, all_floats=False)
    found: dict[str, Any] = json.loads(json.dumps(proof.document(Proof(tuple(claims)), taken, ENVIRONMENT, 1.0)))
    return found


def evidence(folder: Path, document: dict[str, Any]) -> Evidence:
    kept = RunFolder.create_at(folder / "run")
    kept.write_request({"request": {"floats": "thresholds", "seed": 1}}, b"")
    kept.write_proof(document)
    items = [{"ran_on": where} for where in RAN_ON]
    layers = [{"name": layer.name} for layer in NET.layers]
    return Evidence(kept.path, {"plan": {"items": items}, "layers": layers})


def checked(folder: Path, document: dict[str, Any], made: Plan) -> list[str]:
    found = evidence(folder, document)
    proved.consistent(found)
    return [proved.questions(found, made), proved.answers(found, made, no_bar)]


@pytest.mark.slow
def test_a_proof_follows_again(tmp_path: Path, document: dict[str, Any], made: Plan) -> None:
    claims = document["claims"]
    board = [claim for claim in claims if claim["answered_by"] == "program"]
    assert all(claim["answers_sha256"] for claim in board)
    assert len({claim["answers_sha256"] for claim in board}) > len(board) / 2, "hashes of what was answered"
    asked, answered = checked(tmp_path, document, made)
    assert asked.startswith(f"{len(claims)} claims under")
    assert f"to {len(board)} claims are right" in answered


def first_of_board(document: dict[str, Any]) -> dict[str, Any]:
    return next(claim for claim in document["claims"] if claim["answered_by"] == "program")


FORGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "nothing claimed": (lambda d: d.update(claims=[]), "claims nothing of"),
    "a claim left out": (lambda d: d["claims"].pop(3), "claims, says"),
    "a claim added": (lambda d: d["claims"].append(d["claims"][0]), "claims, says"),
    "more cases": (lambda d: d["claims"][2].update(cases=10**9), r"\[2\].cases is 1000000000"),
    "samples called complete": (lambda d: d["claims"][-1].update(complete=True), "complete is true"),
    "another method": (lambda d: d["claims"][2].update(method="by looking"), r"method is \"by looking\""),
    "an assumption left out": (lambda d: d["assumptions"].pop(), "assumptions, says"),
    "another answer": (lambda d: first_of_board(d).update(answers_sha256="0" * 64), "answers_sha256 says"),
    "no answer": (lambda d: first_of_board(d).update(answers_sha256=None), "answers_sha256 says"),
    "an item without environment": (lambda d: d["fp_environment"].pop(), r"fp_environment, items, says \[1\] is null"),
    "a counterexample that holds": (lambda d: d["claims"][1].update(counterexample="7"), "has a counterexample"),
    "a failure that holds": (lambda d: d["claims"][1].update(holds=False, counterexample="7"), "claims say otherwise"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", FORGED)
def test_what_was_made_of_a_proof_is_found(tmp_path: Path, document: dict[str, Any], made: Plan, how: str) -> None:
    forge, words = FORGED[how]
    forged = json.loads(json.dumps(document))
    forge(forged)
    with pytest.raises(ContradictionError, match=words):
        checked(tmp_path, forged, made)


def test_a_claim_that_fails_has_no_answers_to_check(tmp_path: Path, document: dict[str, Any], made: Plan) -> None:
    failed = json.loads(json.dumps(document))
    failed["holds"] = False
    first_of_board(failed).update(holds=False, counterexample="7 became 8", answers_sha256=None)
    checked(tmp_path, failed, made)


def test_answers_that_were_not_hashed_are_not_checked(tmp_path: Path, document: dict[str, Any], made: Plan) -> None:
    old = json.loads(json.dumps(document))
    for claim in old["claims"]:
        del claim["answers_sha256"]
    with pytest.raises(UncheckedError, match="written by an older version"):
        checked(tmp_path, old, made)


def test_a_proof_that_was_asked_for_is_there(tmp_path: Path, document: dict[str, Any]) -> None:
    found = evidence(tmp_path, document)
    (found.path / "proof.json").unlink()
    with pytest.raises(ContradictionError, match=r"there is no proof\.json"):
        proved.consistent(found)


def test_a_proof_that_nobody_asked_for_is_found(tmp_path: Path, document: dict[str, Any]) -> None:
    found = evidence(tmp_path, document)
    found.request["floats"] = None
    with pytest.raises(ContradictionError, match="asks for no proof, and there is a proof"):
        proved.consistent(found)

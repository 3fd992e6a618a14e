"""The argument as a whole: which questions, in which order, on which side; failures and interrupts; the document."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading

import numpy as np
import pytest

from harness.analysis import proof
from harness.analysis.proof import Claim, Proof, ProofStep, Question, Side
from harness.analysis.proof.claims import Note
from harness.core.errors import BoardError, ReferenceFailed
from harness.model.network import Network
from harness.operators.obligations import Extent
from tests.support import builders
from tests.support.programs.board_program import Patch, parse
from tests.support.proof.trials import Workshop

CHAIN = parse(builders.random_network(np.random.default_rng(1), (5, 6, 4), argmax=True, zero_points=True))
UINT8 = parse(
    builders.random_network(np.random.default_rng(2), (3, 1, 9), weights="uint8", zero_points=True, dequantize=True)
)
INT8 = parse(
    builders.random_network(
        np.random.default_rng(3), (1, 8, 7), activations="int8", alpha=0.7, transposed=True, argmax=True
    )
)
FLOAT = parse(
    builders.random_network(np.random.default_rng(4), (4, 5), float_output=True, per_column=True, argmax=True)
)
RESIDUAL = parse(builders.random_network(np.random.default_rng(5), (4, 6, 5), residual=2, argmax=True))
TIES = parse(builders.random_network(np.random.default_rng(6), (4, 6, 5), power_of_two=True, zero_points=True))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("net", [CHAIN, UINT8, INT8, FLOAT, RESIDUAL, TIES])
def test_nothing_is_said_against_a_right_program_whose_answers_can_be_computed_again(
    workshop: Workshop, net: Network
) -> None:
    trial = workshop.trial(net)
    claims = [question.ask() for question in trial.questions()]
    assert [claim.counterexample for claim in claims if not claim.holds] == []
    again = [question.ask().answers_sha256 for question in trial.asking(None)]
    assert [claim.answers_sha256 for claim in claims] == again
    assert hashlib.sha256().hexdigest() not in again, "every answer is in its hash"


def test_each_part_of_a_split_layer_is_proved_by_itself(workshop: Workshop) -> None:
    split = ["layer_0=prepost+network"]
    right = workshop.trial(CHAIN, split=split)
    assert {question.layer for question in right.questions()} == {
        None, "quantize", "layer_0_0", "layer_0_1", "layer_1", "advisory",
    }  # fmt: skip
    assert right.refuted() == {}
    shifted = workshop.trial(CHAIN, change=lambda layer: dataclasses.replace(layer, bias=layer.bias + 1), split=split)
    assert {layer for step, layer in shifted.refuted() if step is ProofStep.ACCUMULATION} == {
        "layer_0_0", "layer_0_1", "layer_1",
    }  # fmt: skip


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("&out[3], in[1]", "&out[2], in[1]"),
        ("&out[0], in[0], 3", "&out[0], in[0], 2"),
        ("&out[0], in[0]", "&out[0], in[1]"),
        ("/* by item prepost */", "out[1] = 7;"),
    ],
)
def test_a_column_that_is_not_brought_to_its_place_is_found(workshop: Workshop, old: str, new: str) -> None:
    """Whole runs would not tell if its activation were always the same."""
    merged = workshop.trial(CHAIN, [Patch("network.c", old, new)], split=["layer_0=prepost+network"])
    assert list(merged.refuted()) == [(ProofStep.COMPOSITION, "layer_1")]


def test_every_step_has_its_questions_in_order(workshop: Workshop) -> None:
    asked = proof.in_order(proof.questions(workshop.trial(RESIDUAL).subject, Extent(all_floats=True)))
    order = [list(ProofStep).index(question.step) for question in asked]
    assert order == sorted(order)
    by_layer = {
        layer.name: [(question.step, question.side) for question in asked if question.layer == layer.name]
        for layer in RESIDUAL.layers
    }
    board, reference = Side.BOARD, Side.REFERENCE
    rounded = [(ProofStep.QUANTIZATION, side) for side in (reference, *[board] * 5)]
    summed = [*((ProofStep.ACCUMULATION, side) for side in (reference, board, board, board))]
    summed += [(ProofStep.REQUANTIZATION, side) for side in (reference, board, board)]
    by_operator = {"QuantizeLinear": rounded, "QGemm": summed, "Add": [(ProofStep.OTHERS, board)] * 2}
    assert by_layer == {
        layer.name: by_operator.get(layer.operator, [(ProofStep.OTHERS, board)]) for layer in RESIDUAL.layers
    }
    assert [question.step for question in asked if question.layer is None] == [ProofStep.CONSTANTS] * 2


def question(side: Side, answer: str | Exception = "", *, cases: int = 1, complete: bool = True) -> Question:
    """Of which the answer is given here."""

    def give(_: Note) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Question(ProofStep.OTHERS, side, "layer", "it is so", "by asking", cases, complete, give)


def ignore(*_: object) -> None:
    pass


def test_claims_come_in_the_order_of_the_questions() -> None:
    made: list[int] = []
    asked = [question(side, cases=cases) for cases, side in enumerate([Side.BOARD, Side.REFERENCE] * 4, start=1)]
    proved = proof.prove(asked, lambda number, _: made.append(number), ignore)
    assert [claim.question for claim in proved.claims] == asked
    assert sorted(made) == list(range(8))
    assert proved.holds


def test_one_counterexample_refutes_the_whole() -> None:
    asked = [question(Side.BOARD), question(Side.BOARD, "here"), question(Side.BOARD), question(Side.REFERENCE)]
    proved = proof.prove(asked, ignore, ignore)
    assert not proved.holds
    assert [claim.holds for claim in proved.claims] == [True, False, True, True]


def test_a_claim_that_was_only_sampled_is_incomplete() -> None:
    asked = [question(Side.BOARD), question(Side.BOARD, complete=False)]
    assert [claim.question for claim in proof.prove(asked, ignore, ignore).incomplete] == asked[1:]


def test_a_reference_that_contradicts_itself_is_no_fault_of_the_board() -> None:
    asked = [question(Side.BOARD), question(Side.REFERENCE, "column 3"), question(Side.BOARD)]
    with pytest.raises(ReferenceFailed, match="the claim 'it is so' does not hold: column 3"):
        proof.prove(asked, ignore, ignore)


@pytest.mark.parametrize("side", list(Side))
def test_after_a_failure_the_rest_is_abandoned(side: Side) -> None:
    """What waits is not asked, and what runs is told."""
    abandoned, later = threading.Event(), []
    other = Side.BOARD if side is Side.REFERENCE else Side.REFERENCE

    def wait(_: Note) -> str:
        assert abandoned.wait(30)
        raise BoardError("interrupted")

    def count(_: Note) -> str:
        later.append(1)
        return ""

    running = dataclasses.replace(question(other), answer=wait)
    waiting = dataclasses.replace(question(other), answer=count)
    with pytest.raises(BoardError, match="it burns"):
        proof.prove([question(side, BoardError("it burns")), running, waiting], ignore, abandoned.set)
    assert abandoned.is_set()
    assert later == []


def test_the_first_failure_ends_the_proof_whatever_runs_before_it() -> None:
    abandoned = threading.Event()

    def wait(_: Note) -> str:
        assert abandoned.wait(30)
        raise BoardError("interrupted")

    running = dataclasses.replace(question(Side.BOARD), answer=wait)
    with pytest.raises(BoardError, match="it burns"):
        proof.prove([running, question(Side.SANITIZER, BoardError("it burns"))], ignore, abandoned.set)


def test_what_is_known_is_not_asked_again() -> None:
    asked = [question(side, cases=cases) for cases, side in enumerate([Side.BOARD, Side.REFERENCE] * 2, start=1)]
    never = [dataclasses.replace(each, answer=lambda _: pytest.fail("asked again")) for each in asked]
    known = {number: proof.Claim(never[number], "", 1.0) for number in (0, 3)}
    made: list[int] = []
    given = [never[0], asked[1], asked[2], never[3]]
    proved = proof.prove(given, lambda number, _: made.append(number), ignore, known)
    assert [claim.question for claim in proved.claims] == given
    assert sorted(made) == [1, 2]


@pytest.mark.parametrize("counterexample", ["", "column 3"])
def test_a_claim_is_that_of_its_entry(counterexample: str) -> None:
    asked = question(Side.BOARD, counterexample)
    entry = proof.claim_document(asked.ask())
    found = proof.claim_of(asked, json.loads(json.dumps(entry)))
    assert (found.question, found.counterexample) == (asked, counterexample)
    assert proof.claim_document(found) == entry
    with pytest.raises(ValueError, match="the claim is not about 'it is so'"):
        proof.claim_of(dataclasses.replace(asked, cases=2), entry)
    with pytest.raises(ValueError, match="statement"):
        proof.claim_of(asked, {key: value for key, value in entry.items() if key != "statement"})


def test_all_sides_are_asked_at_the_same_time() -> None:
    meeting = threading.Barrier(len(Side))

    def meet(_: Note) -> str:
        meeting.wait(30)
        return ""

    asked = [dataclasses.replace(question(side), answer=meet) for side in Side]
    assert proof.prove(asked, ignore, ignore).holds


def test_the_reference_does_not_go_on_after_it_is_abandoned(workshop: Workshop) -> None:
    subject = workshop.trial(CHAIN).subject
    asked = next(
        question
        for question in proof.questions(subject, Extent(all_floats=True))
        if (question.side, question.step) == (Side.REFERENCE, ProofStep.QUANTIZATION)
    )
    assert asked.cases == 2**32
    threading.Timer(0.2, subject.abandon).start()
    with pytest.raises(ReferenceFailed, match="was not tried to the end"):
        asked.ask()


def test_the_document_says_everything_in_json() -> None:
    claims = (
        Claim(question(Side.BOARD, cases=2**32), "", 1.23456, "a1b2"),
        Claim(question(Side.REFERENCE, complete=False), "column 0: 7", 0.5, "c3d4"),
    )
    document = json.loads(json.dumps(proof.document(Proof(claims), ["a stone falls"], [], 61.98765)))
    first, second = document.pop("claims")
    assert document == {
        "schema": 6, "holds": False, "assumptions": ["a stone falls"], "fp_environment": [], "wall_s": 61.988,
    }  # fmt: skip
    assert first == {
        "step": "others",
        "shows": ProofStep.OTHERS.value,
        "layer": "layer",
        "answered_by": Side.BOARD.value,
        "statement": "it is so",
        "method": "by asking",
        "cases": 2**32,
        "complete": True,
        "unseparated": [],
        "holds": True,
        "counterexample": None,
        "answers_sha256": "a1b2",
        "observed": None,
        "time_s": 1.235,
    }
    assert {key: second[key] for key in ("complete", "holds", "counterexample")} == {
        "complete": False,
        "holds": False,
        "counterexample": "column 0: 7",
    }

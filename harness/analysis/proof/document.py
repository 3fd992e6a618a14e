"""A proof as the content of `proof.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.proof.argument import Proof
from harness.analysis.proof.claims import Claim, Question, Side
from harness.analysis.proof_document import SCHEMA, ClaimEntry, ProofDocument, QuestionEntry
from harness.boards.identity import BoardIdentity


def document(
    proof: Proof,
    assumptions: Sequence[str],
    fp_environments: Sequence[Mapping[str, str]],
    wall_s: float,
    board: BoardIdentity | None = None,
) -> dict[str, Any]:
    """Return the content of `proof.json`; see `ProofDocument`."""
    proof_document = ProofDocument(
        schema=SCHEMA,
        holds=proof.holds,
        claims=[_entry(claim) for claim in proof.claims],
        assumptions=assumptions,
        fp_environment=fp_environments,
        wall_s=round(wall_s, 3),
    )
    return (proof_document.model_copy(update={"board": board}) if board else proof_document).to_json()


def claim_document(claim: Claim) -> dict[str, Any]:
    """Return a claim as `proof.json` has it."""
    return _entry(claim).model_dump(mode="json")


def claim_of(question: Question, entry: Mapping[str, Any]) -> Claim:
    """Return the claim that `claim_document` made an entry of; ValueError for another form or another question."""
    found = ClaimEntry.model_validate(entry)
    if any(getattr(found, name) != value for name, value in dict(asked(question)).items()):
        raise ValueError(f"the claim is not about {question.statement!r}: {found.statement!r}")
    return Claim(question, found.counterexample or "", found.time_s, found.answers_sha256 or "", found.observed or "")


def _entry(claim: Claim) -> ClaimEntry:
    answered = claim.holds and claim.question.side in {Side.BOARD, Side.FILE}
    return ClaimEntry(
        **dict(asked(claim.question)),
        holds=claim.holds,
        counterexample=claim.counterexample or None,
        answers_sha256=claim.answers_sha256 if answered else None,
        observed=claim.observed or None,
        time_s=round(claim.time_s, 3),
    )


def asked(question: Question) -> QuestionEntry:
    """Return the entries of a claim that do not depend on the answer."""
    return QuestionEntry(
        step=question.step.name.lower(),
        shows=question.step.value,
        layer=question.layer,
        answered_by=question.side.value,
        statement=question.statement,
        method=question.method,
        cases=question.cases,
        complete=question.complete,
        unseparated=list(question.unseparated),
    )

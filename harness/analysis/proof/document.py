"""A proof as the content of `proof.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.proof.argument import Proof
from harness.analysis.proof.claims import Claim, Question, Side

SCHEMA = 2


def document(
    proof: Proof, assumptions: Sequence[str], fp_environments: Sequence[Mapping[str, str]], wall_s: float
) -> dict[str, Any]:
    """JSON types: every claim with its method, cases, time and counterexample, and what is taken for granted.

    `fp_environments` are those that the program reported of its threads while it answered.
    """
    return {
        "schema": SCHEMA,
        "holds": proof.holds,
        "claims": [_claim(claim) for claim in proof.claims],
        "assumptions": list(assumptions),
        "fp_environment": list(fp_environments),
        "wall_s": round(wall_s, 3),
    }


def _claim(claim: Claim) -> dict[str, Any]:
    answered = claim.holds and claim.question.side in {Side.BOARD, Side.FILE}
    return asked(claim.question) | {
        "holds": claim.holds,
        "counterexample": claim.counterexample or None,
        "answers_sha256": claim.answers_sha256 if answered else None,
        "observed": claim.observed or None,
        "time_s": round(claim.time_s, 3),
    }


def asked(question: Question) -> dict[str, Any]:
    """What of a claim does not depend on the answer."""
    return {
        "step": question.step.name.lower(),
        "shows": question.step.value,
        "layer": question.layer,
        "answered_by": question.side.value,
        "statement": question.statement,
        "method": question.method,
        "cases": question.cases,
        "complete": question.complete,
    }

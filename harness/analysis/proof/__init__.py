"""An argument in steps that a deployed program computes the model, each step checked by the program itself.

The stages that answer are the functions that the schedule runs; see `docs/reference/proof.md` for the argument.
"""

from __future__ import annotations

from harness.analysis.proof.argument import Proof, Subject, assumptions, in_order, of_plan, prove, questions
from harness.analysis.proof.claims import Claim, Effort, Question, Side, effort_of
from harness.analysis.proof.document import claim_document, claim_of, document
from harness.operators.obligations import ProofStep

__all__ = [
    "Claim",
    "Effort",
    "Proof",
    "ProofStep",
    "Question",
    "Side",
    "Subject",
    "assumptions",
    "claim_document",
    "claim_of",
    "document",
    "effort_of",
    "in_order",
    "of_plan",
    "prove",
    "questions",
]

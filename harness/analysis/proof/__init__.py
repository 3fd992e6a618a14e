"""An argument in steps that a deployed program computes the model, each step checked by the program itself.

The stages that answer are the functions that the schedule runs; see `docs/prove-a-model.md` for the argument.
"""

from __future__ import annotations

from harness.analysis.proof.argument import Proof, Subject, in_order, prove, questions
from harness.analysis.proof.assumptions import assumptions, of_plan
from harness.analysis.proof.claims import Claim, Question, Side
from harness.analysis.proof.document import document
from harness.analysis.proof.effort import Effort
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
    "document",
    "in_order",
    "of_plan",
    "prove",
    "questions",
]

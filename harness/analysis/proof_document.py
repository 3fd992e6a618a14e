"""The form of `proof.json`; without the modules of a proof, which a reader of documents does not need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from harness.boards.identity import BoardIdentity
from harness.core.document import UNCHECKED, CheckedBy, Document, Entries, Number

SCHEMA = 6

Checked = CheckedBy("proof")


class QuestionEntry(Entries):
    """The entries of a claim that do not depend on the answer.

    `unseparated` are the fault models that no vector of the claim tells from the specification; earlier versions have
    none.
    """

    step: Annotated[str, Checked]
    shows: Annotated[str, Checked]
    layer: Annotated[str | None, Checked]
    answered_by: Annotated[str, Checked]
    statement: Annotated[str, Checked]
    method: Annotated[str, Checked]
    cases: Annotated[int, Checked]
    complete: Annotated[bool, Checked]
    unseparated: Annotated[Sequence[str], Checked] = ()


class ClaimEntry(QuestionEntry):
    """A claim with its answer; earlier versions have neither `answers_sha256` nor `observed`."""

    holds: Annotated[bool, Checked]
    counterexample: Annotated[str | None, UNCHECKED]
    answers_sha256: Annotated[str | None, CheckedBy("answers")] = None
    observed: Annotated[str | None, UNCHECKED] = None
    time_s: Annotated[Number, UNCHECKED]


class ProofDocument(Document):
    """The content of `proof.json`: every claim with its method, cases, time and counterexample, and the assumptions.

    `fp_environment` are those that the program reported of its threads while it answered; `board` is the one that it
    ran on.  Earlier versions have neither.
    """

    number: ClassVar[int | None] = SCHEMA

    schema_number: Annotated[int, Checked] = Field(alias="schema")
    holds: Annotated[bool, Checked]
    claims: Annotated[Sequence[ClaimEntry], Checked]
    assumptions: Annotated[Sequence[str], Checked]
    fp_environment: Annotated[Sequence[Mapping[str, str]], Checked] = ()
    wall_s: Annotated[Number, UNCHECKED]
    board: Annotated[BoardIdentity | None, Checked] = None

    @classmethod
    def converted(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a proof of an earlier schema in the form of this one: it asked other questions, in the same form."""
        return {**content, "schema": SCHEMA}

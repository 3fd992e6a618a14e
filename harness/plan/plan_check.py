"""Checks of a plan before it runs: its items describe the network, and its schedule respects them.

Three questions, each decided and not assumed: do the items' descriptions make sense together; do they have exactly the
firing orders of the network; does every way in which the schedules can interleave respect the net.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from harness.core.document import UNCHECKED, Entries, Number
from harness.core.errors import InfrastructureError
from harness.plan import conformance
from harness.plan.items.checks import Examination, examine
from harness.plan.items.description import describe, refined
from harness.plan.items.equivalence import Equivalence, equivalent
from harness.plan.items.graphs import ItemGraph
from harness.plan.items.translation import translate_items
from harness.plan.petri.net import Net
from harness.plan.plan import Plan

MARKINGS, TRANSITIONS = 2000, 300
"""Most markings and transitions of a net whose markings are counted too, as an independent decision."""


@dataclass(frozen=True)
class Assessment:
    """The answers, the items and their net that they are about, and how long they took."""

    items: tuple[ItemGraph, ...]
    net: Net
    examination: Examination
    equivalence: Equivalence
    schedule: tuple[conformance.PlanDefect, ...]
    wall_s: float

    @property
    def objections(self) -> tuple[str, ...]:
        """All that speaks against the plan; nothing if it is sound."""
        order = (
            () if self.equivalence.equal else (self.equivalence.counterexample or "its firing orders were not decided",)
        )
        return (*self.examination.counterexamples, *order, *(finding.text for finding in self.schedule))


def assess(plan: Plan) -> Assessment:
    """Decide all three questions."""
    began = time.perf_counter()
    items = describe(plan).items
    net = translate_items(items)
    limit = MARKINGS if len(net.transitions) <= TRANSITIONS else 0
    return Assessment(
        items,
        net,
        examine(items, limit),
        equivalent(refined(plan), items, limit),
        conformance.check(plan),
        time.perf_counter() - began,
    )


def require_sound(assessment: Assessment) -> None:
    """Raise InfrastructureError for a wrong plan: nothing was shown, of the network or of the board."""
    for objection in assessment.objections:
        raise InfrastructureError(
            f"plan check: the plan is wrong: {objection}",
            "nothing ran; plans are made by this program, so report it, or give another --split, --sync or --items",
        )


class NetEntry(Entries):
    """The size of the plan's Petri net; `markings` is None if they were not counted."""

    places: int
    transitions: int
    syncs: int
    tokens: int
    markings: int | None


class PlanCheckEntry(Entries):
    """A check of the items' descriptions."""

    name: str
    statement: str
    counterexamples: Sequence[str]


class AssessmentEntry(Entries):
    """The answers as an entry of a document; `wall_s` is in seconds."""

    net: NetEntry
    checks: Sequence[PlanCheckEntry]
    equivalence: Equivalence
    schedule: Sequence[str]
    sound: bool
    wall_s: Annotated[Number, UNCHECKED]


def document(assessment: Assessment) -> AssessmentEntry:
    """Return the answers as an entry of a document."""
    net, examination = assessment.net, assessment.examination
    return AssessmentEntry(
        net=NetEntry(
            places=len(net.places),
            transitions=len(net.transitions),
            syncs=sum(transition.sync for transition in net.transitions),
            tokens=sum(tokens.count for tokens in net.initial),
            markings=examination.markings,
        ),
        checks=[
            PlanCheckEntry(name=check.name, statement=check.statement, counterexamples=check.counterexamples)
            for check in examination.checks
        ],
        equivalence=assessment.equivalence,
        schedule=[defect.text for defect in assessment.schedule],
        sound=not assessment.objections,
        wall_s=round(assessment.wall_s, 3),
    )

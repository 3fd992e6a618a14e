"""Checks of a plan before it runs: its items describe the network, and its schedule respects them.

Three questions, each decided and not assumed: do the items' descriptions make sense together; do they have exactly the
firing orders of the network; does every way in which the schedules can interleave respect the net.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

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


def document(assessment: Assessment) -> dict[str, Any]:
    """Return the answers as JSON types."""
    net, equivalence = assessment.net, assessment.equivalence
    return {
        "net": {
            "places": len(net.places),
            "transitions": len(net.transitions),
            "syncs": sum(transition.sync for transition in net.transitions),
            "tokens": sum(tokens.count for tokens in net.initial),
            "markings": assessment.examination.markings,
        },
        "checks": [
            {"name": check.name, "statement": check.statement, "counterexamples": list(check.counterexamples)}
            for check in assessment.examination.checks
        ],
        "equivalence": dataclasses.asdict(equivalence),
        "schedule": [finding.text for finding in assessment.schedule],
        "sound": not assessment.objections,
        "wall_s": round(assessment.wall_s, 3),
    }

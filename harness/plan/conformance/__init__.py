"""Conformance: a plan's schedule respects the semantics of its network, and so does what was observed on a board.

`check` decides about the plan, before anything runs; `replay` about traces.  `document` is what a run says of it.
"""

from harness.plan.conformance.document import Condition, document
from harness.plan.conformance.interleavings import check, work_together
from harness.plan.conformance.replay import Conformance, Violation, replay
from harness.plan.conformance.structure import PlanDefect
from harness.plan.conformance.trace import Event, Trace, arrange, read
from harness.plan.conformance.waiting import Waiting, waiting

__all__ = [
    "Condition",
    "Conformance",
    "Event",
    "PlanDefect",
    "Trace",
    "Violation",
    "Waiting",
    "arrange",
    "check",
    "document",
    "read",
    "replay",
    "waiting",
    "work_together",
]

"""Conformance of a plan's schedule, and of traces observed on a board, to the semantics of the network.

`check` decides about the plan before a run; `replay` decides about traces.  `document` is their part of `run.json`.
"""

from harness.plan.conformance.document import Condition, ConformanceEntry, document
from harness.plan.conformance.interleavings import check, work_together
from harness.plan.conformance.replay import Conformance, Violation, replay
from harness.plan.conformance.structure import PlanDefect
from harness.plan.conformance.trace import Event, Trace, arrange, read
from harness.plan.conformance.waiting import Waiting, waiting

__all__ = [
    "Condition",
    "Conformance",
    "ConformanceEntry",
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

"""The applications beside the core: their commands, documents and kinds of evidence, imported by name when used.

The core imports no application, and an application no other; both look for its parts here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

COMMANDS = {
    "case": "harness.applications.case.command",
    "decide": "harness.applications.decide.command",
    "export": "harness.applications.export.command",
    "judge": "harness.applications.judge.command",
    "models hybrid": "harness.applications.decide.hybrid.command",
    "nightly": "harness.applications.nightly.command",
    "profile": "harness.applications.profile.command",
    "reduce": "harness.applications.judge.reduction.command",
    "trace": "harness.applications.trace.command",
    "wcet": "harness.applications.wcet.command",
    "models convert": "harness.applications.convert.command",
    "models cost": "harness.applications.cost.command",
    "models view": "harness.applications.view.command",
}
"""The module of each command of an application, by the words of the command."""
DOCUMENTS = {
    "case": "harness.applications.case.entries:CaseDocument",
    "contained": "harness.applications.trace.contained_document:ContainedDocument",
    "cost": "harness.applications.cost.document:CostDocument",
    "decision": "harness.applications.decide.entries:DecisionDocument",
    "decision_by_bounds": "harness.applications.decide.entries:BoundsDocument",
    "export": "harness.applications.export.document:ExportDocument",
    "judgement": "harness.applications.judge.document:JudgementDocument",
    "profile": "harness.applications.profile.document:ProfileDocument",
    "traceability": "harness.applications.trace.document:TraceabilityDocument",
    "wcet": "harness.applications.wcet.document:WcetDocument",
}
"""The class of each document of an application, by the name of its schema."""
EVIDENCE = {
    "case.json": "harness.applications.case.evidence:KIND",
    "contained.json": "harness.applications.trace.evidence:KIND",
    "decide.json": "harness.applications.decide.evidence:KIND",
    "wcet.json": "harness.applications.wcet.evidence:KIND",
}
"""Each kind of evidence by the name of its document: a `Kind` of harness/runs/verification/folders.py."""
PARTS = {"profile.json": "harness.applications.profile.evidence:check"}
"""Each check of a document that an application adds to the folder of a measurement, by the name of the document."""
FUNCTIONS = {"accumulators": "harness.applications.decide.bounds:accumulators"}
"""Functions of an application that commands of the core use."""
REQUESTS = {"request.decide.json": "decide.json"}
"""The document of an unfinished folder, by the name of the request in it."""


def command(words: str) -> Any:
    """Import the click command of an application."""
    return import_module(COMMANDS[words]).command


def document(name: str) -> Any:
    """Import the class of the document with this schema."""
    return _load(DOCUMENTS[name])


def evidence(name: str) -> Any:
    """Import the kind of evidence whose document has this name; KeyError for a run or an unknown document."""
    return _load(EVIDENCE[name])


def function(name: str) -> Any:
    """Import a function of an application that a command of the core uses."""
    return _load(FUNCTIONS[name])


def part(name: str) -> Any:
    """Import the check of the document with this name in the folder of a measurement."""
    return _load(PARTS[name])


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)

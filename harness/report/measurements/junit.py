"""JUnit XML of a measurement: one suite, a case for every part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from harness.core.junit import Case, Problem, write
from harness.report.measurements.labels import clock_text, given, percentile, variation
from harness.runs.entries import MeasurementDocument, PartEntry
from harness.runs.measurement.facts import Facts, varying


def junit(document: MeasurementDocument, facts: Facts) -> str:
    """Return JUnit XML; a part that is slower or whose counts vary fails, and all parts if an output is wrong."""
    name = f"{document.board.name}.{document.model.name}"
    cases = [
        Case(name, part.name, _problem(part, document), output=_numbers(part, document)) for part in document.parts
    ]
    return write(
        name, cases, timestamp=str(document.started), time_s=document.wall_s, properties=_properties(document, facts)
    )


def _problem(part: PartEntry, document: MeasurementDocument) -> Problem | None:
    reason = _reason(part, document)
    tag: Literal["error", "failure"] = "error" if document.verdict == "inconclusive" else "failure"
    return Problem(tag, reason, document.verdict) if reason else None


def _reason(part: PartEntry, document: MeasurementDocument) -> str:
    """Return the reason why a part fails; empty if it passes."""
    name, against = part.name, document.against
    if document.verdict == "differs":
        return str(document.reason)
    if part in varying(document):
        return f"{part.function} takes {part.min:,} to {part.max:,} instructions: {variation(part)}"
    if against and name in against.slower:
        [found] = [found for found in against.parts if found.name == name]
        return f"slower than {against.base.run}: {'; '.join(found.reasons)}"
    if against and document.verdict == "inconclusive" and name in against.too_noisy:
        return str(document.reason)
    return ""


def _properties(document: MeasurementDocument, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of further facts for CI."""
    yield "verdict", document.verdict
    yield "reason", document.reason
    yield "ran", facts.where
    yield "times", "MET" if facts.is_met else f"not MET: {facts.why_not_met}"
    yield "executions", str(document.measured.samples)
    yield "load", document.load.name
    yield "clock", clock_text(document)
    for number, caution in enumerate(facts.cautions, 1):
        yield f"caution.{number}", caution
    for item in document.plan.items:
        yield f"item.{item.name}", f"target {item.target}, ran on {item.ran_on}"
    for part in ("model", "bundle", "stimuli", "readings"):
        yield f"{part}.sha256", str(getattr(document, part).sha256)


def _numbers(part: PartEntry, document: MeasurementDocument) -> str:
    """Return the statistics of a part in one line."""
    unit = document.measured.unit
    if unit != "ns":
        return f"min {part.min} {unit}, max {part.max} {unit}"
    summary = part.summary
    values = {name: getattr(summary, f"{name}_ns") for name in ("min", "median", "mean", "max")}
    values |= {percentile(one): given(one.value_ns) for one in summary.quantiles}
    return ", ".join(f"{name} {value:.10g} ns" for name, value in values.items() if value is not None)

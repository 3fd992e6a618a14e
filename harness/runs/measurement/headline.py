"""The headline of a measurement: the same numbers of the same part on terminal, in history and on all pages."""

from __future__ import annotations

from collections.abc import Sequence

from harness.runs.entries import MeasurementDocument, PartEntry


def headline(document: MeasurementDocument) -> str:
    """Return the numbers of a measurement and its number of executions."""
    measured = document.measured
    executions = f"{measured.samples:,} executions"
    if measured.unit == "ns":
        return f"{numbers(document)} of {executions}"
    if measured.unit == "cycles":
        return f"{numbers(document)} in {executions}"
    alone = _alone(document)
    if not alone:
        return f"{numbers(document)} in {executions}: every part waits for a device"
    vectors = measured.segment
    which = f"for all {vectors:,} vectors" if vectors > 1 else "all of one vector, which shows nothing of data"
    return f"{numbers(document)} in each of {executions}, {which}{_disturbed(alone)}"


def numbers(document: MeasurementDocument) -> str:
    """Return the numbers that represent a measurement, with their part."""
    unit = document.measured.unit
    if unit == "ns":
        return _times(document.measured.scope, document.parts)
    if unit == "cycles":
        return f"{sum(part.min for part in document.parts):,} cycles at least"
    alone = _alone(document)
    if not alone:
        return "no instructions of the network"
    waiting = len(document.parts) - len(alone)
    wait = "waits" if waiting == 1 else "wait"
    only = f"only {len(alone)} of {len(document.parts)} parts, as {waiting} {wait} for a device: " if waiting else ""
    return f"{only}{sum(part.max for part in alone):,} instructions"


def _times(scope: str, parts: Sequence[PartEntry]) -> str:
    """Return the median and the maximum of the part with the largest median; of several such parts, the first."""
    slowest = max(parts, key=lambda part: float(part.summary.median_ns))
    name = slowest.name if scope == "network" else f"{scope} {slowest.name}"
    choice = f" (largest median of {len(parts)})" if len(parts) > 1 else ""
    return f"{name}{choice}: median {slowest.summary.median_ns:,.0f} ns, maximum {slowest.summary.max_ns:,} ns"


def _alone(document: MeasurementDocument) -> list[PartEntry]:
    """Return the parts that do not wait for a device."""
    return [part for part in document.parts if part.alone]


def _disturbed(parts: Sequence[PartEntry]) -> str:
    """Return the number of readings that the counter itself increased, as text."""
    count, most = sum(part.disturbed for part in parts), max(part.most - part.max for part in parts)
    if not count:
        return ""
    return f"; but for {count:,} readings that the counter's own disturbance made larger, by {most:,} at most"

"""Texts of reports of a measurement: numbers with units, and sentences about a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.timing import p_text, summary
from harness.core.time_units import Unit, duration, unit_of
from harness.runs.entries import MeasuredEntry, MeasurementDocument, PartEntry, QuantileEntry

SIGNIFICANT = 0.01  # p-values below; that of harness.analysis.timing

QUIETER_BASE = (
    "measure the base again on an idle board, or repeat --against at least three times: "
    "the noise is then estimated from these measurements"
)

# Cliff's delta in words: Romano, Kromrey, Coraggio and Skowronek 2006.
EFFECTS = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))


def table_unit(parts: Sequence[PartEntry]) -> Unit:
    """Return the unit of a table of all parts, from the largest median."""
    return unit_of(max(part.summary.median_ns for part in parts) / 10)


def given(value: Any) -> Any:
    """Return a number, or None if the sample is too small for it."""
    return None if isinstance(value, Mapping) and "not_given" in value else value


def probability(share: float) -> str:
    """Format a small probability: 1e-6."""
    return f"{share:.0e}".replace("e-0", "e-")


def interval_text(interval: Mapping[str, Any] | None, unit: Unit) -> str:
    """Format the ends of an interval, or the reason why it is not given."""
    if not interval:
        return ""
    if "not_given" in interval:
        return str(interval["not_given"])
    low, high = (unit.text(interval[end]) if interval[end] is not None else "∞" for end in ("low", "high"))
    return f"{low} to {high}"


def percentile(quantile: QuantileEntry) -> str:
    """Return the name p99, p99.9 and so on."""
    return summary.percentile(quantile.probability)


@dataclass(frozen=True)
class Finding:
    """One property of a series in a sentence; `notable` if plain statistics do not apply."""

    topic: str
    sentence: str
    notable: bool


def findings(part: PartEntry, measured: MeasuredEntry) -> tuple[Finding, ...]:
    """Return the findings about the series of one part; `measured` is the document's."""
    series, warmup = part.series, measured.warmup
    if "not_given" in series:
        return (Finding("Shape in time", f"Not tested: {series['not_given']}.", notable=False),)
    return (
        _warm_up(series["warm_up"], warmup),
        _drift(series),
        _outliers(series["outliers"], part.summary.executions, measured.cycle_ns),
        _dependence(series),
    )


def _warm_up(found: Mapping[str, Any], left_out: int) -> Finding:
    beyond = f"beyond the {left_out:,} executions that were left out"
    if not found["executions"]:
        return Finding("Warm-up", f"No warm-up {beyond}.", notable=False)
    excess = f"{duration(found['excess_ns'])} slower at the median"
    first = f"The first {found['executions']:,} executions are {excess}"
    return Finding("Warm-up", f"{first}, {beyond} (p-value {found['p_value']:.2g}).", notable=True)


def _drift(series: Mapping[str, Any]) -> Finding:
    drift = series["drift"]
    level = drift["tests"][0]
    told = f"({level['test']}, {p_text(level['p_value'])})"
    if not drift["drifts"]:
        return Finding("Drift", f"The level stays {told}.", notable=False)
    after = drift["change_after"] + series["warm_up"]["executions"]
    trend = f"{'+' if drift['total_ns'] >= 0 else '-'}{duration(abs(drift['total_ns']))}"
    sentence = f"The level moves {told}: a trend of {trend} over all, a change likeliest after execution {after:,}."
    return Finding("Drift", sentence, notable=True)


def _outliers(outliers: Mapping[str, Any], executions: int, cycle_ns: float) -> Finding:
    """Describe outliers; `cycle_ns` is the time from the start of one execution to the next."""
    fence = f"above {duration(outliers['above_ns'])}"
    if not outliers["count"]:
        return Finding("Outliers", f"None {fence}, or too many to be outliers.", notable=False)
    many = f"{outliers['count']:,} executions ({outliers['count'] / executions:.2%}) lie far out, {fence}"
    period = outliers["period"]
    if period is None and outliers["test"]["p_value"] < SIGNIFICANT:
        return Finding("Outliers", f"{many}, and are not spread evenly over the series.", notable=True)
    if period is None:
        return Finding("Outliers", f"{many}, without a period.", notable=False)
    often = f"{many}, and come periodically: every {period:,.4g} executions"
    if cycle_ns <= 0:
        return Finding("Outliers", f"{often}.", notable=True)
    time_ns = period * cycle_ns
    return Finding("Outliers", f"{often}, about every {duration(time_ns)} ({1e9 / time_ns:,.4g} Hz).", notable=True)


def _dependence(series: Mapping[str, Any]) -> Finding:
    test = series["independence"]
    told = f"({test['test']}, {p_text(test['p_value'])})"
    if test["p_value"] >= SIGNIFICANT:
        return Finding("Dependence", f"None of neighbouring executions shows {told}.", notable=False)
    where = f": {test['detail']}" if test["detail"] else ""
    return Finding("Dependence", f"Neighbouring executions depend on each other {told}{where}.", notable=True)


def effect(delta: float) -> str:
    """Describe Cliff's delta."""
    size = next((word for limit, word in EFFECTS if abs(delta) < limit), "large")
    if delta == 0:
        return f"{size}: of all pairs, the new execution is as often slower as faster"
    more, less = ("slower", "faster") if delta > 0 else ("faster", "slower")
    return f"{size}: of all pairs, the new execution is {more} in {abs(delta):.1%} more than it is {less}"


def variation(part: PartEntry) -> str:
    """Return the meaning of counts that differ."""
    if part.repeatable:
        return "each vector always the same, so its control flow depends on data"
    return "different counts for one vector, so the counter is not exact"


def clock_text(document: MeasurementDocument) -> str:
    """Describe the clock or counter, its resolution, and the cost of a reading."""
    clock = document.clock
    cost, source = clock.cost, clock.source
    once = ", once for each of its tasks" if any(part.tasks > 1 for part in document.parts) else ""
    if document.measured.unit != "ns":
        unit = document.measured.unit
        if clock.constant is None:
            low, high = cost.min_ns, cost.max_ns
            return f"{source}: two readings cost {low:,} to {high:,} {unit}; every count contains them{once}"
        return (
            f"{source}: two readings always cost {clock.constant:,} {unit}, which are subtracted from every count{once}"
        )
    step = f"resolution {clock.resolution_ns:,.4g} ns"
    costs = f"two readings cost {cost.median_ns:,.0f} ns at the median, {cost.max_ns:,} ns at most"
    return f"{source}, {step}; {costs} ({clock.readings:,} tried); every time contains them{once}"

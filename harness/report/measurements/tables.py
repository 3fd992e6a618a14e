"""Tables of the statistics: CSV for programs, with all numbers; LaTeX for papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.core.time_units import Unit
from harness.report import cells
from harness.report.measurements.labels import clock_text, given, percentile, table_unit
from harness.runs.entries import MeasurementDocument, PartEntry, SummaryEntry
from harness.runs.measurement.facts import Facts

PAPER_QUANTILE = 0.999


def csv(document: MeasurementDocument, facts: Facts) -> str:
    """Return CSV: one line for each part, units in the headings; the last column has the reasons of empty fields."""
    return cells.csv([_count_row(part, document) if facts.counted else _time_row(part) for part in document.parts])


def _time_row(part: PartEntry) -> dict[str, Any]:
    summary = part.summary
    row = {
        "part": part.name,
        "ran_on": part.ran_on,
        "executions": summary.executions,
        "min_ns": summary.min_ns,
        **_estimate("mean", summary.mean_ns, summary.mean_interval),
        "std_ns": given(summary.deviation_ns),
        **_estimate("median", summary.median_ns, summary.median_interval),
    }
    for quantile in summary.quantiles:
        row |= _estimate(percentile(quantile), quantile.value_ns, quantile.interval)
    row |= {"max_ns": summary.max_ns, "share_longer_than_max_at_most": summary.longer_at_most}
    return row | {"not_given_because": "; ".join(_lacking(summary))}


def _estimate(name: str, value: float | None, interval: Mapping[str, Any]) -> dict[str, Any]:
    """Return a number and the ends of its interval."""
    ends = given(interval) or {"low": None, "high": None}
    return {f"{name}_ns": value, f"{name}_low_ns": ends["low"], f"{name}_high_ns": ends["high"]}


def _lacking(summary: SummaryEntry) -> Iterator[str]:
    """Yield the missing numbers, each with its reason."""
    for name in ("mean_interval", "median_interval", "deviation_ns"):
        value = getattr(summary, name)
        if given(value) is None:
            yield f"{name}: {value['not_given']}"
    for quantile in summary.quantiles:
        if given(quantile.interval) is None:
            yield f"{percentile(quantile)}: {quantile.interval['not_given']}"


def _count_row(part: PartEntry, document: MeasurementDocument) -> dict[str, Any]:
    unit, size = document.measured.unit, document.measured.segment
    return {
        "part": part.name,
        "ran_on": part.ran_on,
        "function": part.function,
        "executions": part.executions,
        f"min_{unit}": part.min,
        f"max_{unit}": part.max,
        "different_counts": part.distinct,
        "same_for_same_vector": part.repeatable,
        "waits_for_no_device": part.alone,
        f"most_often_{unit}": part.most_often,
        "vector_of_min": part.first_min % size,
        "vector_of_max": part.first_max % size,
    }


def latex(document: MeasurementDocument, facts: Facts) -> str:
    """Return a tabular of the package booktabs, after a comment with the text of its caption."""
    if facts.counted:
        head, rows = _counts(document)
    else:
        head, rows = _times(document.parts, table_unit(document.parts))
    columns = f"l{'r' * (len(head) - 1)}"
    lines = [
        *(f"% {line}" for line in _caption(document, facts)),
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        cells.row(head),
        "\\midrule",
        *map(cells.row, rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _times(parts: Sequence[PartEntry], unit: Unit) -> tuple[list[str], list[list[str]]]:
    """Return heading and rows: mean, min, max and std as in the papers, then further numbers."""
    numbers = ("mean", "min", "max", "std", "median", f"p{100 * PAPER_QUANTILE:g}")
    head = ["", *(f"{name} ({unit.name})" for name in numbers), "n"]
    return head, [_paper_row(part, unit) for part in parts]


def _paper_row(part: PartEntry, unit: Unit) -> list[str]:
    summary = part.summary
    [rare] = [one for one in summary.quantiles if one.probability == PAPER_QUANTILE]
    exact = [summary.mean_ns, summary.min_ns, summary.max_ns, given(summary.deviation_ns)]
    texts = [_paper(value, unit) for value in (*exact, summary.median_ns, rare.value_ns)]
    return [part.name, *texts, f"{summary.executions:,}"]


def _paper(time_ns: float | None, unit: Unit) -> str:
    return "n/a" if time_ns is None else unit.text(time_ns)


def _counts(document: MeasurementDocument) -> tuple[list[str], list[list[str]]]:
    unit = document.measured.unit
    rows = [[part.name, f"{part.min:,}", f"{part.max:,}", f"{part.executions:,}"] for part in document.parts]
    return ["", f"min ({unit})", f"max ({unit})", "n"], rows


def _caption(document: MeasurementDocument, facts: Facts) -> Iterator[str]:
    """Yield the lines of the comment; no text can end it."""
    yield "Needs \\usepackage{booktabs,textcomp}. For the caption:"
    board, measured, state = document.board, document.measured, document.state
    if facts.counted:
        kind = f"{measured.unit} counted, no execution times"
    else:
        kind = "measured execution times (MET)" if facts.is_met else f"NOT MET: {facts.why_not_met}"
    reached = [f"{one.name} {one.reached}" for one in state.settings if one.reached is not None]
    told = {
        "Quantity": f"{kind}; {measured.interval}",
        "Board": f"{board.name} ({board.soc}), {facts.where}",
        "Model": f"{document.model.name}, SHA-256 {document.model.sha256}",
        "Compiler": f"{document.bundle.compiler}; {' '.join(document.bundle.flags)}",
        "Clock": clock_text(document),
        "Load": document.load.name,
        "Settings": ", ".join(dict.fromkeys(reached)) or "none of the board was changed",
        "Executions": f"{measured.samples:,}, {measured.warmup:,} before each segment left out",
        "Date": str(document.started),
        "Verdict": f"{document.verdict}: {document.reason}",
    }
    yield from (f"{topic}: {cells.escape(text)}" for topic, text in told.items())
    yield from (f"Caution: {cells.escape(caution)}" for caution in facts.cautions)

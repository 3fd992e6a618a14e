"""What was found: rows and bounds as values, as a table, as Markdown and as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

HEADINGS = ("", "computes", "outputs", "minimum, ns", "median, ns", "times ours", "empty call, ns")
LEFT = {"", "computes", "outputs"}
NOTHING = "-"


@dataclass(frozen=True)
class Times:
    """Of all single calls, in nanoseconds."""

    calls: int
    minimum_ns: int
    median_ns: int
    empty_median_ns: int


@dataclass(frozen=True)
class Row:
    """One contender; without `times` it was not measured, and `failure` says why."""

    name: str
    is_ours: bool
    version: str = ""
    computes: str = ""
    outputs: str = ""
    threads: int = 0
    times: Times | None = None
    failure: str = ""


@dataclass(frozen=True)
class Bound:
    """The least time that something takes on this core, by a rate that was measured; None where there is no rate."""

    name: str
    rate: str
    ns: float | None


@dataclass(frozen=True)
class Findings:
    """The results of one comparison; `where` is the machine, the day and the load averages before it."""

    shape: str
    command: str
    rows: tuple[Row, ...]
    bounds: tuple[Bound, ...]
    where: Mapping[str, str]
    multiply_adds: int
    weight_bytes: int

    @property
    def ordered(self) -> list[Row]:
        """The fastest first, those that were not measured last."""
        return sorted(self.rows, key=lambda row: row.times.minimum_ns if row.times else float("inf"))

    @property
    def base(self) -> Times | None:
        """The fastest of ours, to which all others are put in relation."""
        return next((row.times for row in self.ordered if row.is_ours and row.times), None)

    @property
    def bound_ns(self) -> float | None:
        """The highest of the bounds, if all are known."""
        known = [bound.ns for bound in self.bounds if bound.ns is not None]
        return max(known) if len(known) == len(self.bounds) else None


def ratios(times: Times, base: Times | None) -> tuple[float, float] | None:
    """How many times `base` it takes, by the minima and by the medians."""
    return (times.minimum_ns / base.minimum_ns, times.median_ns / base.median_ns) if base else None


def document(findings: Findings) -> dict[str, Any]:
    """Return the JSON document."""
    rows = []
    for row in findings.ordered:
        both = ratios(row.times, findings.base) if row.times else None
        relation = {"ratio": both[0], "median_ratio": both[1]} if both else {"ratio": None, "median_ratio": None}
        rows.append(asdict(row) | relation)
    return {
        "shape": findings.shape,
        "command": findings.command,
        "multiply_adds": findings.multiply_adds,
        "weight_bytes": findings.weight_bytes,
        "machine": dict(findings.where),
        "bounds": [asdict(bound) for bound in findings.bounds],
        "results": rows,
    }


def table(findings: Findings) -> Table:
    """For the terminal."""
    shown = Table(title=f"one inference of {findings.shape}, one vector, one thread", title_justify="left")
    for heading in HEADINGS:
        shown.add_column(heading, justify="left" if heading in LEFT else "right")
    for cells in _lines(findings):
        shown.add_row(*cells)
    return shown


def markdown(findings: Findings) -> str:
    """Return the same for a page, and under it what it belongs to."""
    marks = ["---" if heading in LEFT else "---:" for heading in HEADINGS]
    lines = [HEADINGS, marks, *_lines(findings)]
    rows = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells] for cells in lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows) + "\n\n" + caption(findings) + "\n"


def caption(findings: Findings) -> str:
    """Return the context of the numbers: the setting, the processor's instructions, the versions, the command."""
    versions = ", ".join(dict.fromkeys(row.version for row in findings.rows if row.version))
    parts = (setting(findings), findings.where["instructions"], versions, f"`{findings.command}`")
    return ". ".join(part for part in parts if part)


def setting(findings: Findings) -> str:
    """Machine, load, day and how many calls."""
    where = findings.where
    calls = " or ".join(f"{count:,}" for count in sorted({row.times.calls for row in findings.rows if row.times}))
    machine = f"{where['processor']}, {where['processors']} processors, load averages before {where['load']}"
    return f"{machine}, {where['date']}; {calls or 'no'} single calls of each"


def _lines(findings: Findings) -> list[Sequence[str]]:
    bounds = [_bound_cells(bound, findings.base) for bound in findings.bounds]
    return [*bounds, *(_cells(row, findings.base) for row in findings.ordered)]


def _bound_cells(bound: Bound, base: Times | None) -> Sequence[str]:
    time = "unknown" if bound.ns is None else f"{bound.ns:,.0f}"
    ratio = NOTHING if bound.ns is None or base is None else f"{bound.ns / base.minimum_ns:.2f}"
    return (f"bound: {bound.name}", NOTHING, bound.rate, time, NOTHING, ratio, NOTHING)


def _cells(row: Row, base: Times | None) -> Sequence[str]:
    times = row.times
    if times is None:
        return (row.name, row.computes or NOTHING, row.failure, *[NOTHING] * 4)
    both = ratios(times, base)
    ratio = f"{both[0]:.2f} ({both[1]:.2f})" if both else NOTHING
    numbers = (f"{times.minimum_ns:,}", f"{times.median_ns:,}", ratio, f"{times.empty_median_ns:,}")
    return (row.name, row.computes, row.outputs, *numbers)

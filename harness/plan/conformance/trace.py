"""The trace of a board program: when each item took each step of its schedule, execution by execution.

A trace is read strictly: content that the board program cannot have written is a failure of the board or the transfer,
and never counts as conforming.  What it may have written, but the plan does not want (a step left out, or taken twice),
is kept as a gap, for the replay to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.errors import BoardError
from harness.core.safe_io import parse_json
from harness.plan.conformance.structure import step_name
from harness.plan.plan import Compute, Plan, Step

Times: TypeAlias = npt.NDArray[np.int64]
EventKind: TypeAlias = Literal["layer", "barrier", "flag"]
"""The kind of a step: of a task, or one of the two ways to synchronise."""

KINDS: tuple[EventKind, ...] = ("layer", "barrier", "flag")
LATEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Event:
    """A step of an item in one execution; `name` is the task's or the hand-over's, `vector` the block's first."""

    execution: int
    vector: int
    item: str
    kind: EventKind
    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Column:
    """One step of one item's schedule: a column of the arrays of a trace."""

    item: int
    step: Step
    kind: EventKind
    name: str
    stage: int


@dataclass(frozen=True)
class Gap:
    """A step of an execution that is not exactly once in the trace."""

    execution: int
    column: int
    times: int


@dataclass(frozen=True, eq=False)
class Trace:
    """The steps of executions 0, 1, ...

    `begin_ns`, `end_ns`: int64 (executions, columns).  A step that is missing begins at the latest and ends at the
    earliest time there is, so that nothing seems to come too early for it; of one that is there twice, the last counts.
    """

    columns: tuple[Column, ...]
    events: int
    begin_ns: Times
    end_ns: Times
    gaps: tuple[Gap, ...]

    @property
    def executions(self) -> int:
        """The number of executions that were requested."""
        return len(self.begin_ns)

    @cached_property
    def taken(self) -> npt.NDArray[np.bool_]:
        """Return whether the trace has each step, bool of shape (executions, columns)."""
        return np.not_equal(self.begin_ns, LATEST)


def read(path: Path) -> Iterator[Event]:
    """Yield the events of a trace.jsonl, line by line; raise BoardError for a file or a line that is no trace."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield _event(line, f"{path.name}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise BoardError(f"cannot read the trace {path}: {error}") from error


def columns_of(plan: Plan) -> tuple[Column, ...]:
    """Return all steps of all items, item by item, in the order of their schedules; hand-overs are in stage 0."""
    return tuple(_column(plan, item, step) for item, schedule in enumerate(plan.schedules) for step in schedule)


def arrange(plan: Plan, events: Iterable[Event], executions: int) -> Trace:
    """Return the events of `executions` executions as arrays.

    BoardError for an event of a later execution, or of a step that its item does not have.
    """
    columns = columns_of(plan)
    numbers = {(plan.items[c.item].name, c.kind, c.name): number for number, c in enumerate(columns)}
    begin_ns = np.full((executions, len(columns)), LATEST, np.int64)
    end_ns = np.full_like(begin_ns, -1)
    times = np.zeros(begin_ns.shape, np.int64)
    for event in events:
        place = _place(event, numbers, executions)
        begin_ns[place], end_ns[place] = event.begin_ns, event.end_ns
        times[place] += 1
    gaps = tuple(Gap(int(e), int(c), int(times[e, c])) for e, c in np.argwhere(times != 1))
    return Trace(columns, int(times.sum()), begin_ns, end_ns, gaps)


def _column(plan: Plan, item: int, step: Step) -> Column:
    if isinstance(step, Compute):
        return Column(item, step, "layer", step_name(plan, step), plan.tasks[step.task].stage)
    return Column(item, step, plan.sync, step_name(plan, step), 0)


def _place(event: Event, numbers: dict[tuple[str, EventKind, str], int], executions: int) -> tuple[int, int]:
    column = numbers.get((event.item, event.kind, event.name))
    if column is None:
        raise BoardError(
            f"the trace has the {event.kind} {event.name} of item {event.item}, a step that the plan does not have",
            "trace and plan belong to different bundles: run again",
        )
    if event.execution >= executions:
        raise BoardError(
            f"the trace has execution {event.execution:,} of {executions:,}",
            "trace and vectors belong to different runs: run again",
        )
    return event.execution, column


def _event(line: str, where: str) -> Event:
    """Return one line, of exactly the keys that the board program writes."""
    try:
        entry = parse_json(line)
    except ValueError as error:
        raise BoardError(f"{where}: not JSON: {error}", "the board program was cut off, or its disk is full") from error
    kinds = [kind for kind in KINDS if isinstance(entry, dict) and kind in entry]
    if len(kinds) != 1 or set(entry) != {"execution", "vector", "item", kinds[0], "begin_ns", "end_ns"}:
        raise BoardError(f"{where}: not the line of a trace: {line.strip()[:200]}")
    numbers = [entry[key] for key in ("execution", "vector", "begin_ns", "end_ns")]
    names = [entry["item"], entry[kinds[0]]]
    if not all(_is_count(number) for number in numbers) or not all(isinstance(name, str) for name in names):
        raise BoardError(f"{where}: a count or a name is none: {line.strip()[:200]}")
    execution, vector, begin_ns, end_ns = numbers
    if end_ns < begin_ns:
        raise BoardError(f"{where}: the step ends {begin_ns - end_ns:,} ns before it begins")
    return Event(execution, vector, names[0], kinds[0], names[1], begin_ns, end_ns)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < LATEST

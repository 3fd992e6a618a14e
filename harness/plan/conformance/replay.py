"""Replay of a trace on the net of its plan: violations with the item, the step and how much too early it was.

The net is the paper's coloured Petri net, repeated for a stream of executions: translation 2 of the description of the
plan (`harness.plan.items`).  Transitions are the tasks, in the colours of their items, and a task takes a token in its
own colour for every tensor that it reads.  A `sync` passes tokens on at once, so that such a token is there as soon as
the writer has put its own.  Parameters are there from the beginning.  Executions can go wrong at the places between two
tasks:

    variable   from the task that writes it to one that reads it; empty at first
    free       from a reader back to the writer (the paper's remark 2): a copy of the buffer that it no longer needs;
               initially one token for each copy of the buffer
    input      from one reader of the network's input to another: the main thread, which no trace shows, fills it again
               when all have read it, and no reader can continue before that; initially one token

The paper has one place with a token for every reader; one place for each reader is equivalent.  Then every place has
one task that puts tokens and one that takes them: the net is a marked graph.  There the k-th token that is put into a
place with m first ones is the one that the taker's firing k + m takes, so tokens need no colours for executions.
Hence a trace is a path of the net if and only if, for every place and every execution, the taker begins after the giver
has ended.  Steps take time: a task takes its tokens when it begins and gives when it has ended.  Equal times are in
order, as clocks have a resolution.

Two assumptions of the net are checked too: an item is one thread, which takes one step at a time in the order of its
schedule; and a `sync` lets no item pass too early.  No item leaves a barrier before all have come, and no reader
continues before its flag is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np

from harness.plan.conformance.trace import Times, Trace
from harness.plan.items.description import describe, identifier, input_identifiers
from harness.plan.items.translation import translate_items
from harness.plan.plan import Compute, Cross, Plan


@dataclass(frozen=True)
class Place:
    """The place that `giver` fills and `taker` empties (indices of tasks), with its first tokens."""

    kind: Literal["variable", "free", "input"]
    giver: int
    taker: int
    tokens: int


def places_of(plan: Plan) -> tuple[Place, ...]:
    """Return all places between two tasks: variables for each reader, their free copies, and the input."""
    net = translate_items(describe(plan).items)
    tasks = {identifier(task.name): index for index, task in enumerate(plan.tasks)}
    taken = [(t.place, tasks[o.name]) for o in net.transitions if not o.sync for t in o.consumes]
    read = sorted((tasks[place], reader) for place, reader in taken if place in tasks)
    names = input_identifiers(plan.network).values()
    first = {reader for place, reader in taken if place in names}  # all inputs are filled together
    variables = (Place("variable", writer, reader, 0) for writer, reader in read)
    free = (Place("free", reader, writer, plan.tasks[writer].buffers) for writer, reader in read)
    inputs = (Place("input", reader, other, 1) for reader, other in permutations(sorted(first), 2))
    return (*variables, *free, *inputs)


@dataclass(frozen=True, order=True)
class Violation:
    """Something that the net forbids, in execution `execution`, by `early_ns`: 0 where it is a step too many or few."""

    execution: int
    early_ns: int
    text: str


@dataclass(frozen=True)
class Conformance:
    """The result of a replay: the trace is a path of the net, or the violations in the order of the executions."""

    executions: int
    events: int
    violations: tuple[Violation, ...]

    @property
    def conforms(self) -> bool:
        """Return whether every observed execution is a path of the net."""
        return not self.violations


def replay(plan: Plan, trace: Trace) -> Conformance:
    """Replay `trace` on the net of `plan`; missing steps are only reported, without further checks."""
    found = [*_gaps(plan, trace), *_tokens(plan, trace), *_overlaps(plan, trace), *_crossings(plan, trace)]
    return Conformance(trace.executions, trace.events, tuple(sorted(found)))


def _gaps(plan: Plan, trace: Trace) -> Iterator[Violation]:
    for gap in trace.gaps:
        column = trace.columns[gap.column]
        step = f"{column.kind} {column.name} of execution {gap.execution}"
        times = f"took {step} {gap.times} times" if gap.times else f"never took {step}"
        yield Violation(gap.execution, 0, f"{plan.items[column.item].name} {times}")


def _tokens(plan: Plan, trace: Trace) -> Iterator[Violation]:
    """Yield tasks that took a token before it was there."""
    columns = {c.step.task: number for number, c in enumerate(trace.columns) if isinstance(c.step, Compute)}
    for place in places_of(plan):
        describe = {"variable": _variable, "free": _free, "input": _input}[place.kind]
        given, taken = trace.end_ns[:, columns[place.giver]], trace.begin_ns[:, columns[place.taker]]
        count = max(0, trace.executions - place.tokens)
        for number, early_ns in _early(given[:count], taken[place.tokens :]):
            execution = number + place.tokens
            yield Violation(execution, early_ns, describe(plan, place, execution, early_ns))


def _early(after_ns: Times, begin_ns: Times) -> Iterator[tuple[int, int]]:
    """Yield (index, ns) of the events that started too early, and by how much; both int64 (n,)."""
    for index in np.flatnonzero(begin_ns < after_ns):
        yield int(index), int(after_ns[index] - begin_ns[index])


def _variable(plan: Plan, place: Place, execution: int, early_ns: int) -> str:
    writer, reader = plan.tasks[place.giver], plan.tasks[place.taker]
    return (
        f"{plan.items[reader.item].name} began {reader.name} of execution {execution} {early_ns:,} ns before "
        f"{plan.items[writer.item].name} had ended {writer.name}, which it reads"
    )


def _free(plan: Plan, place: Place, execution: int, early_ns: int) -> str:
    reader, writer = plan.tasks[place.giver], plan.tasks[place.taker]
    return (
        f"{plan.items[writer.item].name} began to overwrite {writer.name} (execution {execution}) {early_ns:,} ns "
        f"before {plan.items[reader.item].name} had read it ({reader.name} of execution {execution - place.tokens})"
    )


def _input(plan: Plan, place: Place, execution: int, early_ns: int) -> str:
    other, reader = plan.tasks[place.giver], plan.tasks[place.taker]
    return (
        f"{plan.items[reader.item].name} began {reader.name} of execution {execution} {early_ns:,} ns before "
        f"{plan.items[other.item].name} had read the input of execution {execution - place.tokens} ({other.name})"
    )


def _overlaps(plan: Plan, trace: Trace) -> Iterator[Violation]:
    """Yield steps of an item that began before the one before them in its schedule had ended."""
    for item, entry in enumerate(plan.items):
        rows, columns = _in_order(trace, [number for number, c in enumerate(trace.columns) if c.item == item])
        for index, early_ns in _early(trace.end_ns[rows, columns][:-1], trace.begin_ns[rows, columns][1:]):
            ended, following = (trace.columns[columns[i]] for i in (index, index + 1))
            execution = int(rows[index + 1])
            deed = (
                f"began {following.name}" if following.kind == "layer" else f"came to {following.kind} {following.name}"
            )
            before = f"ended {ended.name}" if ended.kind == "layer" else f"left {ended.kind} {ended.name}"
            text = f"{deed} of execution {execution} {early_ns:,} ns before it had {before} of execution {rows[index]}"
            yield Violation(execution, early_ns, f"{entry.name} {text}")


def _in_order(trace: Trace, numbers: Sequence[int]) -> tuple[Times, Times]:
    """Return (execution, column) of all steps of an item, in the order of ticks and within them of its schedule."""
    stages = np.array([trace.columns[number].stage for number in numbers], np.int64)
    rows = np.repeat(np.arange(trace.executions), len(numbers))
    columns = np.tile(np.array(numbers, np.int64), trace.executions)
    order = np.lexsort((columns, rows + np.tile(stages, trace.executions)))
    return rows[order], columns[order]


def _crossings(plan: Plan, trace: Trace) -> Iterator[Violation]:
    """Yield items that went on from a hand-over before those had come for whom they must wait."""
    number = {(c.item, c.step): index for index, c in enumerate(trace.columns)}
    for index, hand_over in enumerate(plan.hand_overs):
        everyone = permutations(hand_over.items, 2)
        readers = ((reader, hand_over.writer) for reader in hand_over.items[1:])
        for item, awaited in everyone if plan.sync == "barrier" else readers:
            leaves, comes = number[item, Cross(index)], number[awaited, Cross(index)]
            both = trace.taken[:, leaves] & trace.taken[:, comes]
            describe = _passed(plan, hand_over.name, item, awaited)
            came_ns = np.where(both, trace.begin_ns[:, comes], -1)
            for execution, early_ns in _early(came_ns, trace.end_ns[:, leaves]):
                yield Violation(execution, early_ns, describe(execution, early_ns))


def _passed(plan: Plan, name: str, item: int, awaited: int) -> Callable[[int, int], str]:
    deed = "had come" if plan.sync == "barrier" else "raised it"
    who, other = plan.items[item].name, plan.items[awaited].name
    return lambda execution, early_ns: (
        f"{who} left {plan.sync} {name} of execution {execution} {early_ns:,} ns before {other} {deed}"
    )

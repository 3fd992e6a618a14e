"""Check that every order in which items can run respects the semantics of the network.

`check` knows what a plan means on a board, and nothing of how `harness.plan.plan` makes one, so that it finds its
mistakes.

At a tick all items start together, each walks its schedule, and all meet again.  A task of stage s works on execution
t - s at tick t; a hand-over is in stage 0, as on the board.  So two steps of different ticks are ordered by their
ticks.  Two of one tick are ordered if the schedules and hand-overs of that tick order them; and hand-overs do so only
in ticks in which an execution begins: when a run ends, the later stages are at work without them.

*One abstract run decides about all.*  No step ever disables another step: a barrier or a flag serves named steps only,
each of which waits for it once a tick.  (In the words of Petri nets: the schedules are a
marked graph, which has no conflicts.)  Hence all runs take the same steps, and if one is stuck, all get stuck in the
same place.  The run keeps a vector clock for every item: of each other item, how many steps are known to be done.  A
step comes before another in every interleaving exactly if it is known to be done when that begins; if it is not, there
is an interleaving in which the other comes first.

The semantics: Gauffriau, De Albuquerque Silva, Pagetti (ERTS 2024), translation 2, repeated for a stream of inputs
(their remark 2): a task takes the tokens of its sources of the same execution, and a free copy of its own buffer, which
its readers of an earlier execution gave back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.plan.conformance.structure import PlanDefect, item_names, malformed, source_tasks
from harness.plan.plan import Compute, Cross, Plan, Step, Task


def check(plan: Plan) -> tuple[PlanDefect, ...]:
    """Return all mistakes of `plan`; none if every interleaving of its items computes the network in every execution.

    The order of steps is looked at only if the plan is well formed, and that of reads and writes only without deadlock.
    """
    found = malformed(plan)
    if found:
        return found
    run = _Run(plan)
    run.finish()
    orders = _early_reads(plan, run), _early_writes(plan, run), _early_inputs(plan), _shared_bytes(plan, run)
    return tuple(run.deadlock() or itertools.chain(*orders))


def work_together(plan: Plan) -> bool:
    """Return whether two items can work at the same time: no hand-over orders some task of one and of the other."""
    run = _Run(plan)
    run.finish()
    pairs = itertools.combinations(range(len(plan.tasks)), 2)
    return any(not run.ordered(one, other) and not run.ordered(other, one) for one, other in pairs)


def _early_reads(plan: Plan, run: _Run) -> Iterator[PlanDefect]:
    """Yield reads that may come before the write of the same execution."""
    for index, sources in enumerate(source_tasks(plan)):
        for source in sorted(set(sources)):
            late = plan.tasks[source].stage - plan.tasks[index].stage
            if late > 0 or (late == 0 and not run.ordered(source, index)):
                yield PlanDefect("data", _early_read(plan, source, index, late))


def _early_read(plan: Plan, source: int, index: int, late: int) -> str:
    written, task = plan.tasks[source], plan.tasks[index]
    writer, reader = plan.items[written.item].name, plan.items[task.item].name
    if late > 0:
        return (
            f"{task.name} ({reader}, stage {task.stage}) reads {written.name} before it is written "
            f"({writer}, stage {written.stage})"
        )
    if task.item == written.item:
        return f"{reader} computes {task.name} before {written.name}, which it reads"
    unordered = _unordered(plan, written, task)
    return f"{task.name} on {reader} may read {written.name} before {writer} has written it: {unordered}"


def _unordered(plan: Plan, written: Task, task: Task) -> str:
    """Explain why no hand-over orders two tasks of one tick."""
    between = [h.name for h in plan.hand_overs if {written.item, task.item} <= set(h.items)]
    if not between:
        return f"there is no hand-over between {item_names(plan, (written.item, task.item))}"
    if task.stage > 0:
        return f"hand-overs take no part in stage {task.stage}"
    if written.name in between:
        return f"hand-over {written.name} does not order the two"
    return f"none of their {len(between)} hand-overs orders the two"


def _early_writes(plan: Plan, run: _Run) -> Iterator[PlanDefect]:
    """Yield writes that may precede the last read of the same copy's content, from `buffers` executions ago."""
    for reader, sources in enumerate(source_tasks(plan)):
        for source in sorted(set(sources)):
            task, written = plan.tasks[reader], plan.tasks[source]
            late = task.stage - written.stage - written.buffers
            if late > 0 or (late == 0 and not run.ordered(reader, source)):
                yield PlanDefect("overwrite", _early_write(plan, written, task))


def _early_write(plan: Plan, written: Task, task: Task) -> str:
    writer, reader = plan.items[written.item].name, plan.items[task.item].name
    return (
        f"{writer} may overwrite {written.name} with execution n + {written.buffers} before {reader} has read "
        f"execution n ({task.name}, stage {task.stage} against {written.stage}): {_copies(written.buffers)}"
    )


def _shared_bytes(plan: Plan, run: _Run) -> Iterator[PlanDefect]:
    """Yield pairs of buffers with common bytes of which each may be written before the other is read for the last time.

    Buffers of different stages share none, nor does one that a later stage reads: it is needed from tick to tick.
    """
    read_by: dict[int, list[int]] = {}
    for reader, sources in enumerate(source_tasks(plan)):
        for source in set(sources):
            read_by.setdefault(source, []).append(reader)

    def over(first: int, then: int) -> bool:
        return first in read_by and all(run.ordered(each, then) for each in (first, *read_by[first]))

    places = [(index, *_place(plan, task)) for index, task in enumerate(plan.tasks) if task.offset is not None]
    for (one, start, stop), (other, begin, end) in itertools.combinations(places, 2):
        users = (one, other, *read_by.get(one, ()), *read_by.get(other, ()))
        in_order = len({plan.tasks[user].stage for user in users}) == 1 and (over(one, other) or over(other, one))
        if start < end and begin < stop and not in_order:
            names, both = f"{plan.tasks[one].name} and {plan.tasks[other].name}", (max(start, begin), min(stop, end))
            yield PlanDefect(
                "overwrite",
                f"{names} share bytes {both[0]} to {both[1]} per vector of the arena, and no order of their items has "
                "one read before the other is written",
            )


def _place(plan: Plan, task: Task) -> tuple[int, int]:
    """Return the first byte per vector in the arena, and the one after the last."""
    start = task.offset or 0
    return start, start + task.size * plan.network.layers[task.layer].dtype.itemsize


def _copies(count: int) -> str:
    return "it has one buffer" if count == 1 else f"it has {count} buffers"


def _early_inputs(plan: Plan) -> Iterator[PlanDefect]:
    """Yield the main thread fills the one buffer of an input before a tick, for the execution that begins in it."""
    names = {tensor.name for tensor in plan.network.inputs}
    for task in plan.tasks:
        for name in sorted(names & {*plan.network.layers[task.layer].sources}) if task.stage > 0 else ():
            reader = plan.items[task.item].name
            yield PlanDefect(
                "overwrite",
                f"the main thread overwrites the network's input {name} with execution n + 1 before {reader} has read "
                f"execution n ({task.name}, stage {task.stage}): {_copies(1)}",
            )


@dataclass
class _Run:
    """One tick in which every stage has work, in any order that the hand-overs allow."""

    plan: Plan
    at: list[int] = field(init=False)
    clocks: list[list[int]] = field(init=False)
    known: dict[int, tuple[int, ...]] = field(default_factory=dict)  # when a task begins
    raised: dict[int, list[int]] = field(default_factory=dict)  # with a flag
    places: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.plan.items)
        self.at = [0] * count  # the next step of every item
        self.clocks = [[0] * count for _ in range(count)]
        self.places = {
            step.task: number
            for schedule in self.plan.schedules
            for number, step in enumerate(schedule)
            if isinstance(step, Compute)
        }

    def finish(self) -> None:
        """Take steps until no item can take one."""
        while sum(self._walk(item) for item in range(len(self.at))):
            pass

    def ordered(self, first: int, second: int) -> bool:
        """Return whether task `first` ends before task `second` begins in every tick with both of their stages."""
        one, other = self.plan.tasks[first], self.plan.tasks[second]
        if one.item == other.item:
            return self.places[first] < self.places[second]
        return min(one.stage, other.stage) == 0 and self.places[first] < self.known[second][one.item]

    def deadlock(self) -> tuple[PlanDefect, ...]:
        """Return at which hand-over every blocked item waits, and for which items."""
        waits = [
            f"{self.plan.items[item].name} waits at hand-over {self.plan.hand_overs[step.hand_over].name} "
            f"for {item_names(self.plan, self._awaited(step))}"
            for item in range(len(self.at))
            if isinstance(step := self._next(item), Cross)
        ]
        return (PlanDefect("deadlock", f"no run comes to its end: {'; '.join(waits)}"),) if waits else ()

    def _next(self, item: int) -> Step | None:
        schedule = self.plan.schedules[item]
        return schedule[self.at[item]] if self.at[item] < len(schedule) else None

    def _walk(self, item: int) -> int:
        """Take all steps that an item can take now; how many."""
        before = self.at[item]
        while (step := self._next(item)) is not None and self._take(item, step):
            pass
        return self.at[item] - before

    def _take(self, item: int, step: Step) -> bool:
        """Take one step; False if the item must wait."""
        if isinstance(step, Compute):
            self.known[step.task] = tuple(self.clocks[item])
            self._advance(item)
        elif self._awaited(step, item):
            return False
        elif self.plan.sync == "barrier":
            self._meet(self.plan.hand_overs[step.hand_over].items)
        else:
            self._pass_flag(item, step.hand_over)
        return True

    def _awaited(self, step: Cross, item: int | None = None) -> list[int]:
        """Return the items for which those at a hand-over wait; the writer of a flag, `item`, does not wait."""
        items = self.plan.hand_overs[step.hand_over].items
        if self.plan.sync == "barrier":
            return [other for other in items if self._next(other) != step]
        return [] if item == items[0] or step.hand_over in self.raised else [items[0]]

    def _meet(self, items: tuple[int, ...]) -> None:
        together = self._join(*(self.clocks[item] for item in items))
        for item in items:
            self.clocks[item] = list(together)
            self._advance(item)

    def _pass_flag(self, item: int, hand_over: int) -> None:
        if item == self.plan.hand_overs[hand_over].writer:
            self.raised[hand_over] = list(self.clocks[item])
        else:
            self.clocks[item] = self._join(self.clocks[item], self.raised[hand_over])
        self._advance(item)

    @staticmethod
    def _join(*clocks: list[int]) -> list[int]:
        return [max(counts) for counts in zip(*clocks, strict=True)]

    def _advance(self, item: int) -> None:
        self.at[item] += 1
        self.clocks[item][item] = self.at[item]

"""All interleavings of a small plan, tried one by one: what the static check must agree with."""

from __future__ import annotations

from harness.plan.plan import Compute, Cross, Plan, Step

State = tuple[tuple[int, bool], ...]
"""Of every item its next step, and whether it is in the middle of that."""


def goes_wrong(plan: Plan, executions: int) -> bool:
    """Can a run of so many executions get stuck, read a buffer too early or overwrite one too early?"""
    return any(_Tick(plan, tick, executions).goes_wrong() for tick in range(executions + plan.depth - 1))


class _Tick:
    """One tick: every reachable state of it."""

    def __init__(self, plan: Plan, tick: int, executions: int) -> None:
        self.plan, self.tick, self.executions = plan, tick, executions
        self.steps = [[step for step in schedule if self.works(step)] for schedule in plan.schedules]

    def execution(self, step: Step) -> int:
        return self.tick - (self.plan.tasks[step.task].stage if isinstance(step, Compute) else 0)

    def works(self, step: Step) -> bool:
        return 0 <= self.execution(step) < self.executions

    def goes_wrong(self) -> bool:
        seen: set[State] = set()
        left: list[State] = [tuple((0, False) for _ in self.steps)]
        while left:
            state = left.pop()
            if state in seen:
                continue
            seen.add(state)
            after = [self.after(state, item) for item in range(len(state)) if self.can(state, item)]
            if (not after and any(self.next(state, item) for item in range(len(state)))) or self.wrong(state):
                return True
            left += after
        return False

    def next(self, state: State, item: int) -> Step | None:
        at = state[item][0]
        return self.steps[item][at] if at < len(self.steps[item]) else None

    def can(self, state: State, item: int) -> bool:
        """Tasks begin and end, barriers are crossed by all at once (when their last item does), flags by each."""
        step = self.next(state, item)
        if not isinstance(step, Cross):
            return step is not None
        items = self.plan.hand_overs[step.hand_over].items
        if self.plan.sync == "barrier":
            return item == items[-1] and all(self.next(state, other) == step for other in items)
        return item == items[0] or self.done(state, items[0], step)

    def after(self, state: State, item: int) -> State:
        step, (at, inside) = self.next(state, item), state[item]
        if isinstance(step, Compute) and not inside:
            return (*state[:item], (at, True), *state[item + 1 :])
        together = self.plan.sync == "barrier" and isinstance(step, Cross)
        movers = self.plan.hand_overs[step.hand_over].items if together else (item,)  # type: ignore[union-attr]
        return tuple(
            (place + 1, False) if other in movers else (place, busy) for other, (place, busy) in enumerate(state)
        )

    def done(self, state: State, item: int, step: Step) -> bool:
        return step in self.steps[item] and state[item][0] > self.steps[item].index(step)

    def task_done(self, state: State, task: int, execution: int) -> bool:
        """Has the task ended for this execution, in this tick or before?"""
        when = execution + self.plan.tasks[task].stage
        return when < self.tick or (when == self.tick and self.done(state, self.plan.tasks[task].item, Compute(task)))

    def wrong(self, state: State) -> bool:
        """Does a task compute whose sources are not ready, or whose buffer, or bytes of it, are still to be read?"""
        busy = [self.next(state, item) for item, (_, inside) in enumerate(state) if inside]
        return any(
            self.wrong_task(state, step.task, self.execution(step)) for step in busy if isinstance(step, Compute)
        )

    def wrong_task(self, state: State, task: int, execution: int) -> bool:
        earlier = execution - self.plan.tasks[task].buffers
        readers = self.readers(task)
        if any(self.needed(state, other) for other in self.sharing(task)):
            return True
        return not all(self.task_done(state, source, execution) for source in self.plan.reads[task]) or (
            earlier >= 0 and not all(self.task_done(state, reader, earlier) for reader in readers)
        )

    def readers(self, task: int) -> list[int]:
        return [reader for reader, sources in enumerate(self.plan.reads) if task in sources]

    def sharing(self, task: int) -> list[int]:
        """The other tasks whose buffers have a byte in common with this one's."""
        mine = self.bytes_of(task)
        return [other for other in range(len(self.plan.tasks)) if other != task and mine & self.bytes_of(other)]

    def bytes_of(self, task: int) -> set[int]:
        found = self.plan.tasks[task]
        width = (found.stop - found.start) * self.plan.network.layers[found.layer].dtype.itemsize
        return set() if found.offset is None else set(range(found.offset, found.offset + width))

    def needed(self, state: State, task: int) -> bool:
        """Has the task begun to write what a reader, or at the end of the tick the dump of a result, is to read?"""
        readers, item = self.readers(task), self.plan.tasks[task].item
        for execution in range(self.executions):
            tick = execution + self.plan.tasks[task].stage
            if tick > self.tick or (tick == self.tick and state[item] < (self.steps[item].index(Compute(task)), True)):
                continue
            if not all(self.task_done(state, reader, execution) for reader in readers) or (
                not readers and tick == self.tick
            ):
                return True
        return False

"""What the columns of the readings are of: the network, the items, or the layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness import targets
from harness.jobs import Job
from harness.measurement.asked import Asked
from harness.plan import Item
from harness.profile import Profile


@dataclass(frozen=True)
class Part:
    """A column: its name, where it really ran, the function that the processor calls for it.

    `alone` is whether all of it is done by processors: where an item waits for a device, or for what plays one, the
    instructions that it executes meanwhile say nothing of the network.
    """

    name: str
    ran_on: str
    function: str
    alone: bool


def parts_of(job: Job, asked: Asked) -> tuple[Part, ...]:
    """The parts, column by column."""
    plan, profile = job.plan, job.profile
    if asked.scope == "network":
        return (_part(job.network.name, "network", plan.items, profile),)
    if asked.scope == "item":
        return tuple(_part(item.name, f"item {item.name}", [item], profile) for item in plan.items)
    tasks = [plan.tasks_of(index) for index in range(len(job.network.layers))]
    return tuple(
        _part(layer.name, _functions(task.name for task in own), [plan.items[task.item] for task in own], profile)
        for layer, own in zip(job.network.layers, tasks, strict=True)
    )


def _functions(tasks: Iterable[str]) -> str:
    return ", ".join(f"{task}_forward" for task in tasks)


def _part(name: str, function: str, items: Sequence[Item], profile: Profile) -> Part:
    found = [targets.find(item.target) for item in items]
    where = " + ".join(dict.fromkeys(target.ran_on(profile) for target in found))
    return Part(name, where, function, all(target.compiler() is None for target in found))

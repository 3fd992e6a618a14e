"""Parts of a network that the columns of the readings measure: the network, items, or layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness import targets
from harness.plan.plan import Item, Plan
from harness.runs import document
from harness.runs.job import Job
from harness.runs.measurement.request import MeasurementOptions, Quantity


@dataclass(frozen=True)
class MeasuredPart:
    """A column: its name, where it really ran, the function that the processor calls for it.

    `tasks` is the number of readings in a sum, which contains the cost of a reading that many times.

    `alone` is true if processor cores compute the whole part, with a target's own code or with an engine's (LiteRT,
    IREE).  If an item waits for a device or its simulation, the instructions of the wait do not describe the network.
    """

    name: str
    ran_on: str
    function: str
    alone: bool
    tasks: int = 1


def parts_of(job: Job, options: MeasurementOptions) -> tuple[MeasuredPart, ...]:
    """Return the parts, column by column."""
    return planned(job.plan, document.where_of(job), options)


def planned(plan: Plan, ran_on: Sequence[str], options: MeasurementOptions) -> tuple[MeasuredPart, ...]:
    """Return the parts of a plan; `ran_on` states where each item really ran."""
    where = {item.name: place for item, place in zip(plan.items, ran_on, strict=True)}
    if options.scope == "network":
        summed = 1 if options.quantity is Quantity.TIME else len(plan.tasks)
        return (_part(plan.network.name, "network", plan.items, where, summed),)
    if options.scope == "item":
        counts = Counter(task.item for task in plan.tasks)
        return tuple(
            _part(item.name, f"item {item.name}", [item], where, counts[index]) for index, item in enumerate(plan.items)
        )
    tasks = [plan.tasks_of(index) for index in range(len(plan.network.layers))]
    return tuple(
        _part(
            layer.name, _functions(task.name for task in own), [plan.items[task.item] for task in own], where, len(own)
        )
        for layer, own in zip(plan.network.layers, tasks, strict=True)
    )


def names_of(plan: Plan, options: MeasurementOptions) -> tuple[str, ...]:
    """Return the names of the parts, column by column."""
    names = {
        "network": ["network"],
        "item": [item.name for item in plan.items],
        "layer": [layer.name for layer in plan.network.layers],
    }
    return tuple(names[options.scope])


def interval(plan: Plan, options: MeasurementOptions) -> str:
    """Describe the interval of a reading, or the sum that it is."""
    counted = options.quantity is not Quantity.TIME
    if options.scope == "network" and not counted:
        stages = f", through {plan.depth} stages and all that lies between their ticks" if plan.depth > 1 else ""
        return f"from the start of the first task to the end of the last, hand-overs included{stages}"
    shared = len(plan.tasks) > len(plan.network.layers) and options.scope == "layer"
    together = "; of a layer that several items share, what they take together" if shared else ""
    return f"the sum of the {options.scope}'s tasks, without the times at which items wait for each other{together}"


def _functions(tasks: Iterable[str]) -> str:
    return ", ".join(f"{task}_forward" for task in tasks)


def _part(name: str, function: str, items: Sequence[Item], where: Mapping[str, str], tasks: int) -> MeasuredPart:
    ran_on = " + ".join(dict.fromkeys(where[item.name] for item in items))
    alone = not any(targets.find(item.target).reports_times for item in items)
    return MeasuredPart(name, ran_on, function, alone, tasks)

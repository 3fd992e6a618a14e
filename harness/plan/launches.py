"""Launches: adjacent tasks of an item that its target may compute together, as the target sees them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness import targets
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.obligations import StageKind
from harness.operators.region import Region
from harness.operators.tensor import Tensor
from harness.plan.plan import Compute, Plan, Source, Task, buffer_bytes
from harness.targets.generated import Join, Launch, Stage, TaskView


@dataclass(frozen=True)
class PlannedLaunch:
    """Tasks of an item that its target may compute together: adjacent, with nothing in between.

    `sources` are the tasks outside the launch whose buffers it reads, and inputs of the network, each once.
    `outputs` are its tasks whose buffers are read outside; nothing needs to read a result of the network.
    """

    item: int
    tasks: tuple[Task, ...]
    sources: tuple[Task | Tensor, ...]
    outputs: tuple[Task, ...]


def require_lowerings(plan: Plan) -> None:
    """Raise RequestError if the target of an item cannot compute one of its layers exactly."""
    for task in plan.tasks:
        target, layer = plan.items[task.item].target, plan.part(task)
        reason = targets.find(target).unsupported(layer)
        if reason:
            raise RequestError(
                f"target {target} cannot compute layer {layer.name} ({layer.operator}): {reason}",
                "choose another target for that item with --items",
            )


def planned_launches(plan: Plan) -> tuple[PlannedLaunch, ...]:
    """Return the launches of all items, in the order of their first tasks."""
    readers = _readers(plan)
    found = [
        PlannedLaunch(
            index, tuple(tasks), _sources(plan, tasks), tuple(t for t in tasks if _is_output(plan, t, tasks, readers))
        )
        for index in range(len(plan.items))
        for tasks in _launches_of(plan, index)
    ]
    return tuple(sorted(found, key=lambda launch: place_of(launch.tasks[0])))


def item_views(plan: Plan) -> list[list[Launch]]:
    """Return the launches of every item as its target sees them."""
    views: list[list[Launch]] = [[] for _ in plan.items]
    launches, readers = planned_launches(plan), _readers(plan)
    launch_of = {task.name: launch for launch in launches for task in launch.tasks}
    for launch in launches:
        views[launch.item].append([_view(plan, task, launch_of, readers[task.name]) for task in launch.tasks])
    return views


def vector_bytes(plan: Plan) -> int:
    """Return the bytes of memory that each vector of a block takes on the board: buffers, and copies for devices."""
    items = zip(plan.items, item_views(plan), strict=True)
    copies = sum(targets.find(item.target).device_bytes(launches) for item, launches in items)
    return buffer_bytes(plan.network, plan.tasks) + copies


def _view(plan: Plan, task: Task, launch_of: Mapping[str, PlannedLaunch], readers: Sequence[Task]) -> TaskView:
    own = launch_of[task.name]
    outside = [reader for reader in readers if launch_of[reader.name] is not own]
    handed = [reader for reader in outside if _reads(plan, reader, task, taken=True)]
    written = {writer: None for source in plan.sources(task) if is_on_device(plan, task, source)
               for writer in source.writers if launch_of[writer.name] is not own}  # fmt: skip
    others = (launch_of[other.name] for other in (*written, *handed))
    is_result = not readers or task.layer == len(plan.network.layers) - 1
    return TaskView(
        plan.part(task),
        tuple(source_buffers(plan, task)),
        is_result or any(_reads(plan, reader, task, taken=False) for reader in outside),
        is_handed=bool(handed),
        taken=tuple(map(output_buffer, written)),
        joins=tuple(_joins_of(plan, task)),
        awaited=tuple(dict.fromkeys(other.tasks[0].name for other in others if other.item != own.item)),
    )


def is_on_device(plan: Plan, task: Task, source: Source) -> bool:
    """Return whether all values of a source of `task` stay in the memory of the device on which they were computed.

    In a pipeline buffers have copies, and the schedule reads them from one execution to the next.
    """
    if plan.depth > 1 or not source.writers:
        return False
    memories = {targets.find(plan.items[each.item].target).device_memory for each in (task, *source.writers)}
    return len(memories) == 1 and memories != {""}


def _reads(plan: Plan, reader: Task, writer: Task, *, taken: bool) -> bool:
    """Return whether a source of `reader` has values of `writer`, in the memory of a device or in the buffer."""
    return any(
        is_on_device(plan, reader, source) == taken for source in plan.sources(reader) if writer in source.writers
    )


def _launches_of(plan: Plan, item: int) -> list[list[Task]]:
    """Return the tasks of an item in launches; all sources of a launch are complete before it starts."""
    fuses_tasks = targets.find(plan.items[item].target).fuses_tasks
    found: list[list[Task]] = []
    joins = False
    for step in plan.schedules[item]:
        if isinstance(step, Compute):
            task = plan.tasks[step.task]
            if joins and found[-1][-1].stage == task.stage and not _merges_any(plan, task, found[-1]):
                found[-1].append(task)
            else:
                found.append([task])
        joins = fuses_tasks and isinstance(step, Compute)
    return found


def _sources(plan: Plan, launch: Sequence[Task]) -> tuple[Task | Tensor, ...]:
    read: dict[Task | Tensor, None] = {}
    for source in (source for task in launch for source in plan.sources(task)):
        read |= dict.fromkeys(source.writers or (source.tensor,))
    return tuple(source for source in read if source not in launch)


def _is_output(plan: Plan, task: Task, launch: Sequence[Task], readers: Mapping[str, Sequence[Task]]) -> bool:
    is_result = not readers[task.name] or task.layer == len(plan.network.layers) - 1
    return is_result or any(reader not in launch for reader in readers[task.name])


def _merges_any(plan: Plan, task: Task, of: Sequence[Task]) -> bool:
    """Return whether `task` joins a source with columns that one of these tasks writes."""
    return any(writer in of for source in plan.sources(task) if source.is_joined for writer in source.writers)


def _readers(plan: Plan) -> dict[str, list[Task]]:
    """Return by the name of a task those that read its output."""
    readers: dict[str, list[Task]] = {task.name: [] for task in plan.tasks}
    for task in plan.tasks:
        for writer in dict.fromkeys(writer for source in plan.sources(task) for writer in source.writers):
            readers[writer.name].append(task)
    return readers


def source_buffers(plan: Plan, task: Task) -> list[str]:
    """Return the names of the buffers of the task's sources in its code."""
    return [
        merged_buffer(task, index) if source.is_joined else written_buffers(plan.network, source)[0]
        for index, source in enumerate(plan.sources(task))
    ]


def written_buffers(network: Network, source: Source) -> list[str]:
    """Return the buffers that hold the values of a source."""
    return [output_buffer(writer) for writer in source.writers] or [input_array(network, source.tensor)]


def input_array(network: Network, tensor: Tensor) -> str:
    """Return the name of the buffer of an input of the network."""
    return "input" if len(network.inputs) == 1 else f"input_{network.inputs.index(tensor)}"


def output_buffer(task: Task) -> str:
    """Return the name of the buffer of a task."""
    return f"{task.name}_output"


def merged_buffer(task: Task, source: int) -> str:
    """Return the name of the buffer in which a source of a task is brought together."""
    return f"{task.name}_source_{source}"


@dataclass(frozen=True)
class Merge:
    """A source of a task that is brought together in a buffer: the stage that does it, and the tensor's values.

    The stage reads the `parts` side by side: the buffers of the writers, or that of an input of the network.
    """

    stage: Stage
    buffer: str
    source: Source
    parts: tuple[str, ...]

    @property
    def written(self) -> list[Region]:
        """The regions of the tensor that the buffers hold."""
        return [writer.region for writer in self.source.writers] or [Region(0, self.source.tensor.size)]

    @property
    def starts(self) -> list[int]:
        """The first value of each buffer in a vector of the stage."""
        return list(itertools.accumulate((region.size for region in self.written), initial=0))[:-1]

    def places(self) -> npt.NDArray[np.intp]:
        """Return the place of each value of the source in a vector of the stage."""
        size = self.source.tensor.size
        places = np.zeros(size, np.intp)
        places[np.concatenate([region.indices(size) for region in self.written])] = np.arange(self.stage.input_width)
        return places[self.source.region.indices(size)]


def merged_places(plan: Plan) -> dict[str, npt.NDArray[np.intp]]:
    """Return by the name of each merging stage the places in its input of the values that it gives, (width,)."""
    return {merge.stage.name: merge.places() for task in plan.tasks for merge in merges_of(plan, task)}


def _joins_of(plan: Plan, task: Task) -> Iterator[Join]:
    """Yield the sources of `task` that its device brings together."""
    for merge in merges_of(plan, task):
        if is_on_device(plan, task, merge.source):
            widths = tuple(region.size for region in merge.written)
            yield Join(merge.buffer, merge.stage, merge.parts, widths, merge.places())


def merges_of(plan: Plan, task: Task) -> list[Merge]:
    """Return the sources of `task` that are brought together."""
    found = []
    for index, source in enumerate(plan.sources(task)):
        if source.is_joined:
            name, dtype, width = merged_buffer(task, index), source.tensor.dtype, source.region.size
            given = sum(writer.size for writer in source.writers) or source.tensor.size
            stage = Stage(StageKind.MERGE, f"{name}_{StageKind.MERGE.value}", dtype, given, dtype, width)
            found.append(Merge(stage, name, source, tuple(written_buffers(plan.network, source))))
    return found


def place_of(task: Task) -> tuple[int, int]:
    """Return the sort key of a task: its layer, then its first column."""
    return task.layer, task.start

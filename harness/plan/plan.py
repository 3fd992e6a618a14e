"""`Network` x profile -> `Plan`: the columns of layers that each item computes, the synchronisation, the block size.

A *task* is the part of one layer that one item computes: all of its columns, or some.  Tasks run in the order of the
model.  Every task writes a buffer that no other writes; buffers whose contents are never needed at the same time can
share bytes of an arena (`reusing`).  If a task reads the output of another item, the two items synchronise, unless
earlier hand-overs have ordered them.  All items start and end an execution together, so that no buffer is overwritten
before it was read.  In a pipeline the tasks have stages, and a stage works on the execution
before that of the previous stage; items then do not synchronise within an execution, but buffers have copies.  The plan
is a printable value.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.core.text import plural
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.region import Region
from harness.operators.tensor import SHORT, Tensor
from harness.plan import arena
from harness.plan.split import Share, Split, parse

Sync: TypeAlias = Literal["barrier", "flag"]
"""The way items synchronise: at a `pthread_barrier_t`, or by a flag of the writer for which the reader waits."""


EMULATED_OPERATIONS = 1 << 30
"""Operations of a block of the default size on an emulated board: seconds, as accelerators have time limits."""

Buffers: TypeAlias = Literal["keep", "reuse"]
"""The use of memory: every buffer has bytes of its own, or buffers share bytes where the schedule permits it."""

Supports: TypeAlias = Callable[[str, Layer], bool]
"""The predicate that the target of this name computes the layer."""

Reuse: TypeAlias = Callable[[str], bool]
"""The predicate that buffers of items of the target of this name may share bytes."""


@dataclass(frozen=True)
class Item:
    """The part of the model given to one processing element; it runs as one thread."""

    name: str
    target: str
    core: int | None


@dataclass(frozen=True)
class Task:
    """The part of a layer that one item computes, in the pipeline's stage `stage`.

    These are columns `start` to `stop` of each of `runs` runs of the layer's columns: of all, which are one run, or of
    every channel.
    `buffers` is how many copies its buffer has: more than 1 only where a task of a later stage reads it.
    `offset` is where its buffer begins in the arena, in bytes per vector of a block; None if it has bytes of its own.
    """

    name: str
    layer: int
    item: int
    start: int
    stop: int
    stage: int = 0
    buffers: int = 1
    offset: int | None = None
    runs: int = 1

    @property
    def region(self) -> Region:
        """The values of the layer's output that it computes."""
        return Region(self.start, self.stop, self.runs)

    @property
    def size(self) -> int:
        """The number of these values."""
        return self.region.size


@dataclass(frozen=True)
class Source:
    """The values that a task reads of a tensor: this region, from the buffers of `writers`.

    The network's input has no writer.
    """

    tensor: Tensor
    region: Region
    writers: tuple[Task, ...]

    @property
    def is_joined(self) -> bool:
        """True if the values are not exactly those of one buffer, so that the task copies them into one of its own."""
        given = [writer.region for writer in self.writers] or [Region(0, self.tensor.size)]
        return given != [self.region]


@dataclass(frozen=True)
class HandOver:
    """The synchronisation, once per execution, of the task that writes a shared buffer with those that read it.

    `items` are the writer's item and those of the readers.  It is named after the task that it is there for; it orders
    all that the writer has done before, and at a barrier, which all items leave together, all that each of them has.
    """

    name: str
    items: tuple[int, ...]

    @property
    def writer(self) -> int:
        """The item that hands over."""
        return self.items[0]


@dataclass(frozen=True)
class Compute:
    """The step of an item that computes one task."""

    task: int


@dataclass(frozen=True)
class Cross:
    """The step of an item that takes its part in one hand-over."""

    hand_over: int


Step = Compute | Cross


@dataclass(frozen=True, eq=False)
class Plan:
    """The static schedule of a network on a board.

    `tasks` are in the order of the model, those of one layer by their columns; `schedules` holds the
    steps of every item, in order.  Only tasks of stage 0 read the network's input.
    """

    board: str
    network: Network
    block: int
    sync: Sync
    items: tuple[Item, ...]
    tasks: tuple[Task, ...]
    hand_overs: tuple[HandOver, ...]
    schedules: tuple[tuple[Step, ...], ...]

    @property
    def depth(self) -> int:
        """The number of executions at the same time: the stages of the pipeline, 1 without one."""
        return 1 + max(task.stage for task in self.tasks)

    def sources(self, task: Task) -> tuple[Source, ...]:
        """Return what `task` reads of every tensor that its layer reads."""
        return self._sources[task]

    @cached_property
    def _sources(self) -> dict[Task, tuple[Source, ...]]:
        return dict(zip(self.tasks, sources(self.network.layers, self.tasks), strict=True))

    @cached_property
    def reads(self) -> tuple[tuple[int, ...], ...]:
        """The tasks whose buffers each task reads, source by source."""
        return reads(self.network.layers, self.tasks)

    @cached_property
    def earlier(self) -> tuple[int, ...]:
        """The tasks, as a set of bits, that have ended in every interleaving when a task of their stage begins.

        Hand-overs order tasks of stage 0 only: later stages also run when no execution begins.
        """
        return _earlier(self)

    @cached_property
    def kept(self) -> tuple[bool, ...]:
        """The layers, as one bool each, whose activations no later task of an execution overwrites."""
        spans = {index: found for index, task in enumerate(self.tasks) if (found := span(self.network, task))}
        lost = {
            self.tasks[one].layer
            for one, other in itertools.permutations(spans, 2)
            if overlap(spans[one], spans[other]) and not self.earlier[one] >> other & 1
        }
        return tuple(index not in lost for index in range(len(self.network.layers)))

    @property
    def arena(self) -> int:
        """The size of the arena in bytes per vector of a block; 0 without one."""
        return arena_bytes(self.network, self.tasks)

    def part(self, task: Task) -> Layer:
        """Return the layer that `task` computes: the network's, or one of some of its columns by the task's name."""
        layer = self.network.layers[task.layer]
        return layer if task.size == layer.size else layer.division.slice(task.region, task.name)

    def tasks_of(self, layer: int) -> tuple[Task, ...]:
        """Return the tasks that make up a layer, by their columns."""
        return tuple(task for task in self.tasks if task.layer == layer)


def _require_inputs(network: Network) -> None:
    """Refuse inputs of types that no file of vectors has."""
    for tensor in network.inputs:
        if tensor.dtype in SHORT:
            raise RequestError(
                f"network {network.name}: its input {tensor.name!r} is {tensor.dtype}, which no .npy file has",
                "an input of float32, float16 or int8, and a Cast behind it",
            )


def make(
    network: Network,
    profile: Profile,
    targets: Sequence[str] | None = None,
    block: int | None = None,
    split: Sequence[str] | None = None,
    sync: Sync | None = None,
    supports: Supports = lambda *_: True,
    reuse: Reuse | None = None,
    vector_bytes: Callable[[Plan], int] | None = None,
) -> Plan:
    """Assign every layer as `split` says, or to the item of `profile` that claims it.

    The first item whose target supports a layer claims it, those that list its operator before those without a list.
    `targets` replaces the items' targets, in the profile's order; `split` and `sync` replace the profile's.  The
    default of `block` is that of the profile, or fewer vectors if the memory budget has no room for it, or an emulated
    board no time: `vector_bytes` returns the bytes of a vector, by default those of its buffers.  With `reuse`, buffers
    of items of the targets for which it is true share bytes of an arena; without, none do.
    RequestError if an operator has no item, the network does not permit the split, or `targets` has the wrong length.
    """
    _require_inputs(network)
    items = _items(profile, targets)
    wanted = _wanted(network, profile, split)
    shares = _shares(network, profile, wanted, items, supports)
    tasks = tasks_from(network.layers, shares, pipeline=wanted.pipeline)
    if wanted.pipeline and not any(task.stage for task in tasks):
        raise RequestError(
            f"split pipeline: one item of board {profile.name} computes all of {network.name}",
            "move some layers to another item: --split FIRST..LAST=ITEM,pipeline",
        )
    _require_first_stage(network, tasks)
    made = compose(profile.name, network, 1, sync or profile.sync, items, tasks)
    if any(layer.streaming.copies > 1 for layer in network.layers):
        block = _block_of_stream(network, block, pipeline=wanted.pipeline)

    def of(block: int) -> Plan:
        return reusing(made, reuse or (lambda _: False), block)

    return of(_largest_block(profile, of, vector_bytes or _buffer_bytes) if block is None else block)


def _require_first_stage(network: Network, tasks: Sequence[Task]) -> None:
    """Raise RequestError if a later stage of a pipeline reads an input, which by then has the next vectors."""
    names = {tensor.name for tensor in network.inputs}
    for task in tasks:
        read = sorted(names.intersection(network.layers[task.layer].sources))
        if task.stage > 0 and read:
            raise RequestError(
                f"split pipeline: layer {network.layers[task.layer].name} reads the input {read[0]!r} in stage "
                f"{task.stage}, when the input has the vectors of a later execution",
                "compute the layer in the first stage, with the layers before it, or omit the pipeline",
            )


def _block_of_stream(network: Network, block: int | None, *, pipeline: bool) -> int:
    """Return the block of a stream, whose steps are executions; RequestError if it was to be another."""
    if block not in (None, 1) or pipeline:
        asked = "split pipeline" if pipeline else f"--block {block}"
        raise RequestError(
            f"{asked}: each execution of {network.name} is one step of a stream, and reads the step before",
            "omit it: the block of a stream is 1, without a pipeline",
        )
    return 1


def _buffer_bytes(plan: Plan) -> int:
    return buffer_bytes(plan.network, plan.tasks)


def _largest_block(profile: Profile, of: Callable[[int], Plan], vector_bytes: Callable[[Plan], int]) -> int:
    """Return the number of vectors for which the memory budget has room, at most the profile's; fewer in emulation.

    The bytes per vector depend on the block if buffers share bytes: least is needed for multiples of a power of 2.
    """

    def needed(block: int) -> int:
        return block * vector_bytes(of(block))

    budget = profile.memory_budget_mib << 20
    most = min(profile.block, budget * arena.PERIOD // needed(arena.PERIOD))
    if profile.emulated:
        most = min(most, max(EMULATED_OPERATIONS // max(of(1).network.operations, 1), 1))
    powers = [1 << bit for bit in range(max(most, 1).bit_length())]
    tried = sorted({most, *powers, *(most - most % (1 << bit) for bit in range(arena.PERIOD.bit_length()))} - {0})
    return next((block for block in reversed(tried) if needed(block) <= budget), 1)


def reusing(plan: Plan, reuse: Reuse, block: int) -> Plan:
    """Return the plan for this block; buffers with one copy share bytes if `reuse` holds for their items' targets."""
    sizes = {
        index: _bytes(plan.network, task)
        for index, task in enumerate(plan.tasks)
        if task.buffers == 1 and reuse(plan.items[task.item].target)
    }
    offsets = arena.place(sizes, arena.conflicts(plan.earlier, _readers(plan)), arena.unit(block)) if sizes else {}
    tasks = tuple(dataclasses.replace(task, offset=offsets.get(index)) for index, task in enumerate(plan.tasks))
    return dataclasses.replace(plan, block=block, tasks=tasks)


def _readers(plan: Plan) -> list[list[int]]:
    """Return for every task those that read its buffer."""
    readers: list[list[int]] = [[] for _ in plan.tasks]
    for index, sources in enumerate(plan.reads):
        for source in sources:
            readers[source].append(index)
    return readers


def _bytes(network: Network, task: Task) -> int:
    """Return the bytes of one copy of the task's buffer for each vector of a block."""
    return task.size * network.layers[task.layer].dtype.itemsize


def span(network: Network, task: Task) -> range | None:
    """Return the bytes of the arena that the task's buffer has for each vector of a block; None if it has its own."""
    return None if task.offset is None else range(task.offset, task.offset + _bytes(network, task))


def overlap(one: range, other: range) -> bool:
    """Return whether two spans have a byte in common."""
    return one.start < other.stop and other.start < one.stop


def arena_bytes(network: Network, tasks: Sequence[Task]) -> int:
    """Return the size of the arena in bytes per vector of a block; 0 without one."""
    return max((found.stop for task in tasks if (found := span(network, task))), default=0)


def buffer_bytes(network: Network, tasks: Sequence[Task]) -> int:
    """Return the bytes that the buffers of activations take on the board for each vector of a block."""
    own = sum(task.buffers * _bytes(network, task) for task in tasks if task.offset is None)
    outputs = own + arena_bytes(network, tasks)
    read = (source for of_task in sources(network.layers, tasks) for source in of_task if source.is_joined)
    merged = sum(source.region.size * source.tensor.dtype.itemsize for source in read)
    return network.record.itemsize + outputs + merged


def compose(board: str, network: Network, block: int, sync: Sync, items: Sequence[Item], tasks: Sequence[Task]) -> Plan:
    """Return the plan of `tasks`, whose schedules and hand-overs follow from them; items without work are left out."""
    used = sorted({task.item for task in tasks})
    tasks = tuple(dataclasses.replace(task, item=used.index(task.item)) for task in tasks)
    hand_overs, schedules = _schedule(network.layers, tasks, len(used), sync)
    return Plan(board, network, block, sync, tuple(items[i] for i in used), tasks, hand_overs, schedules)


def _wanted(network: Network, profile: Profile, split: Sequence[str] | None) -> Split:
    """Return the split that was asked for, or else the profile's; an error says whose it is."""
    if split is not None:
        return parse(split, network, list(profile.items))
    try:
        return parse(profile.split, network, list(profile.items))
    except RequestError as error:
        raise RequestError(f"board {profile.name} in boards.yaml: {error.message}", error.hint) from error


def _items(profile: Profile, targets: Sequence[str] | None) -> tuple[Item, ...]:
    entries = profile.items.items()
    if targets is None:
        targets = [item.target for item in profile.items.values()]
    if len(targets) != len(entries):
        raise RequestError(
            f"--items names {plural(len(targets), 'target')}, but board {profile.name} has {len(entries)} items",
            f"one target for each of: {', '.join(profile.items)}",
        )
    return tuple(Item(name, target, item.core) for (name, item), target in zip(entries, targets, strict=True))


def _shares(
    network: Network, profile: Profile, split: Split, items: Sequence[Item], supports: Supports
) -> list[tuple[Share, ...]]:
    """Return for every layer which item computes which columns."""
    return [
        split.shares.get(index) or (Share(_claim(layer, profile, items, supports), 0, layer.size),)
        for index, layer in enumerate(network.layers)
    ]


def _claim(layer: Layer, profile: Profile, items: Sequence[Item], supports: Supports) -> int:
    entries = list(enumerate(profile.items.values()))
    listed = [index for index, entry in entries if layer.operator in (entry.operators or ())]
    candidates = [*listed, *(index for index, entry in entries if entry.operators is None)]
    if not candidates:
        names = " or ".join(profile.items)
        raise RequestError(
            f"board {profile.name}: no item computes {layer.operator} (layer {layer.name})",
            f"add it to the operators of {names} in boards.yaml, or leave the operators of one out",
        )
    # If none supports it, its target explains why when it is asked for the code.
    return next((index for index in candidates if supports(items[index].target, layer)), candidates[0])


def tasks_from(layers: Sequence[Layer], shares: Sequence[Sequence[Share]], *, pipeline: bool) -> tuple[Task, ...]:
    """Return the tasks of all layers, with their stages and the number of buffers that these need."""
    tasks: list[Task] = []
    taken = {layer.name for layer in layers}
    for index, (layer, parts) in enumerate(zip(layers, shares, strict=True)):
        for number, share in enumerate(parts):
            name, copies = layer.name, layer.streaming.copies
            name = name if len(parts) == 1 else unused(f"{name}_{number}", taken)
            tasks.append(Task(name, index, share.item, share.start, share.stop, buffers=copies, runs=share.runs))
    return _staged(layers, tasks) if pipeline else tuple(tasks)


def unused(name: str, taken: set[str]) -> str:
    """Return `name`, or the next like it that is not among `taken`, which it joins."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def sources(layers: Sequence[Layer], tasks: Sequence[Task]) -> list[tuple[Source, ...]]:
    """Return for every task what it reads of each tensor, from those tasks alone whose values it needs."""
    writer = {layer.output.name: index for index, layer in enumerate(layers)}
    parts: dict[int, list[Task]] = {}
    for task in tasks:
        parts.setdefault(task.layer, []).append(task)

    def source(tensor: Tensor, region: Region) -> Source:
        written = parts[writer[tensor.name]] if tensor.name in writer else ()
        return Source(tensor, region, tuple(task for task in written if task.region.meets(region)))

    found = []
    for task in tasks:
        layer = layers[task.layer]
        needs = layer.division.needs(task.region)
        found.append(tuple(source(tensor, region) for tensor, region in zip(layer.inputs, needs, strict=True)))
    return found


def reads(layers: Sequence[Layer], tasks: Sequence[Task]) -> tuple[tuple[int, ...], ...]:
    """Return for every task the indices of those whose buffers it reads, source by source."""
    index = {task: number for number, task in enumerate(tasks)}
    return tuple(
        tuple(index[writer] for source in of_task for writer in source.writers) for of_task in sources(layers, tasks)
    )


def _earlier(plan: Plan) -> tuple[int, ...]:
    done, at, earlier = [0] * len(plan.items), [0] * len(plan.items), [0] * len(plan.tasks)
    came: list[dict[int, int]] = [{} for _ in plan.hand_overs]  # the items at each, with the tasks known to be done

    def take(item: int) -> bool:
        if at[item] == len(plan.schedules[item]):
            return False
        step = plan.schedules[item][at[item]]
        if isinstance(step, Compute):
            earlier[step.task] = done[item]
            done[item] |= 1 << step.task
        else:
            hand_over, known = plan.hand_overs[step.hand_over], came[step.hand_over]
            known[item] = done[item]
            awaited = hand_over.items if plan.sync == "barrier" else (hand_over.writer,)
            if not known.keys() >= {*awaited}:
                return False
            done[item] |= functools.reduce(int.__or__, (known[other] for other in awaited))
        at[item] += 1
        return True

    while sum(take(item) for item in range(len(at))):
        pass
    return tuple(
        known & sum(1 << index for index, other in enumerate(plan.tasks) if _ordered_in_stage(other, task))
        for known, task in zip(earlier, plan.tasks, strict=True)
    )


def _ordered_in_stage(one: Task, other: Task) -> bool:
    """Return whether the order of the schedule holds for two tasks in every tick."""
    return one.stage == other.stage and (one.stage == 0 or one.item == other.item)


def _staged(layers: Sequence[Layer], tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks in pipeline stages: a layer is one stage after each that another item computes for it."""
    read = reads(layers, tasks)
    stages: list[int] = [0] * len(layers)
    for task, sources in zip(tasks, read, strict=True):
        later = [stages[tasks[s].layer] + (tasks[s].item != task.item) for s in sources]
        stages[task.layer] = max([stages[task.layer], *later])
    buffers = [1] * len(tasks)
    for task, sources in zip(tasks, read, strict=True):
        for source in sources:
            buffers[source] = max(buffers[source], 1 + stages[task.layer] - stages[tasks[source].layer])
    return tuple(
        dataclasses.replace(task, stage=stages[task.layer], buffers=count)
        for task, count in zip(tasks, buffers, strict=True)
    )


def _schedule(
    layers: Sequence[Layer], tasks: Sequence[Task], item_count: int, sync: Sync
) -> tuple[tuple[HandOver, ...], tuple[tuple[Step, ...], ...]]:
    """Return the hand-overs, and the steps of every item.

    Only tasks of one stage synchronise: the output of earlier stages is complete since the end of the last execution.
    Every read comes after its write, and every hand-over is needed: without it a task would read too early.  Items
    never deadlock, as all take their steps in the same order.
    """
    sources = [
        [source for source in read if tasks[source].stage == task.stage]
        for task, read in zip(tasks, reads(layers, tasks), strict=True)
    ]
    schedules = _meetings if sync == "barrier" else _flags
    hand_overs, steps = schedules(tasks, sources, item_count)
    return tuple(hand_overs), tuple(tuple(of_item) for of_item in steps)


Schedules: TypeAlias = tuple[list[HandOver], list[list[Step]]]
Meetings: TypeAlias = Mapping[int, AbstractSet[int]]
"""Meetings by the task that requires them: the items that meet its item, directly after its layer."""


def _meetings(tasks: Sequence[Task], read: Sequence[Sequence[int]], item_count: int) -> Schedules:
    """Synchronise by barriers: the writer of a layer meets those that need it directly after that layer.

    A meeting also orders everything that its items have done before, so one can serve several reads: while a read would
    come too early, a meeting is added for it; then every redundant meeting is removed.
    """
    walk = _Walk(tasks, read, item_count)
    meetings: dict[int, frozenset[int]] = {}
    while early := walk.early_read(meetings):
        meetings[early[0]] = meetings.get(early[0], frozenset()) | {early[1]}
    for source, reader in [(task, item) for task, met in sorted(meetings.items()) for item in sorted(met)]:
        fewer = meetings | {source: meetings[source] - {reader}}
        if walk.early_read(fewer) is None:
            meetings = fewer
    hand_overs: list[HandOver] = []
    steps: list[list[Step]] = [[] for _ in range(item_count)]
    for layer in walk.layers:
        for task in layer:
            steps[tasks[task].item].append(Compute(task))
        for task in layer:
            if meetings.get(task):
                items = (tasks[task].item, *sorted(meetings[task]))
                for item in items:
                    steps[item].append(Cross(len(hand_overs)))
                hand_overs.append(HandOver(tasks[task].name, items))
    return hand_overs, steps


class _Walk:
    """A pass over the layers that notes which tasks each item knows to be done; an int holds a set of tasks as bits."""

    def __init__(self, tasks: Sequence[Task], read: Sequence[Sequence[int]], item_count: int) -> None:
        indices = range(len(tasks))
        self.layers = [list(group) for _, group in itertools.groupby(indices, key=lambda index: tasks[index].layer)]
        self._items = [task.item for task in tasks]
        self._read = [functools.reduce(int.__or__, (1 << source for source in sources), 0) for sources in read]
        self._item_count = item_count

    def early_read(self, meetings: Meetings) -> tuple[int, int] | None:
        """Return the first read that may come before its write: the task that is read, and the reader's item.

        Among several sources it is the last, whose item has done most by then.
        """
        done = [0] * self._item_count
        for layer in self.layers:
            for task in layer:
                if early := self._read[task] & ~done[self._items[task]]:
                    return early.bit_length() - 1, self._items[task]
            for task in layer:
                done[self._items[task]] |= 1 << task
            for task in layer:
                if meetings.get(task):
                    together = (self._items[task], *meetings[task])
                    union = functools.reduce(int.__or__, (done[item] for item in together))
                    for item in together:
                        done[item] = union
        return None


def _flags(tasks: Sequence[Task], read: Sequence[Sequence[int]], item_count: int) -> Schedules:
    """Synchronise by flags: set after the producer, awaited before its first consumer.

    A flag also orders all earlier steps and waits of the writer's item.
    """
    steps: list[list[Step]] = [[] for _ in range(item_count)]
    finished = [0] * item_count
    brought: list[int] = []
    waits: dict[int, list[int]] = {}
    for task, sources in enumerate(read):
        item = tasks[task].item
        for source in sorted(sources, reverse=True):
            if not finished[item] >> source & 1:
                waits.setdefault(source, []).append(item)
                steps[item].append(Cross(source))
                finished[item] |= brought[source]
        steps[item] += [Compute(task), Cross(task)]
        finished[item] |= 1 << task
        brought.append(finished[item])
    number = {source: index for index, source in enumerate(sorted(waits))}
    hand_overs = [HandOver(tasks[s].name, (tasks[s].item, *dict.fromkeys(waits[s]))) for s in number]
    return hand_overs, [_renumbered(of_item, number) for of_item in steps]


def _renumbered(steps: Sequence[Step], number: Mapping[int, int]) -> list[Step]:
    """Replace the tasks that raise flags by the numbers of the flags; leave out flags without readers."""
    return [
        step if isinstance(step, Compute) else Cross(number[step.hand_over])
        for step in steps
        if isinstance(step, Compute) or step.hand_over in number
    ]

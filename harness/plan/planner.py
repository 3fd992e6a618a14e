"""`Network` x profile -> `Plan`: which item computes which columns of which layer, and the size of a block."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from harness import targets
from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.core.text import plural
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.tensor import SHORT
from harness.plan import arena
from harness.plan.launches import vector_bytes
from harness.plan.plan import Buffers, Item, Plan, Sync, Task, reads
from harness.plan.schedule import compose
from harness.plan.split import Share, Split, parse

EMULATED_OPERATIONS = 1 << 30
"""Operations of a block of the default size on an emulated board: seconds, as accelerators have time limits."""


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
    items: Sequence[str] | None = None,
    block: int | None = None,
    split: Sequence[str] | None = None,
    sync: Sync | None = None,
    buffers: Buffers = "keep",
) -> Plan:
    """Assign every layer as `split` says, or to the item of `profile` that claims it.

    The first item whose target supports a layer claims it, those that list its operator before those without a list.
    `items` are targets that replace those of the profile, in its order; `split` and `sync` replace the profile's.  The
    default of `block` is that of the profile, or fewer vectors if the memory budget has no room for it, or an emulated
    board no time.  `buffers` says whether buffers may share bytes of an arena, see `Buffers`.
    RequestError if an operator has no item, the network does not permit the split, or `items` has the wrong length.
    """
    _require_inputs(network)
    of_board = _items(profile, items)
    division = _split(network, profile, split)
    shares = _shares(network, profile, division, of_board)
    tasks = tasks_from(network.layers, shares, pipeline=division.pipeline)
    if division.pipeline and not any(task.stage for task in tasks):
        raise RequestError(
            f"split pipeline: one item of board {profile.name} computes all of {network.name}",
            "move some layers to another item: --split FIRST..LAST=ITEM,pipeline",
        )
    _require_first_stage(network, tasks)
    schedule = compose(profile.name, network, 1, sync or profile.sync, of_board, tasks)
    if any(layer.streaming.copies > 1 for layer in network.layers):
        block = _block_of_stream(network, block, pipeline=division.pipeline)
    if block is None:
        block = _largest_block(schedule, profile, buffers)
    return arena.with_buffers(schedule, block, buffers)


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


def _largest_block(schedule: Plan, profile: Profile, buffers: Buffers) -> int:
    """Return the number of vectors for which the memory budget has room, at most the profile's; fewer in emulation.

    The bytes per vector depend on the block if buffers share bytes: least is needed for multiples of a power of 2.
    """

    def block_bytes(block: int) -> int:
        return block * vector_bytes(arena.with_buffers(schedule, block, buffers))

    budget = profile.memory_budget_mib << 20
    most = min(profile.block, budget * arena.PERIOD // block_bytes(arena.PERIOD))
    if profile.emulated:
        most = min(most, max(EMULATED_OPERATIONS // max(schedule.network.operations, 1), 1))
    powers = [1 << bit for bit in range(max(most, 1).bit_length())]
    rounded = (most - most % (1 << bit) for bit in range(arena.PERIOD.bit_length()))
    blocks = sorted({most, *powers, *rounded} - {0}, reverse=True)
    return next((block for block in blocks if block_bytes(block) <= budget), 1)


def _split(network: Network, profile: Profile, split: Sequence[str] | None) -> Split:
    """Return the split of the request, or else the profile's; an error says whose it is."""
    if split is not None:
        return parse(split, network, list(profile.items))
    try:
        return parse(profile.split, network, list(profile.items))
    except RequestError as error:
        raise RequestError(f"board {profile.name} in boards.yaml: {error.message}", error.hint) from error


def _items(profile: Profile, names: Sequence[str] | None) -> tuple[Item, ...]:
    entries = profile.items.items()
    if names is None:
        names = [item.target for item in profile.items.values()]
    if len(names) != len(entries):
        raise RequestError(
            f"--items names {plural(len(names), 'target')}, but board {profile.name} has {len(entries)} items",
            f"one target for each of: {', '.join(profile.items)}",
        )
    return tuple(Item(name, target, item.core) for (name, item), target in zip(entries, names, strict=True))


def _shares(network: Network, profile: Profile, split: Split, items: Sequence[Item]) -> list[tuple[Share, ...]]:
    """Return for every layer which item computes which columns."""
    return [
        split.shares.get(index) or (Share(_claim(layer, profile, items), 0, layer.size),)
        for index, layer in enumerate(network.layers)
    ]


def _claim(layer: Layer, profile: Profile, items: Sequence[Item]) -> int:
    candidates = _candidates(layer, profile)
    if not candidates:
        raise RequestError(f"board {profile.name}: {_unclaimed(layer)}", _list_operator(profile))
    # If none supports it, its target explains why when it is asked for the code.
    return next((index for index in candidates if targets.supports(items[index].target, layer)), candidates[0])


def _candidates(layer: Layer, profile: Profile) -> list[int]:
    """Return the items that take a layer: those that list its operator, then those without a list."""
    entries = list(enumerate(profile.items.values()))
    listed = [index for index, entry in entries if layer.operator in (entry.operators or ())]
    return [*listed, *(index for index, entry in entries if entry.operators is None)]


def _unclaimed(layer: Layer) -> str:
    return f"no item computes {layer.operator} (layer {layer.name})"


def _list_operator(profile: Profile) -> str:
    names = " or ".join(profile.items)
    return f"add it to the operators of {names} in boards.yaml, or leave the operators of one out"


@dataclass(frozen=True)
class Refusal:
    """A layer that no item of a board computes; the target that was asked, empty if there is none, and the reason."""

    layer: Layer
    target: str
    reason: str
    remedy: str


def refusals(network: Network, profile: Profile, items: Sequence[str] | None = None) -> list[Refusal]:
    """Return all layers that the items of a board refuse, in their order; `items` as in `make`, without a split."""
    of_board = _items(profile, items)
    refused = []
    for layer in network.layers:
        if not _candidates(layer, profile):
            refused.append(Refusal(layer, "", _unclaimed(layer), _list_operator(profile)))
            continue
        target = of_board[_claim(layer, profile, of_board)].target
        if reason := targets.find(target).unsupported(layer):
            refused.append(Refusal(layer, target, reason, "choose another target for that item with --items"))
    return refused


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

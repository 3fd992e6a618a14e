"""`Network` x profile -> `Plan`: which item computes which layers, where items hand over, block size.

Layers run in the order of the model.  Where a layer reads what another item wrote, writer and reader cross a
barrier, unless hand-overs before have ordered the two.  All items start a block together and end it together, so
that no buffer is overwritten before it was read.  Every activation has its own buffer, with one writer.  The plan
is a value and printable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import RequestError
from harness.network import Layer, Network
from harness.profile import OPERATORS, Profile


@dataclass(frozen=True)
class Item:
    """The part of the model given to one processing element; it runs as one thread."""

    name: str
    target: str
    core: int | None


@dataclass(frozen=True)
class Barrier:
    """A hand-over: both items cross it once a block."""

    name: str
    items: tuple[int, int]


@dataclass(frozen=True)
class Compute:
    """The step of an item that computes one layer."""

    layer: int


@dataclass(frozen=True)
class Cross:
    """The step of an item that crosses one barrier."""

    barrier: int


Step = Compute | Cross


@dataclass(frozen=True, eq=False)
class Plan:
    """The static schedule of a network on a board.

    `owner` holds the item index of every layer, `schedules` the steps of every item, in order.
    """

    board: str
    network: Network
    block: int
    items: tuple[Item, ...]
    owner: tuple[int, ...]
    barriers: tuple[Barrier, ...]
    schedules: tuple[tuple[Step, ...], ...]


def make(network: Network, profile: Profile, targets: Sequence[str] | None = None, block: int | None = None) -> Plan:
    """Assign every layer to the item of `profile` that claims its operator.

    `targets` replaces the items' targets, in the profile's order.  RequestError if the profile leaves an operator
    without an item, or `targets` has the wrong length.
    """
    items = _items(profile, targets)
    owner = _owners(network, profile)
    used = sorted(set(owner))
    items, owner = tuple(items[index] for index in used), tuple(used.index(index) for index in owner)
    barriers, schedules = _schedule(network.layers, owner, len(items))
    return Plan(profile.name, network, block or profile.block, items, owner, barriers, schedules)


def _items(profile: Profile, targets: Sequence[str] | None) -> tuple[Item, ...]:
    entries = profile.items.items()
    if targets is None:
        targets = [item.target for item in profile.items.values()]
    if len(targets) != len(entries):
        raise RequestError(
            f"--items names {len(targets)} targets, but board {profile.name} has {len(entries)} items",
            f"one target for each of: {', '.join(profile.items)}",
        )
    return tuple(Item(name, target, item.core) for (name, item), target in zip(entries, targets, strict=True))


def _owners(network: Network, profile: Profile) -> tuple[int, ...]:
    claims: dict[str, int] = {
        operator: index for index, item in enumerate(profile.items.values()) for operator in item.operators
    }
    for layer in network.layers:
        if layer.operator not in claims:
            raise RequestError(
                f"board {profile.name}: no item computes {layer.operator} (layer {layer.name})",
                f"add it to the operators of an item in boards.yaml; valid choices: {', '.join(OPERATORS)}",
            )
    return tuple(claims[layer.operator] for layer in network.layers)


def _schedule(
    layers: Sequence[Layer], owner: Sequence[int], item_count: int
) -> tuple[tuple[Barrier, ...], tuple[tuple[Step, ...], ...]]:
    """The barriers, in the order in which they are crossed, and the steps of every item.

    `finished[i]` are the layers that are computed before item i takes its next step: its own, and behind a barrier,
    which neither item passes before both have come, all those of the other.  Before a layer come barriers for exactly
    those sources that are not among them.  So every read comes after its write, and no barrier can be left out: the
    layer behind it would read too early.  Items never wait for each other in a circle, as each crosses its barriers
    in the order in which they stand here.
    """
    writer = {layer.output: index for index, layer in enumerate(layers)}
    barriers: list[Barrier] = []
    schedules: list[list[Step]] = [[] for _ in range(item_count)]
    finished: list[set[int]] = [set() for _ in range(item_count)]

    def hand_over(source: int, taker: int) -> None:
        giver = owner[source]
        for item in (giver, taker):
            schedules[item].append(Cross(len(barriers)))
            finished[item] = finished[giver] | finished[taker]
        barriers.append(Barrier(layers[source].name, (giver, taker)))

    for index, (layer, item) in enumerate(zip(layers, owner, strict=True)):
        sources = sorted({writer[source] for source in layer.sources if source in writer}, reverse=True)
        # First the giver that brings most: two sources may come in one hand-over.
        sources.sort(key=lambda source: len(finished[owner[source]].intersection(sources)), reverse=True)
        for source in sources:
            if source not in finished[item]:
                hand_over(source, item)
        schedules[item].append(Compute(index))
        finished[item].add(index)
    return tuple(barriers), tuple(tuple(schedule) for schedule in schedules)

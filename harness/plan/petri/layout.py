"""Positions of the places and transitions of a net in its picture, in SVG units.

Each colour has a lane.  Operations (transitions that are no sync) stand from left to right by how many must come before
them; in its lane an operation stands on a line with one that it reads, if there is room.  Behind each operation stands
the place that it fills, above that the syncs which hand its tokens on.  Of the places that nothing fills an operation
has the first before it, if it reads no others, and those that are left above it; a sync has them beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from harness.plan.petri.net import Net
from harness.plan.petri.structure import run

STEP = 132  # from one operation to the next, at least
LABEL_SPACE, LETTER = 44, 8  # before the first column: for the names of lanes
ABOVE, ABOVE_SPACE = 48, 24
SYNC_REACH = 22  # of a sync to the left, with some air
HEAD, CROWDED_HEAD = 28, 78  # above the middle of a row; crowded if places or syncs are above others
FOOT = 58  # below it
LANE_SPACE = 6


@dataclass(frozen=True)
class Spot:
    """The centre of a place or transition; `above` is true if it is above an operation or a place."""

    x: float
    y: float
    above: bool = False


@dataclass(frozen=True)
class Lane:
    """All transitions of one colour; `y` is its upper edge, `middle` that of its first row."""

    colour: str
    y: float
    height: float
    middle: float


@dataclass(frozen=True)
class Layout:
    """Spots of transitions by index, of places by name; a place without arcs, or hidden, has none.

    `step` is the distance from one operation to the next.
    """

    step: float
    width: float
    height: float
    lanes: tuple[Lane, ...]
    transitions: Mapping[int, Spot]
    places: Mapping[str, Spot]


def lay_out(net: Net, hidden: Collection[str] = ()) -> Layout:
    """Return the layout of `net` without the places that are `hidden`."""
    order = _order(net)
    columns = _columns(net, order)
    rows = _rows(net, order, columns)
    before, above = _unfilled(net, order, hidden)
    head = CROWDED_HEAD if above or any(t.sync for t in net.transitions) else HEAD
    lanes = tuple(_lanes(net, rows, head))
    left = LABEL_SPACE + LETTER * max(len(lane.colour) for lane in lanes) if any(lane.colour for lane in lanes) else 0
    step = _step(net, above, hidden)
    middles = {lane.colour: lane.middle for lane in lanes}
    spots = {
        index: Spot(left + step * (0.75 + columns[index]), middles[net.transitions[index].colour] + row * (head + FOOT))
        for index, row in rows.items()
    }
    places = dict(_places(net, spots, before, above, hidden, step))
    syncs = dict(_syncs(net, places))
    return Layout(
        step=step,
        width=left + step * (1.72 + max(columns.values(), default=0)),
        height=sum(lane.height for lane in lanes) + LANE_SPACE * (len(lanes) - 1),
        lanes=lanes,
        transitions=spots | syncs,
        places=places | dict(_beside(net, syncs, places, hidden)),
    )


def _order(net: Net) -> tuple[int, ...]:
    """Return the transitions as they can fire, then those that never do."""
    path = run(net).path
    return (*path, *(index for index in range(len(net.transitions)) if index not in path))


def _sources(net: Net, index: int) -> tuple[int, ...]:
    """Return the transitions that put the tokens that this one takes."""
    kinds = (tokens.kind for tokens in net.transitions[index].consumes)
    return tuple(dict.fromkeys(source for kind in kinds for source in net.producers[kind]))


def _columns(net: Net, order: tuple[int, ...]) -> dict[int, int]:
    """Return for every transition the length of the longest chain of operations before it."""
    columns: dict[int, int] = {}
    for index in order:
        known = [source for source in _sources(net, index) if source in columns]
        columns[index] = max((columns[each] + (not net.transitions[each].sync) for each in known), default=0)
    return columns


def _rows(net: Net, order: tuple[int, ...], columns: Mapping[int, int]) -> dict[int, int]:
    """Return for every operation its row within its lane."""
    rows: dict[int, int] = {}
    taken: set[tuple[str, int, int]] = set()
    for index in order:
        transition = net.transitions[index]
        if transition.sync:
            continue
        near = [e for e in _sources(net, index) if e in rows and net.transitions[e].colour == transition.colour]
        wanted = (*(rows[each] for each in near), *range(len(order)))
        here = transition.colour, columns[index]
        rows[index] = next(row for row in wanted if (*here, row) not in taken)
        taken.add((*here, rows[index]))
    return rows


def _unfilled(
    net: Net, order: tuple[int, ...], hidden: Collection[str]
) -> tuple[dict[str, int], dict[int, tuple[str, ...]]]:
    """Return places that nothing fills: those before an operation, and for every other those above it."""
    filled = {place for (place, _), producers in net.producers.items() if producers}
    seen = set(hidden)
    before: dict[str, int] = {}
    above: dict[int, tuple[str, ...]] = {}
    for index in (each for each in order if not net.transitions[each].sync):
        reads = dict.fromkeys(tokens.place for tokens in net.transitions[index].consumes)
        new = [place for place in reads if place not in filled and place not in seen]
        seen.update(new)
        if new and filled.isdisjoint(reads) and before.keys().isdisjoint(reads):
            before[new.pop(0)] = index
        if new:
            above[index] = tuple(new)
    return before, above


def _step(net: Net, above: Mapping[int, tuple[str, ...]], hidden: Collection[str]) -> float:
    """Return a width with room for the places above an operation and next to the sync half a step away."""
    most = max((len(places) for places in above.values()), default=0)
    adjacent = max(
        (len({tokens.place for tokens in t.consumes} - {*hidden}) - 1 for t in net.transitions if t.sync), default=0
    )
    return max(STEP, ABOVE_SPACE * most + 2 * (SYNC_REACH + ABOVE_SPACE * max(adjacent, 0)))


def _lanes(net: Net, rows: Mapping[int, int], head: float) -> Iterator[Lane]:
    y = 0.0
    for colour in dict.fromkeys(t.colour for t in net.transitions):
        last = max((row for index, row in rows.items() if net.transitions[index].colour == colour), default=0)
        height = (last + 1) * (head + FOOT)
        yield Lane(colour, y, height, y + head)
        y += height + LANE_SPACE


def _places(
    net: Net,
    spots: Mapping[int, Spot],
    before: Mapping[str, int],
    above: Mapping[int, tuple[str, ...]],
    hidden: Collection[str],
    step: float,
) -> Iterator[tuple[str, Spot]]:
    for place, index in before.items():
        yield place, Spot(spots[index].x - step / 2, spots[index].y)
    for index, places in above.items():
        for number, place in enumerate(places):
            aside = (number - (len(places) - 1) / 2) * ABOVE_SPACE
            yield place, Spot(spots[index].x + aside, spots[index].y - ABOVE, above=True)
    for index, spot in spots.items():
        filled = dict.fromkeys(tokens.place for tokens in net.transitions[index].produces)
        for number, place in enumerate(place for place in filled if place not in hidden):
            yield place, Spot(spot.x + step / 2, spot.y + number * ABOVE_SPACE)


def _syncs(net: Net, places: Mapping[str, Spot]) -> Iterator[tuple[int, Spot]]:
    """Yield the syncs with their positions: side by side above the place whose token they pass on."""
    count: dict[str, int] = {}
    for index, transition in enumerate(net.transitions):
        place = transition.consumes[0].place if transition.consumes else ""
        if transition.sync and place in places:
            number = count[place] = count.get(place, -1) + 1
            yield index, Spot(places[place].x + number * 2 * ABOVE_SPACE, places[place].y - ABOVE, above=True)


def _beside(
    net: Net, syncs: Mapping[int, Spot], places: Mapping[str, Spot], hidden: Collection[str]
) -> Iterator[tuple[str, Spot]]:
    """Yield the other places from which a sync takes tokens, with their positions."""
    for index, spot in syncs.items():
        others = (tokens.place for tokens in net.transitions[index].consumes if tokens.place not in places)
        for number, place in enumerate(place for place in others if place not in hidden):
            yield place, Spot(spot.x - (1.5 + number) * ABOVE_SPACE, spot.y, above=True)

"""Layout of the picture of a network: its layers are boxes, its tensors wires with shape and range, in SVG units.

Layers of one depth are a rank.  On a wide screen ranks are columns, which follow each other from left to right and
continue on further lines; on a narrow one they are rows, one below the other.  A wire that passes a rank has a place of
its own there, so that it crosses no box.  Within a rank, boxes and wires are sorted by the middle of what they read,
which avoids most crossings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from harness.runs.entries import NodeEntry, Provenance

BOX_WIDTH, BOX_HEIGHT = 150, 58
COLUMNS = 4  # of a line, at most
COLUMN_GAP, ROW_GAP = 106, 46  # between ranks: the space of wires and their texts
SIDE_BY_SIDE, BELOW = 22, 30  # between two boxes of a rank that is a row, a column
TEXT_SPACE = 110  # right of the last box of a row
PASS = 14  # the place of a wire that passes a rank
MARGIN, TURN = 14, 9  # at the ends of a line: for wires from line to line; distance of two of these wires
SWEEPS = 4
NAME_CHARACTERS, TENSOR_CHARACTERS = 19, 14
LEADS, FOLLOWS = "launch", "in launch"
DTYPES = {"float32": "f32", "uint8": "u8", "int8": "i8", "int64": "i64", "int32": "i32", "bool": "b8"}


@dataclass(frozen=True)
class Box:
    """A layer, or the input of the network; `x`, `y` is its upper left corner.

    `name` is the part that fits, `about` describes its tensor.  `differing` of `compared` activations differ; None if
    none were compared.  `time` is a text, `note` says what it includes, `share` is that of the longest time.  `anchor`
    is the id of its section.  A `bounded` layer is within its bound where it does not differ.
    """

    x: float
    y: float
    name: str
    node: NodeEntry
    about: str
    differing: int | None = None
    compared: int | None = None
    time: str = ""
    note: str = ""
    share: float = 0.0
    anchor: str = ""
    bounded: bool = False


class Head(NamedTuple):
    """The tip of an arrow, and where it points: `right` or `down`."""

    x: float
    y: float
    direction: str


@dataclass(frozen=True)
class Wire:
    """The paths of a tensor from its writer to all its readers."""

    paths: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Label:
    """A text at a wire, which begins or is centred at `x`; `about` is the whole text."""

    x: float
    y: float
    text: str
    about: str


@dataclass(frozen=True)
class NetworkPicture:
    """All shapes of the picture."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    heads: tuple[Head, ...]
    labels: tuple[Label, ...]
    anchor: str  # of the labels: start or middle
    box_width: float = BOX_WIDTH
    box_height: float = BOX_HEIGHT


@dataclass(frozen=True)
class LayerFacts:
    """Facts of a layer that a box shows; `amount` is its time or its count, `text` the same as text.  See `Box`."""

    differing: int | None = None
    compared: int | None = None
    amount: float = 0.0
    text: str = ""
    note: str = ""
    anchor: str = ""
    bounded: bool = False


def draw(graph: Sequence[NodeEntry], facts: Mapping[str, LayerFacts], *, narrow: bool) -> NetworkPicture:
    """Lay out the `graph` of a document; `facts` are those of layers by name.

    ValueError if a node does not only read nodes before it.
    """
    for index, node in enumerate(graph):
        if any(not 0 <= read < index for read in node.reads):
            raise ValueError(f"{node.name} does not only read nodes before it")
    grid = _Grid(tuple(tuple(node.reads) for node in graph), narrow)
    most = max((fact.amount for fact in facts.values()), default=0)
    width, height = grid.size
    return NetworkPicture(
        width,
        height,
        tuple(_boxes(grid, graph, facts, most)),
        tuple(_wires(grid, graph)),
        tuple(grid.head(index) for index, node in enumerate(graph) if node.reads),
        tuple(_labels(grid, graph)),
        "start" if narrow else "middle",
    )


def draw_both(graph: Sequence[NodeEntry], facts: Mapping[str, LayerFacts]) -> tuple[NetworkPicture, ...]:
    """Return the pictures for wide and for narrow screens; none without a graph."""
    return tuple(draw(graph, facts, narrow=narrow) for narrow in (False, True)) if graph else ()


def launch_notes(run: Provenance) -> dict[str, str]:
    """Return LEADS for the first layer of a launch, which has the time of all its layers, FOLLOWS for the others."""
    notes: dict[str, str] = {}
    layers = {task.name: task.layer for task in run.plan.tasks} if run.launches else {}
    for names in run.launches:
        notes |= {layers[name]: FOLLOWS for name in names[1:]} | {layers[names[0]]: LEADS}
    return notes


def tensor_text(node: NodeEntry) -> str:
    """Return shape and type: `3x224x224 uint8`."""
    shape = "x".join(map(str, node.shape)) or "1"
    return f"{shape} {node.dtype}"


def range_text(node: NodeEntry) -> str:
    """Return the range of the values; empty if they have no bound."""
    low, high = node.low, node.high
    if low is None or high is None:
        return ""
    if isinstance(low, int) and isinstance(high, int):
        return f"{low} to {high}"
    return f"±{high:.4g}" if low == -high else f"{low:.4g} to {high:.4g}"


def _about(node: NodeEntry) -> str:
    values = range_text(node)
    return f"{tensor_text(node)}, values {values}" if values else tensor_text(node)


def _boxes(grid: _Grid, graph: Sequence[NodeEntry], facts: Mapping[str, LayerFacts], most: float) -> Iterator[Box]:
    for index, node in enumerate(graph):
        x, y = grid.corner(index)
        fact = facts.get(node.name, LayerFacts()) if node.operator else LayerFacts()
        share = fact.amount / most if most else 0.0
        name = _short(node.name, NAME_CHARACTERS)
        results = fact.differing, fact.compared, fact.text, fact.note
        yield Box(x, y, name, node, _about(node), *results, share, fact.anchor, fact.bounded)


def _short(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _wires(grid: _Grid, graph: Sequence[NodeEntry]) -> Iterator[Wire]:
    for writer, node in enumerate(graph):
        readers = [index for index, other in enumerate(graph) if writer in other.reads]
        if readers:
            names = ", ".join(graph[reader].name for reader in readers)
            yield Wire(tuple(grid.paths(writer, readers)), f"{node.name} to {names}: {_about(node)}")


def _labels(grid: _Grid, graph: Sequence[NodeEntry]) -> Iterator[Label]:
    """Yield shape and range of every tensor that is read, next to where its wire begins."""
    read = {index for node in graph for index in node.reads}
    for index in sorted(read):
        node, (x, y) = graph[index], grid.corner(index)
        texts = [tensor_text(node), range_text(node)]
        if grid.narrow:
            text = ", ".join(filter(None, texts))
            yield Label(x + BOX_WIDTH / 2 + 8, y + BOX_HEIGHT + 16, text, _about(node))
            continue
        if len(texts[0]) > TENSOR_CHARACTERS:
            texts[0] = texts[0].replace(node.dtype, DTYPES.get(node.dtype, node.dtype))
        for text, aside in zip(texts, (-6, 15), strict=True):
            if text:
                middle = x + BOX_WIDTH + COLUMN_GAP / 2, y + BOX_HEIGHT / 2 + aside
                yield Label(*middle, _short(text, TENSOR_CHARACTERS), _about(node))


@dataclass(frozen=True)
class _Grid:
    """Places of nodes, and of wires that pass a rank; `reads` are those of every node.

    Distances along the flow of data are called `along`, those across it `across`.  A slot of a rank is a node, its
    index, or a wire that passes it: the index of the writer, negative and minus 1.
    """

    reads: tuple[tuple[int, ...], ...]
    narrow: bool

    @cached_property
    def rank(self) -> tuple[int, ...]:
        """The rank of every node: the longest way from a node that reads nothing."""
        found: list[int] = []
        for reads in self.reads:
            found.append(1 + max((found[read] for read in reads), default=-1))
        return tuple(found)

    @cached_property
    def slots(self) -> list[list[int]]:
        """The slots of every rank, sorted so that few wires cross."""
        ranks: list[list[int]] = [[] for _ in range(max(self.rank) + 1)]
        for node, rank in enumerate(self.rank):
            ranks[rank].append(node)
        for writer, last in self._last_readers.items():
            for rank in range(self.rank[writer] + 1, last):
                ranks[rank].append(-1 - writer)
        for sweep in range(SWEEPS):
            order = range(1, len(ranks)) if sweep % 2 == 0 else range(len(ranks) - 2, -1, -1)
            for rank in order:
                near = ranks[rank - 1 if sweep % 2 == 0 else rank + 1]
                place = {slot: number / len(near) for number, slot in enumerate(near)}
                own = {slot: number / len(ranks[rank]) for number, slot in enumerate(ranks[rank])}
                ranks[rank].sort(key=lambda slot: self._middle(slot, place, own, forward=sweep % 2 == 0))
        return ranks

    @property
    def _last_readers(self) -> dict[int, int]:
        """The highest rank of the readers of every node."""
        found: dict[int, int] = {}
        for reader, reads in enumerate(self.reads):
            for writer in reads:
                found[writer] = max(found.get(writer, 0), self.rank[reader])
        return found

    def _middle(self, slot: int, place: Mapping[int, float], own: Mapping[int, float], *, forward: bool) -> float:
        """Return the mean place of the neighbours of a slot in the rank before or after it."""
        writer = slot if slot >= 0 else -1 - slot
        if not forward:
            near = [node for node, reads in enumerate(self.reads) if writer in reads]
            near.append(-1 - writer)
        else:
            near = [other for read in self.reads[slot] for other in (read, -1 - read)] if slot >= 0 else [writer, slot]
        found = [place[other] for other in near if other in place]
        return fmean(found) if found else own[slot]

    @property
    def _columns(self) -> int:
        """The number of ranks on a line, about equal on all lines."""
        count = len(self.slots)
        return count if self.narrow else -(-count // -(-count // COLUMNS))

    def _extent(self, slot: int) -> float:
        """Return the size of a slot across the flow."""
        if slot < 0:
            return PASS
        return BOX_WIDTH + SIDE_BY_SIDE if self.narrow else BOX_HEIGHT + BELOW

    @cached_property
    def _lines(self) -> list[tuple[float, float, list[int]]]:
        """The start and the extent across the flow of every line, and the writers of the wires that leave it."""
        found, start = [], 0.0
        ranks = [self.slots[first : first + self._columns] for first in range(0, len(self.slots), self._columns)]
        for number, line in enumerate(ranks):
            extent = max(sum(map(self._extent, rank)) for rank in line)
            last = (number + 1) * self._columns - 1
            leaving = [writer for writer, reader in self._last_readers.items() if self.rank[writer] <= last < reader]
            found.append((start, extent, leaving))
            start += extent + (MARGIN + TURN * len(leaving) if number < len(ranks) - 1 else 0)
        return found

    @property
    def size(self) -> tuple[float, float]:
        """The width and the height of the picture."""
        start, extent, _ = self._lines[-1]
        if self.narrow:
            return extent + TEXT_SPACE, len(self.slots) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP + 2
        return 2 * MARGIN + self._columns * (BOX_WIDTH + COLUMN_GAP), start + extent

    @cached_property
    def _across(self) -> dict[tuple[int, int], float]:
        """The middle of every slot across the flow, by rank and slot."""
        found = {}
        for rank, slots in enumerate(self.slots):
            start, extent, _ = self._lines[rank // self._columns]
            at = start + (extent - sum(map(self._extent, slots))) / 2
            for slot in slots:
                found[rank, slot] = at + self._extent(slot) / 2
                at += self._extent(slot)
        return found

    def _along(self, rank: int) -> float:
        """Return where a rank begins along the flow."""
        if self.narrow:
            return rank * (BOX_HEIGHT + ROW_GAP) + 1
        return MARGIN + rank % self._columns * (BOX_WIDTH + COLUMN_GAP)

    def corner(self, node: int) -> tuple[float, float]:
        """Return the upper left corner of the box of a node."""
        rank = self.rank[node]
        along, across = self._along(rank), self._across[rank, node]
        return (across - BOX_WIDTH / 2, along) if self.narrow else (along, across - BOX_HEIGHT / 2)

    def head(self, node: int) -> Head:
        """Return the arrow's head at a node."""
        x, y = self.corner(node)
        return Head(x + BOX_WIDTH / 2, y, "down") if self.narrow else Head(x, y + BOX_HEIGHT / 2, "right")

    def paths(self, writer: int, readers: Sequence[int]) -> Iterator[str]:
        """Yield the pieces of the wire from a node to all that read it, from rank to rank."""
        for rank in range(self.rank[writer], self._last_readers[writer]):
            begin = self._across[rank, writer if rank == self.rank[writer] else -1 - writer]
            if rank > self.rank[writer]:
                yield self._straight(rank, begin)
            ends = [self._across[rank + 1, reader] for reader in readers if self.rank[reader] == rank + 1]
            passes = [self._across[rank + 1, -1 - writer]] if rank + 1 < self._last_readers[writer] else []
            for end in (*ends, *passes):
                yield self._piece(writer, rank, begin, end)

    def _straight(self, rank: int, across: float) -> str:
        along = self._along(rank)
        return f"M{across:g} {along:g}v{BOX_HEIGHT}" if self.narrow else f"M{along:g} {across:g}h{BOX_WIDTH}"

    def _piece(self, writer: int, rank: int, begin: float, end: float) -> str:
        """Return the path between two slots of neighbouring ranks; around the end of the line if it ends between."""
        if self.narrow:
            start, stop = self._along(rank) + BOX_HEIGHT, self._along(rank + 1)
            middle = (start + stop) / 2
            return f"M{begin:g} {start:g}C{begin:g} {middle:g} {end:g} {middle:g} {end:g} {stop:g}"
        start, stop = self._along(rank) + BOX_WIDTH, self._along(rank + 1)
        if (rank + 1) % self._columns:
            middle = (start + stop) / 2
            return f"M{start:g} {begin:g}C{middle:g} {begin:g} {middle:g} {end:g} {stop:g} {end:g}"
        line, extent, leaving = self._lines[rank // self._columns]
        number = leaving.index(writer)
        between = line + extent + MARGIN / 2 + TURN * number
        right, left = self.size[0] - 2 - 3 * (number % 3), 2 + 3 * (number % 3)
        return f"M{start:g} {begin:g}H{right:g}V{between:g}H{left:g}V{end:g}H{stop:g}"

"""Layered layout of groups of vertices by Graphviz: places of boxes and paths of wires, in px."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.applications.view.groups import Group, Member
from harness.core.errors import ToolError
from harness.model.structure import Graph, Vertex

PX_PER_INCH = 72
CHARACTER = 7  # px
NARROWEST, WIDEST, HEIGHT, LOW_HEIGHT = 150, 260, 58, 40  # low: name and operator without a result
BESIDE, BELOW = 40, 72  # between boxes of a rank, and between ranks: the space of wires and of the texts of tensors
LONGEST_S = 300.0
VERTEX, GROUP, PORT_IN, PORT_OUT = range(4)

Place = tuple[int, int]
"""The kind of a box, and the index of its vertex, of its group among those of the level, or of its tensor."""


@dataclass(frozen=True)
class Level:
    """The content of one group: boxes, and wires between two of them, each with all tensors that it carries."""

    group: Group
    boxes: tuple[Place, ...]
    sizes: tuple[tuple[int, int], ...]
    wires: Mapping[tuple[int, int], tuple[int, ...]]
    levels: tuple[Level, ...]

    @property
    def dot(self) -> str:
        """The graph in Graphviz's language; it has numbers only, so no name of a file can change it."""
        lines = [
            f"digraph{{nodesep={BESIDE / PX_PER_INCH:.3f};ranksep={BELOW / PX_PER_INCH:.3f};",
            'node[shape=box,fixedsize=true,label=""];edge[arrowhead=none];',
        ]
        for number, (width, height) in enumerate(self.sizes):
            lines.append(f"{number}[width={width / PX_PER_INCH:.3f},height={height / PX_PER_INCH:.3f}];")
        lines += [f"{writer}->{reader};" for writer, reader in self.wires]
        return "\n".join([*lines, "}\n"])


def level(
    graph: Graph, group: Group, tensors: Mapping[str, int], types: Sequence[str] = (), height: int = HEIGHT
) -> Level:
    """Return the boxes and wires of a group and of all groups in it; `tensors` are indices of names.

    `types` are the texts at the wires of the tensors, `height` is that of nodes and groups.
    """
    writers: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    for index, vertex in enumerate(graph.vertices):
        for name in vertex.writes:
            writers.setdefault(name, index)
        for name in vertex.reads:
            readers.setdefault(name, []).append(index)
    return _Builder(graph, group, tensors, types, writers, readers, height).level()


@dataclass(frozen=True)
class _Builder:
    """The boxes and wires of a group, while they are collected; `writers` and `readers` are indices by tensor."""

    graph: Graph
    group: Group
    tensors: Mapping[str, int]
    types: Sequence[str]
    writers: Mapping[str, int]
    readers: Mapping[str, Sequence[int]]
    height: int
    boxes: list[Place] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    wires: dict[tuple[int, int], dict[int, None]] = field(default_factory=dict)
    ports: dict[Place, int] = field(default_factory=dict)
    own: dict[int, int] = field(default_factory=dict)  # the box of every vertex of the group

    def level(self) -> Level:
        """Return the level of the group."""
        inner = [member for member in self.group.members if isinstance(member, Group)]
        for member in self.group.members:
            self.own.update(dict.fromkeys(_vertices(member), len(self.boxes)))
            self.boxes.append((GROUP, inner.index(member)) if isinstance(member, Group) else (VERTEX, member))
            self.sizes.append(self._size(member))
        for index in sorted(self.own):
            self._connect(index, self.graph.vertices[index])
        levels = (self._inner(each).level() for each in inner)
        wires = {ends: tuple(carried) for ends, carried in self.wires.items()}
        return Level(self.group, tuple(self.boxes), tuple(self.sizes), wires, tuple(levels))

    def _inner(self, group: Group) -> _Builder:
        return _Builder(self.graph, group, self.tensors, self.types, self.writers, self.readers, self.height)

    def _size(self, member: Member) -> tuple[int, int]:
        if isinstance(member, Group):
            return _width(f"{member.name}  +", member.about), self.height
        vertex = self.graph.vertices[member]
        written = self.tensors.get(vertex.writes[0]) if vertex.writes else None
        label = self.types[written] if self.types and written is not None else ""
        name = vertex.name.rpartition("/")[2] if self.group.name else vertex.name
        width = _width(name, vertex.operator, label[BESIDE // CHARACTER :])
        return width, self.height if vertex.kind == "node" else LOW_HEIGHT

    def _connect(self, index: int, vertex: Vertex) -> None:
        """Add the wires of what a vertex reads, and of what vertices outside the group read of it."""
        for name in filter(None, vertex.reads):
            if name in self.writers:  # not a constant
                writer = self.own.get(self.writers[name])
                self._wire(self._port(PORT_IN, name) if writer is None else writer, self.own[index], name)
        for name in filter(None, vertex.writes):
            if self.writers[name] == index and any(reader not in self.own for reader in self.readers.get(name, ())):
                self._wire(self.own[index], self._port(PORT_OUT, name), name)

    def _port(self, kind: int, name: str) -> int:
        place = kind, self.tensors[name]
        if place not in self.ports:
            self.ports[place] = len(self.boxes)
            self.boxes.append(place)
            self.sizes.append((_width(name), LOW_HEIGHT))
        return self.ports[place]

    def _wire(self, writer: int, reader: int, name: str) -> None:
        if writer != reader:
            self.wires.setdefault((writer, reader), {})[self.tensors[name]] = None


def _vertices(member: Member) -> list[int]:
    return list(member.vertices()) if isinstance(member, Group) else [member]


def _width(*texts: str) -> int:
    return min(max(NARROWEST, *(CHARACTER * len(text) + 18 for text in texts)), WIDEST)


@dataclass(frozen=True)
class Layout:
    """Places of a level's boxes, (x, y) of their middles, and control points of its wires, in the level's order.

    The points of a wire are those of cubic Bézier curves, one behind the other.
    """

    width: int
    height: int
    middles: tuple[tuple[int, int], ...]
    paths: tuple[tuple[int, ...], ...]


def layouts(graphs: Sequence[str]) -> list[Layout]:
    """Lay out graphs in Graphviz's language; ToolError if Graphviz is missing, fails or takes too long."""
    dot = shutil.which("dot")
    if dot is None:
        raise ToolError("Graphviz lays out the network, and its program dot is not installed", "apt install graphviz")
    try:
        done = subprocess.run(
            [dot, "-Tplain"], input="".join(graphs), capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ToolError(f"dot takes longer than {LONGEST_S:.0f} s", "give a network with fewer nodes") from None
    pictures = done.stdout.split("stop\n")[:-1]
    if done.returncode or len(pictures) != len(graphs):
        said = (done.stderr.strip().splitlines() or ["it wrote nothing"])[0]
        raise ToolError(f"dot failed with status {done.returncode}: {said}", "reinstall graphviz")
    return [_layout(picture) for picture in pictures]


def _layout(plain: str) -> Layout:
    """Read Graphviz's format `plain`, whose unit is an inch and whose y grows upwards."""
    width, height = 0.0, 0.0
    middles: dict[int, tuple[int, int]] = {}
    paths: list[tuple[int, ...]] = []
    for line in plain.splitlines():
        words = line.split()
        if words[0] == "graph":
            width, height = float(words[2]), float(words[3])
        elif words[0] == "node":
            middles[int(words[1])] = _px(float(words[2]), height - float(words[3]))
        elif words[0] == "edge":
            numbers = [float(word) for word in words[4 : 4 + 2 * int(words[3])]]
            points = [_px(x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
            paths.append((int(words[1]), int(words[2]), *(number for point in points for number in point)))
    return Layout(*_px(width, height), tuple(middles[index] for index in range(len(middles))), tuple(paths))


def _px(x: float, y: float) -> tuple[int, int]:
    return round(x * PX_PER_INCH), round(y * PX_PER_INCH)


def document(root: Level, found: dict[str, tuple[int, Level]]) -> dict[str, Any]:
    """Return a level for the page; its layout is an index in `found`, to which levels of other form are added."""
    number, _ = found.setdefault(root.dot, (len(found), root))
    return {
        "name": root.group.name,
        "about": root.group.about,
        "layout": number,
        "boxes": root.boxes,
        "wires": [[*ends, list(carried)] for ends, carried in root.wires.items()],
        "levels": [document(each, found) for each in root.levels],
    }

"""Groups of vertices that a viewer collapses: by name scope, by item, by repeated block, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.text import plural
from harness.model.structure import Vertex

MOST_MEMBERS = 120  # of a group: a larger one is divided into parts
PART = 40
LONGEST_BLOCK = 400  # vertices
MOST_SCOPES = 30
MOST_NAMED = 4  # operators in the name of a block

Member: TypeAlias = "int | Group"


@dataclass(frozen=True)
class Group:
    """Vertices, by index, and groups of them, in the order of the graph; `about` describes its content."""

    name: str
    members: tuple[Member, ...]
    about: str = ""

    def vertices(self) -> Iterator[int]:
        """Yield all vertices in it, those in its groups included."""
        for member in self.members:
            if isinstance(member, Group):
                yield from member.vertices()
            else:
                yield member


def groupings(vertices: Sequence[Vertex], items: Mapping[str, str]) -> dict[str, Group]:
    """Return the ways to group, by name, that put at least two vertices together; the first is the default.

    `items` names the item of a vertex, by the vertex's name; it is empty without a plan.
    """
    found = {"name scope": _scopes(vertices), "repeated block": _blocks(vertices)}
    if len(set(items.values())) > 1:
        found = {"item": _by_item(vertices, items), **found}
    grouped = {
        name: group for name, group in found.items() if any(isinstance(member, Group) for member in group.members)
    }
    everything = Group("", tuple(range(len(vertices))))
    return {name: _divided(group, vertices) for name, group in {**grouped, "none": everything}.items()}


def _divided(group: Group, vertices: Sequence[Vertex]) -> Group:
    """Return the group with at most MOST_MEMBERS members in each: more are divided into parts of PART each."""
    members: list[Member] = [
        _divided(member, vertices) if isinstance(member, Group) else member for member in group.members
    ]
    while len(members) > MOST_MEMBERS:
        parts = [tuple(members[start : start + PART]) for start in range(0, len(members), PART)]
        members = [
            Group(f"part {number} of {len(parts)}", part, _about(Group("", part).vertices(), vertices))
            for number, part in enumerate(parts, 1)
        ]
    return Group(group.name, tuple(members), group.about)


def _about(indices: Iterable[int], vertices: Sequence[Vertex]) -> str:
    """Return the number of vertices and their operators, the first MOST_NAMED of them."""
    own = [vertices[index] for index in indices]
    operators = list(dict.fromkeys(vertex.operator for vertex in own if vertex.operator))
    shown = ", ".join(operators[:MOST_NAMED]) + ("…" if len(operators) > MOST_NAMED else "")
    return f"{plural(len(own), 'node')}: {shown}"


def _scopes(vertices: Sequence[Vertex]) -> Group:
    """Return the groups of the parts of names before a slash, as exporters of PyTorch and TensorFlow write them."""
    root: dict[str, object] = {}
    for index, vertex in enumerate(vertices):
        *scopes, _ = filter(None, vertex.name.split("/")) if vertex.kind == "node" and vertex.name.strip("/") else [""]
        inner = root
        for scope in scopes[:MOST_SCOPES]:
            inner = inner.setdefault(f"{scope}/", {})  # type: ignore[assignment] # a key with a slash has a dictionary
        inner[str(index)] = index
    return _scope("", root, vertices)


def _scope(name: str, content: Mapping[str, object], vertices: Sequence[Vertex]) -> Group:
    members: list[Member] = []
    for key, value in content.items():
        if isinstance(value, int):
            members.append(value)
            continue
        inner = _scope(key.removesuffix("/"), value, vertices)  # type: ignore[arg-type] # see above
        only = inner.members[0] if len(inner.members) == 1 else inner
        if isinstance(only, Group) and only is not inner:
            only = Group(f"{inner.name}/{only.name}", only.members, only.about)
        members.append(only)
    return Group(name, tuple(members), _about(Group("", tuple(members)).vertices(), vertices))


def _by_item(vertices: Sequence[Vertex], items: Mapping[str, str]) -> Group:
    found: dict[str, list[int]] = {}
    members: list[Member] = []
    for index, vertex in enumerate(vertices):
        if vertex.kind == "node" and vertex.name in items:
            found.setdefault(items[vertex.name], []).append(index)
        else:
            members.append(index)
    groups = [Group(f"item {name}", tuple(own), _about(own, vertices)) for name, own in found.items()]
    return Group("", (*groups, *members))


def _blocks(vertices: Sequence[Vertex]) -> Group:
    """Return the groups of sequences of operators that are repeated one behind the other."""
    labels = {vertex.operator: number for number, vertex in enumerate(vertices)}
    numbers = (labels[vertex.operator] if vertex.kind == "node" else -1 - at for at, vertex in enumerate(vertices))
    sequence = np.fromiter(numbers, np.intp, len(vertices))
    return Group("", tuple(_repeated(sequence, vertices, range(len(vertices)))))


def _repeated(sequence: npt.NDArray[np.intp], vertices: Sequence[Vertex], part: range) -> Iterator[Member]:
    """Yield the members of a part of the sequence; the blocks of a repetition are groups."""
    at = part.start
    for first, period, times in sorted(_repetitions(sequence, part)):
        yield from range(at, first)
        for number in range(times):
            own = range(first + number * period, first + (number + 1) * period)
            inner = tuple(_repeated(sequence, vertices, own) if period > PART else own)
            yield Group(f"block {number + 1} of {times}", inner, _about(own, vertices))
        at = first + times * period
    yield from range(at, part.stop)


def _repetitions(sequence: npt.NDArray[np.intp], part: range) -> Iterator[tuple[int, int, int]]:
    """Yield the repetition that covers most of a part, and those before and behind it: start, period, times."""
    waiting = [part]
    while waiting:
        own = waiting.pop()
        found = _longest(sequence[own.start : own.stop])
        if found:
            first, period, times = found[0] + own.start, *found[1:]
            yield first, period, times
            waiting += [range(own.start, first), range(first + times * period, own.stop)]


def _longest(sequence: npt.NDArray[np.intp]) -> tuple[int, int, int] | None:
    """Return (start, period, times) of the repetition that covers most vertices, of the shortest period; or None.

    A repetition has at least two operators in a period and two periods.
    """
    best: tuple[int, int, int] | None = None
    covered = 0
    for period in range(2, min(LONGEST_BLOCK, len(sequence) // 2) + 1):
        alike = np.flatnonzero(np.diff(np.concatenate([[False], sequence[:-period] == sequence[period:], [False]])))
        for first, last in zip(alike[::2], alike[1::2], strict=True):
            times = int(last - first) // period + 1
            if times > 1 and times * period > covered and len(set(sequence[first : first + period])) > 1:
                best, covered = (int(first), period, times), times * period
    return best

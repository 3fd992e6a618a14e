"""Groups of vertices: each vertex is in one group, and groups are those of names, blocks and items."""

from __future__ import annotations

import pytest

from harness.applications.view.groups import MOST_MEMBERS, Group, groupings
from harness.model.structure import Vertex


def vertices(*operators: str, name: str = "{}") -> list[Vertex]:
    return [Vertex(name.format(index), operator=operator) for index, operator in enumerate(operators)]


def outline(group: Group) -> list[object]:
    return [[member.name, *outline(member)] if isinstance(member, Group) else member for member in group.members]


def test_names_are_grouped_by_their_scopes() -> None:
    names = ["/net/conv/Conv", "/net/conv/Relu", "/net/Add", "end", "/deep/er/only/One", "/deep/er/only/Two"]
    found = groupings([Vertex(name, operator="Relu") for name in names], {})
    assert outline(found["name scope"]) == [["net", ["conv", 0, 1], 2], 3, ["deep/er/only", 4, 5]]


def test_repeated_operators_are_grouped_by_blocks() -> None:
    found = groupings(vertices(*("Flatten", *("Conv", "Relu", "Add") * 3, "Relu", "Gemm")), {})
    blocks = outline(found["repeated block"])
    assert blocks == [0, ["block 1 of 3", 1, 2, 3], ["block 2 of 3", 4, 5, 6], ["block 3 of 3", 7, 8, 9], 10, 11]
    assert next(iter(found)) == "repeated block"
    [about] = {member.about for member in found["repeated block"].members if isinstance(member, Group)}
    assert about == "3 nodes: Conv, Relu, Add"


def test_a_block_is_the_shortest_that_is_repeated() -> None:
    found = groupings(vertices(*("Conv", "Relu") * 4), {})
    assert outline(found["repeated block"]) == [
        [f"block {number + 1} of 4", 2 * number, 2 * number + 1] for number in range(4)
    ]


def test_items_are_groups_if_there_are_several() -> None:
    nodes = vertices("A", "B", "C")
    found = groupings(nodes, {"0": "pre", "1": "net", "2": "pre"})
    assert outline(found["item"]) == [["item pre", 0, 2], ["item net", 1]]
    assert "item" not in groupings(nodes, {"0": "pre", "1": "pre"})


@pytest.mark.parametrize("count", [3, MOST_MEMBERS, MOST_MEMBERS + 1, 2000])
def test_every_vertex_is_in_one_group_of_limited_size(count: int) -> None:
    for group in groupings(
        vertices(*(f"Op{index * index % 11}" for index in range(count)), name=f"{'deep/' * 2000}{{}}"), {}
    ).values():
        assert sorted(group.vertices()) == list(range(count))
        waiting = [group]
        while waiting:
            members = waiting.pop().members
            assert len(members) <= MOST_MEMBERS
            waiting += [member for member in members if isinstance(member, Group)]

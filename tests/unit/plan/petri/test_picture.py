from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from itertools import combinations

from hypothesis import given

from harness.plan.items.graphs import Graph, ItemGraph
from harness.plan.items.translation import fixed_places, translate, translate_items
from harness.plan.petri.net import Net, Tokens, Transition
from harness.plan.petri.picture import draw, svg
from tests.support.examples import examples
from tests.support.items.examples import BRANCHES, LENET, as_printed, distributions, three_items

SPACE = "{http://www.w3.org/2000/svg}"


def shown(document: str, kind: str) -> list[str]:
    """The titles of all shapes of a kind."""
    groups = ET.fromstring(document).iter(f"{SPACE}g")  # noqa: S314 - our own
    return [g.findtext(f"{SPACE}title", "") for g in groups if kind in g.get("class", "").split() and len(g) > 1]


def test_everything_is_in_the_picture_by_name() -> None:
    net = translate_items(three_items())
    document = svg(net)
    assert sorted(filter(None, shown(document, "place"))) == sorted(net.places)
    operations = {"o1: conv", "o2: conv", "o3: conv", "o4: conv", "o5: conv", "o6: concat", "o7: flatten", "out: gemm"}
    assert set(shown(document, "bar")) - {""} == operations | {"vsync1: sync", "vsync2: sync", "vsync3: sync"}
    for item in ("ITEM1", "ITEM2", "ITEM3"):
        assert f">{item}</text>" in document


def test_hidden_places_take_their_arcs_with_them() -> None:
    net, hidden = translate(LENET), fixed_places([LENET])
    picture = draw(net, hidden)
    assert {circle.name for circle in picture.circles} == set(net.places) - {f"v{number}" for number in range(1, 11)}
    assert len(picture.wires) == 26
    assert len(draw(net).wires) == 36


def test_tokens_are_dots_in_the_colours_of_their_items() -> None:
    picture = draw(translate_items(three_items()))
    dots = {circle.name: sorted(dot.hue for dot in circle.dots) for circle in picture.circles if circle.dots}
    assert dots["v5"] == [2, 3]
    assert dots["e1"] == dots["v9"] == [1]
    assert [circle.name for circle in picture.circles if circle.final] == ["out"]
    counts = [wire.count for wire in draw(translate(BRANCHES)).wires]
    assert Counter(counts) == {1: 28, 2: 1}


def test_many_tokens_are_a_number() -> None:
    net = Net("n", ("a",), (Transition("t", (Tokens("a", "", 9),), ()),), (Tokens("a", "", 9),))
    (circle,) = draw(net).circles
    assert (circle.dots, circle.count) == ((), 9)


def test_an_operation_stands_right_of_all_that_come_before_it() -> None:
    bars = {bar.name: bar for bar in draw(translate_items(three_items())).bars}
    assert bars["o1"].x < bars["o2"].x == bars["o4"].x < bars["o3"].x < bars["o6"].x < bars["out"].x
    assert bars["o2"].x - bars["o1"].x == bars["o7"].x - bars["o6"].x
    assert bars["o1"].y == bars["o6"].y < bars["o2"].y == bars["o3"].y < bars["o4"].y


@examples(60)
@given(distributions())
def test_nothing_stands_on_anything_else(case: tuple[Graph, tuple[ItemGraph, ...]]) -> None:
    picture = draw(translate_items(case[1]))
    boxes = [(bar.x, bar.y, bar.width / 2, bar.height / 2) for bar in picture.bars]
    boxes += [(circle.x, circle.y, circle.radius, circle.radius) for circle in picture.circles]
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(boxes, 2):
        assert abs(x1 - x2) >= w1 + w2 or abs(y1 - y2) >= h1 + h2
    assert all(w <= x <= picture.width - w and h <= y <= picture.height - h for x, y, w, h in boxes)


def test_a_label_is_close_to_its_bar_where_there_is_room() -> None:
    bars = {bar.text: bar for bar in draw(translate_items(three_items())).bars if not bar.sync}
    assert bars["conv"].is_close
    assert bars["conv"].label_y - bars["conv"].y == 30
    circles = draw(translate_items(three_items())).circles
    for bar in bars.values():
        for circle in circles:
            if circle.y == bar.y and bar.is_close:
                assert abs(circle.x - bar.x) > 3.2 * (len(bar.text) + len(circle.text))


def test_the_label_of_a_sync_ends_where_arcs_to_the_next_operation_begin() -> None:
    picture = draw(translate_items(three_items()))
    syncs = [bar for bar in picture.bars if bar.sync]
    assert [bar.label_x for bar in syncs] == [bar.x + bar.width / 2 for bar in syncs]
    crossing = [wire for wire in picture.wires if "C" in wire.path]
    starts = [float(wire.path[1:].split(" ")[0]) for wire in crossing]
    assert starts
    for bar in syncs:
        assert all(bar.label_x - 6.4 * len(bar.text) > start or bar.label_x <= start + 2 for start in starts)


def test_a_net_that_is_stuck_has_a_picture_too() -> None:
    assert {"o2: conv", "o7: flatten"} <= set(shown(svg(translate_items(as_printed())), "bar"))
    circular = Net(
        "c",
        ("a", "b"),
        (Transition("x", (Tokens("a"),), (Tokens("b"),)), Transition("y", (Tokens("b"),), (Tokens("a"),))),
        (),
    )
    assert shown(svg(circular), "bar")[:2] == ["x", "y"]


def test_names_are_escaped_and_shortened() -> None:
    name = "a<b" + "long" * 9
    document = svg(Net("n", (name,), (Transition("t", (Tokens(name),), ()),), (Tokens(name),)))
    assert "a&lt;blonglonglonglon…</text>" in document

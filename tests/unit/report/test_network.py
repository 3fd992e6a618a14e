"""The picture of a network: places of boxes and wires, and what they say."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.report import html
from harness.report.network import BOX_HEIGHT, BOX_WIDTH, COLUMNS, LayerFacts, NetworkPicture, draw
from harness.runs.entries import NodeEntry

Graph = list[NodeEntry]


def graph(*reads: tuple[int, ...]) -> Graph:
    """Nodes n0, n1, ...: each reads these nodes."""
    return [
        NodeEntry(
            name=f"n{index}",
            operator="Add" if index else "",
            reads=read,
            shape=(3, 8),
            dtype="uint8",
            low=0,
            high=255,
        )
        for index, read in enumerate(reads)
    ]


CHAIN = graph((), *((index,) for index in range(11)))
DIAMOND = graph((), (0,), (0,), (0,), (1, 2, 3), (4,))
SKIP = graph((), (0,), (1,), (2,), (3, 1), (4,), (5,), (6, 0))
BRANCHES = [DIAMOND, SKIP, CHAIN]


def corners(picture: NetworkPicture) -> dict[str, tuple[float, float]]:
    return {box.name: (box.x, box.y) for box in picture.boxes}


def points(path: str) -> list[tuple[float, float]]:
    """The ends of the pieces of a path; of a curve also its control points, between which it lies."""
    found: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MCHVhv])([-\d. ]*)", path):
        values = [float(number) for number in numbers.split()]
        if command in "MC":
            found += zip(values[::2], values[1::2], strict=True)
            continue
        (x, y), (value,) = found[-1], values
        ends = {"H": (value, y), "V": (x, value), "h": (x + value, y), "v": (x, y + value)}
        found.append(ends[command])
    return found


def test_a_chain_continues_on_further_lines() -> None:
    places = list(corners(draw(CHAIN, {}, narrow=False)).values())
    assert len({x for x, _ in places}) == COLUMNS
    assert len({y for _, y in places}) == 3
    assert places == sorted(places, key=lambda place: (place[1], place[0]))


def test_on_a_narrow_screen_a_chain_is_one_column_that_fits() -> None:
    picture = draw(CHAIN, {}, narrow=True)
    places = list(corners(picture).values())
    assert len({x for x, _ in places}) == 1
    assert places == sorted(places, key=lambda place: place[1])
    assert picture.width <= 360
    longest = max(label.x + 6.9 * len(label.text) for label in picture.labels)
    assert longest <= picture.width


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("nodes", BRANCHES)
def test_boxes_do_not_overlap_and_lie_in_the_picture(nodes: Graph, narrow: bool) -> None:
    picture = draw(nodes, {}, narrow=narrow)
    places = list(corners(picture).values())
    for index, (x, y) in enumerate(places):
        assert 0 <= x <= picture.width - BOX_WIDTH
        assert 0 <= y <= picture.height - BOX_HEIGHT
        for other_x, other_y in places[:index]:
            assert abs(x - other_x) >= BOX_WIDTH or abs(y - other_y) >= BOX_HEIGHT


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("nodes", BRANCHES)
def test_no_wire_crosses_a_box(nodes: Graph, narrow: bool) -> None:
    picture = draw(nodes, {}, narrow=narrow)
    for wire in picture.wires:
        for path in wire.paths:
            found = points(path)
            for (x1, y1), (x2, y2) in pairwise(found):
                for x, y in corners(picture).values():
                    beside = max(x1, x2) <= x or min(x1, x2) >= x + BOX_WIDTH
                    assert beside or max(y1, y2) <= y or min(y1, y2) >= y + BOX_HEIGHT, (wire.about, path)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("nodes", BRANCHES)
def test_every_tensor_reaches_all_its_readers(nodes: Graph, narrow: bool) -> None:
    picture = draw(nodes, {}, narrow=narrow)
    places = corners(picture)
    for wire in picture.wires:
        writer, readers = wire.about.split(": ")[0].split(" to ", 1)
        x, y = places[writer]
        reached = {(x + BOX_WIDTH / 2, y + BOX_HEIGHT) if narrow else (x + BOX_WIDTH, y + BOX_HEIGHT / 2)}
        pieces = [points(path) for path in wire.paths]
        for _ in pieces:
            reached |= {found[-1] for found in pieces if found[0] in reached}
        for reader in readers.split(", "):
            x, y = places[reader]
            assert ((x + BOX_WIDTH / 2, y) if narrow else (x, y + BOX_HEIGHT / 2)) in reached, (writer, reader)


def test_a_wire_shows_shape_type_and_range() -> None:
    nodes = graph((), (0,), (1,))
    nodes[1] = nodes[1].model_copy(update={"shape": (64, 112, 112), "dtype": "float32", "low": -1.25, "high": 1.25})
    texts = [label.text for label in draw(nodes, {}, narrow=False).labels]
    assert texts == ["3x8 uint8", "0 to 255", "64x112x112 f32", "±1.25"]
    wide, _ = draw(nodes, {}, narrow=True).labels[::-1]
    assert wide.text == "64x112x112 float32, ±1.25"
    assert draw(nodes, {}, narrow=False).wires[1].about == "n1 to n2: 64x112x112 float32, values ±1.25"


def test_a_box_shows_result_time_and_its_share_of_the_longest() -> None:
    facts = {"n1": LayerFacts(3, 24, 500.0, "500 ns", anchor="layer-0"), "n2": LayerFacts(0, 24, 2000.0, "2 µs")}
    source, first, second = draw(graph((), (0,), (1,)), facts, narrow=False).boxes
    assert (source.differing, source.time, source.anchor) == (None, "", "")
    assert (first.differing, first.compared, first.time, first.share, first.anchor) == (
        3,
        24,
        "500 ns",
        0.25,
        "layer-0",
    )
    assert (second.differing, second.time, second.share) == (0, "2 µs", 1.0)


@pytest.mark.parametrize("reads", [(1,), (2,), (-1,)])
def test_a_graph_that_is_not_in_order_is_refused(reads: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="n1 does not only read nodes before it"):
        draw(graph((), reads, (0,)), {}, narrow=False)


def svgs(source: str) -> list[ET.Element]:
    return [ET.fromstring(found) for found in re.findall(r'<svg class="network".*?</svg>', source, re.DOTALL)]  # noqa: S314 - our own page


def test_the_boxes_of_a_page_lead_to_the_rows_of_their_layers(differing: dict[str, Any]) -> None:
    source = html(differing)
    for picture in svgs(source):
        links = {a.findtext(".//title", "").split(" ")[0]: a.attrib["href"] for a in picture.iter("a")}
        assert links == {layer["name"]: f"#layer-{layer['index']}" for layer in differing["layers"]}
        signs = {
            a.attrib["href"]: next(t.text for t in a.iter("text") if t.get("class") == "result")
            for a in picture.iter("a")
        }
        assert signs["#layer-1"] == "≠ 12"
        assert signs["#layer-0"] == "="
    assert len(svgs(source)) == 2
    assert all(f'<tr id="layer-{layer["index"]}"' in source for layer in differing["layers"])


def traced(run: dict[str, Any]) -> dict[str, Any]:
    """The run with a trace: quantize_input takes 400 µs, dense_1 184.6 ms, the others 1 µs each."""
    times = {"quantize_input": 400_000, "dense_1": 184_600_000}
    items = [
        {"name": item["name"], "steps": [{"kind": "layer", "name": name, "stage": 0} for name in item["tasks"]]}
        for item in run["plan"]["items"]
    ]
    events, now = [], 0
    for task in run["plan"]["tasks"]:
        end = now + times.get(task["name"], 1000)
        events.append(
            {
                "item": task["item"],
                "kind": "layer",
                "name": task["name"],
                "execution": 6,
                "begin_ns": now,
                "end_ns": end,
            }
        )
        now = end
    picture = {
        "depth": 1, "sync": "barrier", "items": items,
        "hand_overs": [], "executions": [6], "duration_ns": now, "span_ns": now, "events": events,
    }  # fmt: skip
    observed = {
        "executions": 20,
        "events": 220,
        "conforms": True,
        "conditions": [],
        "violations": [],
        "waiting": [],
        "picture": picture,
    }
    return run | {"conformance": observed}


def test_layers_of_a_launch_have_one_time(identical: dict[str, Any]) -> None:
    tasks = identical["plan"]["items"][1]["tasks"]
    source = html(traced(identical) | {"launches": [tasks]})
    wide, _ = svgs(source)
    texts = {a.attrib["href"]: [text.text for text in a.iter("text")] for a in wide.iter("a")}
    assert texts["#layer-0"] == ["quantize_input", "QuantizeLinear", "=", "400 µs"]
    assert texts["#layer-1"] == ["dense_1", "QGemm, launch", "=", "184.6 ms"]
    assert texts["#layer-2"] == ["dense_2", "QGemm, in launch", "="]
    assert "times are those of the median traced execution of a block: not MET" in source
    assert "<code>dense_1</code> to <code>scores</code>, 9 tasks, run in one launch." in source
    assert "one launch: dense_1 to scores" in source

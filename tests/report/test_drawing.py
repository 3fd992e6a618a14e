from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from harness.report.drawing import BOX_HEIGHT, BOX_WIDTH, LANE_HEIGHT, Drawing, draw, name_lines


@pytest.fixture
def drawing(identical: dict[str, Any]) -> Drawing:
    return draw(identical["plan"], identical["layers"])


def chain(items: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A plan and its layers; one letter a layer names its item: `aab`."""
    layers = [
        {"name": f"layer_{index}", "item": item, "reads": [f"layer_{index - 1}"] if index else []}
        for index, item in enumerate(items)
    ]
    changes = [(before, after) for before, after in pairwise(layers) if before["item"] != after["item"]]
    return {
        "items": [{"name": item, "ran_on": "hardware"} for item in sorted(set(items))],
        "barriers": [{"name": a["name"], "items": [a["item"], b["item"]]} for a, b in changes],
    }, layers


def test_one_box_a_layer_from_left_to_right(drawing: Drawing) -> None:
    assert [box.layer["index"] for box in drawing.boxes] == list(range(11))
    assert all(after.x - before.x > BOX_WIDTH for before, after in pairwise(drawing.boxes))
    assert drawing.boxes[-1].x + BOX_WIDTH < drawing.width


def test_every_box_lies_inside_the_lane_of_its_item(drawing: Drawing) -> None:
    lanes = {lane.item["name"]: lane.y for lane in drawing.lanes}
    assert list(lanes) == ["prepost", "network"]
    for box in drawing.boxes:
        assert lanes[box.layer["item"]] < box.y
        assert box.y + BOX_HEIGHT < lanes[box.layer["item"]] + LANE_HEIGHT
    assert drawing.height == lanes["network"] + LANE_HEIGHT


def test_a_barrier_joins_both_lanes_behind_its_layer(drawing: Drawing) -> None:
    down, up = drawing.bars
    assert drawing.boxes[0].x + BOX_WIDTH < down.x < drawing.boxes[1].x
    assert drawing.boxes[9].x + BOX_WIDTH < up.x < drawing.boxes[10].x
    middles = [box.y + BOX_HEIGHT / 2 for box in drawing.boxes[:2]]
    assert [down.y1, down.y2] == [up.y2, up.y1] == middles


def test_wires_lead_from_each_box_to_the_next(drawing: Drawing) -> None:
    first, second = drawing.boxes[:2]
    assert len(drawing.wires) == 10
    assert drawing.wires[0].startswith(f"M{first.x + BOX_WIDTH:g} {first.y + BOX_HEIGHT / 2:g}H")
    assert drawing.wires[0].endswith(f"V{second.y + BOX_HEIGHT / 2:g}H{second.x:g}")


def test_a_long_network_continues_on_a_second_line() -> None:
    drawing = draw(*chain("a" * 6 + "b" * 6))
    assert [box.x for box in drawing.boxes[6:]] == [box.x for box in drawing.boxes[:6]]
    assert [lane.item["name"] for lane in drawing.lanes] == ["a", "b", "a", "b"]
    assert [lane.y for lane in drawing.lanes] == sorted(lane.y for lane in drawing.lanes)
    assert drawing.boxes[6].y - drawing.lanes[3].y == drawing.boxes[0].y - drawing.lanes[0].y
    assert len(drawing.wires) == 10 + 2
    leaving, arriving = drawing.wires[5:7]
    assert leaving.endswith(f"H{drawing.width:g}")
    assert arriving.endswith(f"{drawing.boxes[6].y + BOX_HEIGHT / 2:g}H{drawing.boxes[6].x:g}")
    (bar,) = drawing.bars
    assert (bar.y1, bar.y2) == (drawing.boxes[5].y + BOX_HEIGHT / 2, drawing.lanes[1].y + LANE_HEIGHT / 2)


def test_a_branch_is_led_around_the_boxes_in_between() -> None:
    plan, layers = chain("aaaaa")
    layers[2]["reads"] = ["layer_0"]
    layers[3]["reads"] = ["layer_1", "layer_2"]
    drawing = draw(plan, layers)
    boxes = drawing.boxes
    assert len(drawing.wires) == 5
    above, below = drawing.wires[1:3]
    assert heights(above)[1] < boxes[1].y
    assert heights(below)[1] > boxes[2].y + BOX_HEIGHT
    for wire, writer, reader in ((above, 0, 2), (below, 1, 3)):
        assert wire.startswith(f"M{boxes[writer].x + BOX_WIDTH:g} {boxes[writer].y + BOX_HEIGHT / 2:g}H")
        assert wire.endswith(f"V{boxes[reader].y + BOX_HEIGHT / 2:g}H{boxes[reader].x:g}")
        assert all(drawing.lanes[0].y < height < drawing.lanes[0].y + LANE_HEIGHT for height in heights(wire))


def test_a_branch_reaches_a_box_on_a_later_line() -> None:
    plan, layers = chain("a" * 14)
    layers[12]["reads"] = ["layer_3"]
    drawing = draw(plan, layers)
    wire = drawing.wires[12]  # the one before was led over two lines
    assert wire.startswith(f"M{drawing.boxes[3].x + BOX_WIDTH:g} {drawing.boxes[3].y + BOX_HEIGHT / 2:g}H")
    assert drawing.lanes[1].y < heights(wire)[1] < drawing.lanes[1].y + LANE_HEIGHT
    assert wire.endswith(f"H{drawing.boxes[12].x:g}")


def heights(wire: str) -> list[float]:
    """Where a path begins, and where its vertical pieces end."""
    return [float(number) for number in re.findall(r"(?:^M[0-9.]+ |V)([0-9.]+)", wire)]


def test_a_single_layer_has_no_wire() -> None:
    drawing = draw(*chain("a"))
    assert (len(drawing.boxes), drawing.wires, drawing.bars) == (1, (), ())


def test_a_layer_of_an_unknown_item_is_refused(identical: dict[str, Any]) -> None:
    identical["layers"][2]["item"] = "dsp"
    with pytest.raises(ValueError, match="not in tuple"):
        draw(identical["plan"], identical["layers"])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("dense_1", ("dense_1",)),
        ("0123456789", ("0123456789",)),
        ("quantize_input", ("quantize_", "input")),
        ("a_b_c_d_e_f_g", ("a_b_c_d_e_", "f_g")),
        ("withoutanyunderscore", ("withoutany", "underscore")),
        ("one_" + "x" * 30, ("one_", "xxxxxxxxx…")),
    ],
)
def test_a_name_is_broken_behind_underscores(name: str, lines: tuple[str, ...]) -> None:
    assert name_lines(name) == lines

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from harness.report.drawing import (
    BOX_HEIGHT,
    BOX_WIDTH,
    LABEL_WIDTH,
    LANE_HEIGHT,
    STAGE_HEIGHT,
    Drawing,
    draw,
    name_lines,
)
from harness.runs.entries import LayerEntry, PlanEntry


def drawn(plan: dict[str, Any], layers: list[dict[str, Any]]) -> Drawing:
    """Return the picture of parts of a document."""
    return draw(PlanEntry.view(plan), [LayerEntry.view(layer) for layer in layers])


@pytest.fixture
def drawing(identical: dict[str, Any]) -> Drawing:
    return drawn(identical["plan"], identical["layers"])


def chain(items: str, sync: str = "barrier") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A plan and its layers; one letter a layer names its item, or more that share it in brackets: `a[ab]b`."""
    shares = [match.strip("[]") for match in re.findall(r"\[\w+\]|\w", items)]
    layers = [
        {"name": f"layer_{index}", "items": list(share), "reads": [f"layer_{index - 1}"] if index else []}
        for index, share in enumerate(shares)
    ]
    tasks = [
        {"name": f"{layer['name']}{item * (len(share) > 1)}", "layer": layer["name"], "item": item, "stage": 0}
        for layer, share in zip(layers, shares, strict=True)
        for item in share
    ]
    hand_overs = [
        {"name": f"layer_{index}", "items": [before, after]}
        for index, (before, after) in enumerate(pairwise(shares))
        if before != after and len(before + after) == 2
    ]
    names = sorted(set("".join(shares)))
    plan = {"items": [{"name": name, "ran_on": "hardware"} for name in names], "sync": sync, "depth": 1}
    return plan | {"tasks": tasks, "hand_overs": hand_overs}, layers


def test_one_box_a_layer_from_left_to_right(drawing: Drawing) -> None:
    assert [box.layer.index for box in drawing.boxes] == list(range(11))
    assert all(after.x - before.x > BOX_WIDTH for before, after in pairwise(drawing.boxes))
    assert drawing.boxes[-1].x + BOX_WIDTH < drawing.width


def test_every_box_lies_inside_the_lane_of_its_item(drawing: Drawing) -> None:
    lanes = {lane.item.name: lane.y for lane in drawing.lanes}
    assert list(lanes) == ["prepost", "network"]
    for box in drawing.boxes:
        assert lanes[box.task.item] < box.y
        assert box.y + BOX_HEIGHT < lanes[box.task.item] + LANE_HEIGHT
    assert drawing.height == lanes["network"] + LANE_HEIGHT


def test_a_barrier_joins_both_lanes_behind_its_layer(drawing: Drawing) -> None:
    down, up = drawing.bars
    assert drawing.boxes[0].x + BOX_WIDTH < down.x < drawing.boxes[1].x
    assert drawing.boxes[9].x + BOX_WIDTH < up.x < drawing.boxes[10].x
    middles = tuple(box.y + BOX_HEIGHT / 2 for box in drawing.boxes[:2])
    assert down.stops == up.stops == middles
    assert (down.writer, up.writer) == middles


def test_wires_lead_from_each_box_to_the_next(drawing: Drawing) -> None:
    first, second = drawing.boxes[:2]
    assert len(drawing.wires) == 10
    assert drawing.wires[0].startswith(f"M{first.x + BOX_WIDTH:g} {first.y + BOX_HEIGHT / 2:g}H")
    assert drawing.wires[0].endswith(f"V{second.y + BOX_HEIGHT / 2:g}H{second.x:g}")


def test_a_long_network_continues_on_a_second_line() -> None:
    drawing = drawn(*chain("a" * 6 + "b" * 6))
    assert [box.x for box in drawing.boxes[6:]] == [box.x for box in drawing.boxes[:6]]
    assert [lane.item.name for lane in drawing.lanes] == ["a", "b", "a", "b"]
    assert [lane.y for lane in drawing.lanes] == sorted(lane.y for lane in drawing.lanes)
    assert drawing.boxes[6].y - drawing.lanes[3].y == drawing.boxes[0].y - drawing.lanes[0].y
    assert len(drawing.wires) == 10 + 2
    leaving, arriving = drawing.wires[5:7]
    assert leaving.endswith(f"H{drawing.width:g}")
    assert arriving.endswith(f"{drawing.boxes[6].y + BOX_HEIGHT / 2:g}H{drawing.boxes[6].x:g}")
    (bar,) = drawing.bars
    assert bar.stops == (drawing.boxes[5].y + BOX_HEIGHT / 2, drawing.lanes[1].y + LANE_HEIGHT / 2)


def test_a_branch_is_led_around_the_boxes_in_between() -> None:
    plan, layers = chain("aaaaa")
    layers[2]["reads"] = ["layer_0"]
    layers[3]["reads"] = ["layer_1", "layer_2"]
    drawing = drawn(plan, layers)
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
    drawing = drawn(plan, layers)
    wire = drawing.wires[12]  # the one before was led over two lines
    assert wire.startswith(f"M{drawing.boxes[3].x + BOX_WIDTH:g} {drawing.boxes[3].y + BOX_HEIGHT / 2:g}H")
    assert drawing.lanes[1].y < heights(wire)[1] < drawing.lanes[1].y + LANE_HEIGHT
    assert wire.endswith(f"H{drawing.boxes[12].x:g}")


def heights(wire: str) -> list[float]:
    """Where a path begins, and where its vertical pieces end."""
    return [float(number) for number in re.findall(r"(?:^M[0-9.]+ |V)([0-9.]+)", wire)]


def test_a_single_layer_has_no_wire() -> None:
    drawing = drawn(*chain("a"))
    assert (len(drawing.boxes), drawing.wires, drawing.bars) == (1, (), ())


def test_a_layer_of_an_unknown_item_is_refused(identical: dict[str, Any]) -> None:
    identical["plan"]["tasks"][2]["item"] = "dsp"
    with pytest.raises(ValueError, match="not in tuple"):
        drawn(identical["plan"], identical["layers"])


def test_a_task_of_an_unknown_layer_is_refused(identical: dict[str, Any]) -> None:
    identical["plan"]["tasks"][2]["layer"] = "nowhere"
    with pytest.raises(ValueError, match="'nowhere' is not in list"):
        drawn(identical["plan"], identical["layers"])


def test_a_split_layer_has_a_box_on_the_lane_of_each_of_its_items() -> None:
    drawing = drawn(*chain("a[abc]a"))
    first, *parts, last = drawing.boxes
    assert [box.task.name for box in parts] == ["layer_1a", "layer_1b", "layer_1c"]
    assert {box.x for box in parts} == {(first.x + last.x) / 2}
    assert [box.y - lane.y for box, lane in zip(parts, drawing.lanes, strict=True)] == [
        first.y - drawing.lanes[0].y
    ] * 3
    assert len(drawing.wires) == 3 + 3
    assert {heights(wire)[-1] for wire in drawing.wires[:3]} == {box.y + BOX_HEIGHT / 2 for box in parts}


def test_a_split_layer_at_the_end_of_a_line_arrives_once_on_the_next() -> None:
    drawing = drawn(*chain("aaaaa[ab]aaaaaa"))
    leaving = [wire for wire in drawing.wires if wire.endswith(f"H{drawing.width:g}")]
    arriving = [wire for wire in drawing.wires if wire.startswith(f"M{LABEL_WIDTH} ")]
    assert (len(leaving), len(arriving)) == (2, 1)


def test_a_hand_over_reaches_from_the_uppermost_to_the_lowest_lane() -> None:
    plan, layers = chain("b[abc]a")
    plan["hand_overs"] = [{"name": "layer_0", "items": ["b", "a", "c"]}]
    (bar,) = drawn(plan, layers).bars
    lanes = drawn(plan, layers).lanes
    assert bar.stops == tuple(lane.y + LANE_HEIGHT / 2 for lane in lanes)
    assert bar.writer == bar.stops[1]


def test_barriers_behind_one_layer_stand_side_by_side_and_flags_by_their_tasks() -> None:
    for sync in ("barrier", "flag"):
        plan, layers = chain("[abc]a", sync)
        plan["hand_overs"] = [{"name": f"layer_0{item}", "items": [item, "a"]} for item in "bc"]
        drawing = drawn(plan, layers)
        first, second = drawing.bars
        assert drawing.boxes[0].x + BOX_WIDTH < first.x - first.width / 2
        assert second.x + second.width / 2 < drawing.boxes[3].x
        assert (second.x - first.x > first.width) == (sync == "barrier")
        assert (first.writer, second.writer) == (first.stops[1], second.stops[1])


def test_stages_of_a_pipeline_stand_above_the_lanes_where_they_begin() -> None:
    plan, layers = chain("aabba" * 3)
    for index, task in enumerate(plan["tasks"]):
        task["stage"] = index // 5
    drawing = drawn(plan | {"depth": 3}, layers)
    columns = [drawing.boxes[index].x - 11 for index in (0, 5, 8, 10)]  # the second line begins with layer 8
    assert [stage.x for stage in drawing.stages] == columns
    assert [(stage.number, stage.is_first) for stage in drawing.stages] == [
        (0, True),
        (1, False),
        (1, True),
        (2, False),
    ]
    assert drawing.lanes[0].y - drawing.stages[0].y == drawing.lanes[2].y - drawing.stages[2].y == STAGE_HEIGHT
    assert drawing.stages[2].y > drawing.lanes[1].y + LANE_HEIGHT
    assert drawn(plan, layers).stages == ()


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

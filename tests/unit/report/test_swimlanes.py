"""The picture shows the trace that it was made of: every step on its lane, at its time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

from harness.boards.profile import Profile
from harness.plan.conformance import Condition, arrange, document
from harness.plan.plan import Plan
from harness.report import html, page
from harness.report.swimlanes import AREA_WIDTH, BOX_HEIGHT, LABEL_WIDTH, LANE_HEIGHT, Half, Swimlanes, draw
from tests.support.conformance.plans import chain, make
from tests.support.conformance.simulator import simulate


def picture_of(made: Plan, executions: int = 20) -> dict[str, Any]:
    trace = arrange(made, simulate(made, executions, np.random.default_rng(1)), executions)
    picture = document(made, [Condition("undisturbed", trace)], 5).picture
    assert picture is not None
    return dict(picture)


@pytest.fixture
def offloaded(host: Profile) -> dict[str, Any]:
    return picture_of(make(chain(), host, "layer_0=right"))


@pytest.fixture
def swimlanes(offloaded: dict[str, Any]) -> Swimlanes:
    return draw(offloaded)


def boxes(half: Half) -> dict[str, tuple[float, float]]:
    return {box.step.name: (box.x, round(box.x + box.width, 2)) for box in half.boxes}


def test_the_schedule_stands_in_the_order_of_the_plan(swimlanes: Swimlanes) -> None:
    placed = boxes(swimlanes.schedule)
    assert list(placed) == ["quantize", "layer_0", "layer_1", "layer_2", "dequantize", "advisory"]
    down, up = sorted(swimlanes.schedule.bars, key=lambda bar: bar.x)
    assert (down.name, up.name) == ("quantize", "layer_0")
    order = [placed["quantize"][1], down.x, placed["layer_0"][0], placed["layer_0"][1], up.x, placed["layer_1"][0]]
    assert order == sorted(set(order))
    assert placed["layer_1"][1] == placed["layer_2"][0]
    assert [box.number for box in swimlanes.schedule.boxes] == [1, 2, 3, 4, 5, 6]
    assert swimlanes.unnamed == ()


def test_measured_steps_lie_at_their_times(offloaded: dict[str, Any], swimlanes: Swimlanes) -> None:
    scale = AREA_WIDTH / offloaded["span_ns"]
    for event in offloaded["events"]:
        if event["kind"] == "layer":
            begin, end = (LABEL_WIDTH + event[key] * scale for key in ("begin_ns", "end_ns"))
            assert boxes(swimlanes.trace)[event["name"]] == pytest.approx((begin, end), abs=0.02)
    for bar in swimlanes.trace.bars:
        came = [e["begin_ns"] for e in offloaded["events"] if (e["kind"], e["name"]) == ("barrier", bar.name)]
        assert bar.x == pytest.approx(LABEL_WIDTH + max(came) * scale, abs=0.01)
    for wait in swimlanes.trace.waits:
        assert wait.width == pytest.approx((wait.step.end - wait.step.begin) * scale, abs=0.01)
    assert {wait.step.item for wait in swimlanes.trace.waits} == {"left", "right"}


def test_every_step_lies_on_the_lane_of_its_item(swimlanes: Swimlanes) -> None:
    for half in (swimlanes.schedule, swimlanes.trace):
        lanes = dict(half.lanes)
        for shape in (*half.boxes, *half.waits):
            assert lanes[shape.step.item] < shape.y
            assert shape.y + BOX_HEIGHT < lanes[shape.step.item] + LANE_HEIGHT
        assert all(bar.stops == tuple(y + LANE_HEIGHT / 2 for y in lanes.values()) for bar in half.bars)
    assert swimlanes.schedule.bottom < swimlanes.trace.y
    assert swimlanes.trace.bottom < swimlanes.height


def test_flags_lead_from_their_writer_to_their_readers(host: Profile) -> None:
    drawn = draw(picture_of(make(chain(), host, "layer_0=right", sync="flag")))
    for half in (drawn.schedule, drawn.trace):
        left, right = (y + LANE_HEIGHT / 2 for _, y in half.lanes)
        down, up = sorted(half.arrows, key=lambda arrow: arrow.x1)
        assert half.bars == ()
        assert all(wait.width >= 1 for wait in half.waits)  # to raise a flag takes no time to speak of
        assert (down.name, down.items, down.y1, down.y2) == ("quantize", ("left", "right"), left, right)
        assert (up.name, up.items, up.y1, up.y2) == ("layer_0", ("right", "left"), right, left)
        placed = boxes(half)
        assert placed["quantize"][1] <= down.x1 < down.x2 <= placed["layer_0"][0]


def test_executions_of_a_pipeline_have_shades_and_ticks(host: Profile) -> None:
    picture = picture_of(make(chain(), host, "layer_0..layer_1=right", "pipeline"))
    drawn = draw(picture)
    assert drawn.executions == tuple((execution, shade) for shade, execution in enumerate(picture["executions"]))
    assert len(drawn.schedule.boxes) == len(drawn.trace.boxes) == 4 * 6
    for half in (drawn.schedule, drawn.trace):
        assert len(half.rules) == 4 + 3 - 2
        assert all(box.shade == dict(drawn.executions)[box.step.execution] for box in half.boxes)
        for box in half.boxes:
            stage = {"quantize": 0, "layer_0": 1, "layer_1": 1}.get(box.step.name, 2)
            tick = box.step.execution - picture["executions"][0] + stage
            assert sum(rule <= box.x for rule in half.rules) == tick
    assert {line for box in drawn.schedule.boxes for line in box.lines} >= {f"n={n}" for n in picture["executions"]}


def test_what_does_not_fit_into_a_box_is_its_number_or_nothing(host: Profile) -> None:
    drawn = draw(picture_of(make(chain((3, *[4] * 30)), host, "parallel")))
    assert {box.lines for box in drawn.schedule.boxes if box.is_named} == set()
    assert {box.lines for box in drawn.schedule.boxes} <= {(), *((str(number),) for number in range(64))}
    assert drawn.unnamed[:4] == ((1, "quantize"), (2, "layer_0_0"), (3, "layer_0_1"), (4, "layer_1_0"))
    assert len(drawn.unnamed) == len(drawn.schedule.boxes)


@pytest.mark.parametrize(
    ("span_ns", "unit", "unit_ns", "labels"),
    [
        (950, "ns", 1, ["0", "100", "200"]),
        (10_500, "µs", 1e3, ["0", "2", "4"]),
        (7, "ns", 1, ["0", "1", "2"]),
        (185_547_296, "ms", 1e6, ["0", "20", "40"]),
    ],
)
def test_the_axis_has_round_times_in_a_unit_that_suits_them(
    offloaded: dict[str, Any], span_ns: int, unit: str, unit_ns: float, labels: list[str]
) -> None:
    drawn = draw(offloaded | {"span_ns": span_ns})
    assert drawn.unit == unit
    assert [label for _, label in drawn.axis][:3] == labels
    assert 4 <= len(drawn.axis) <= 11
    assert drawn.axis[1][0] == pytest.approx(LABEL_WIDTH + float(labels[1]) * unit_ns * AREA_WIDTH / span_ns, abs=0.01)


def test_one_box_of_the_trace_represents_a_launch(offloaded: dict[str, Any]) -> None:
    names = [event["name"] for event in offloaded["events"] if event["item"] == "left" and event["kind"] == "layer"]
    group = tuple(names[1:3])
    assert group[0] == "layer_1"
    assert len(group) == 2
    alone, joined = draw(offloaded), draw(offloaded, [group])
    assert len(joined.schedule.boxes) == len(alone.schedule.boxes)
    assert len(joined.trace.boxes) == len(alone.trace.boxes) - 1
    [box] = [box for box in joined.trace.boxes if box.launch]
    first, *_, last = (box for box in alone.trace.boxes if box.step.name in group)
    assert box.launch == group
    assert (box.step.begin, box.step.end) == (first.step.begin, last.step.end)
    assert (box.x, round(box.x + box.width, 2)) == (first.x, round(last.x + last.width, 2))


def test_a_long_time_has_no_exponent_and_no_clipped_label(offloaded: dict[str, Any]) -> None:
    shown = draw(offloaded | {"span_ns": 142_800_000, "duration_ns": 142_800_000})
    source = page.environment().get_template("swimlanes.svg.jinja").render(swimlanes=shown)
    assert "142.8 ms" in source
    assert "e+0" not in source
    svg = ET.fromstring(source)  # noqa: S314 - of our own making
    axis = next(group for group in svg.iter() if group.get("class") == "axis")
    for text in axis:
        if text.get("text-anchor") == "middle":
            assert float(text.attrib["x"]) + 3.5 * len(text.text or "") <= shown.width


def test_a_schedule_that_gets_stuck_is_refused(offloaded: dict[str, Any]) -> None:
    offloaded["items"][1]["steps"].pop(0)
    with pytest.raises(ValueError, match="does not end"):
        draw(offloaded)


def test_the_svg_stands_by_itself(host: Profile, offloaded: dict[str, Any]) -> None:
    for picture in (offloaded, picture_of(make(chain(), host, "layer_0=right", sync="flag"))):
        source = page.environment().get_template("swimlanes.svg.jinja").render(swimlanes=draw(picture))
        svg = ET.fromstring(source)  # noqa: S314 - of our own making
        titles = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
        assert f"3: left computes layer_1, execution {picture['executions'][0]}" in titles
        assert set(re.findall(r"var\((--[a-z]+)[-\d]*\)", source)) == {
            "--tint"
        }  # the page's colours have others beside


def test_times_of_an_emulated_board_are_named_as_such_beside_the_picture(
    identical: dict[str, Any], offloaded: dict[str, Any]
) -> None:
    observed = {
        "executions": 20, "events": 100, "conforms": True, "violations": [], "waiting": [], "picture": offloaded,
        "conditions": [{"name": "undisturbed", "executions": 20, "violations": 0}],
    }  # fmt: skip
    assert "Measured on an emulated board: these are not times" in html(identical | {"conformance": observed})

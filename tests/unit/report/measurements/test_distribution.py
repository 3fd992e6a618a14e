"""The pictures of a distribution show the document's numbers: every bar, every share, every point of a curve."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from harness.report.chart import Axis, Chart
from harness.report.measurements import distribution
from harness.runs.entries import ClockEntry, ComparedPartEntry, HistogramEntry, PartEntry


def places(path: str) -> Iterator[tuple[float, float]]:
    """The corners of a path of M, L, H, V and h0."""
    x = y = 0.0
    for command, numbers in re.findall(r"([MLHV])([-\d. ]+)", path):
        values = [float(number) for number in numbers.split()]
        x = values[0] if command in "MLH" else x
        y = values[-1] if command in "MLV" else y
        yield x, y


def shape(chart: Chart, kind: str) -> str:
    [found] = [one.path for one in chart.shapes if one.kind == kind]
    return found


def vertical(chart: Chart) -> Axis:
    assert isinstance(chart.y, Axis)
    return chart.y


def _bars(left: str, outline: str) -> Iterator[tuple[float, float, float]]:
    """(left, top, right) of every bar of an outline."""
    at = float(left)
    for top, right in re.findall(r"V([\d.]+)H([\d.]+)", outline):
        yield at, float(top), float(right)
        at = float(right)


def test_bars_sum_to_all_executions(disturbed: dict[str, Any]) -> None:
    found = disturbed["parts"][0]["histogram"]
    chart = distribution.histogram(HistogramEntry.view(found), "All")
    outlines = re.findall(r"M([\d.]+) 190((?:V[\d.]+H[\d.]+)+)V190z", shape(chart, "bar"))
    bars = [bar for outline in outlines for bar in _bars(*outline)]
    heights = [vertical(chart).value(top) for _, top, _ in bars]
    counts = [count for count in found["counts"] if count]
    assert heights == pytest.approx(counts, rel=0.01)  # a tenth of a unit is 0.4 % of a count
    assert sum(counts) == 4000
    width = 500 / len(found["counts"])
    filled = [index for index, count in enumerate(found["counts"]) if count]
    assert [left for left, _, _ in bars] == pytest.approx([width * index for index in filled], abs=0.06)
    assert all(right - left == pytest.approx(width, abs=0.11) for left, _, right in bars)


def test_one_execution_has_a_height() -> None:
    chart = distribution.histogram(HistogramEntry.view({"edges_ns": [0, 10, 20], "counts": [100_000, 1]}), "All")
    tops = [y for _, y in places(shape(chart, "bar")) if y < 190]
    assert max(tops) < 181


def test_the_tail_never_rises_and_keeps_its_ends(sound: dict[str, Any]) -> None:
    part = sound["parts"][0]
    chart = distribution.tail(PartEntry.view(part), ())
    corners = list(places(shape(chart, "new")))
    assert all(one[0] <= two[0] and one[1] <= two[1] for one, two in pairwise(corners))
    assert chart.x.value(corners[0][0]) == pytest.approx(part["summary"]["min_ns"], rel=1e-3)
    assert chart.x.value(corners[-1][0]) == pytest.approx(part["summary"]["max_ns"], rel=1e-3)
    assert vertical(chart).value(corners[-1][1]) == pytest.approx(1 / 4000, rel=0.02)


def test_a_share_holds_from_the_time_before_it_on() -> None:
    x, y = Axis("", 10, 30, 0, 200), Axis("", 0, 1, 100, 0)
    path = distribution._steps([[10, 1.0], [20, 0.5], [30, 0.25]], x, y)
    assert list(places(path)) == [(0, 0), (0, 50), (100, 50), (100, 75), (200, 75)]


def test_the_curves_pass_the_points_of_the_document(sound: dict[str, Any]) -> None:
    part = sound["parts"][0]
    chart = distribution.tail(PartEntry.view(part), ())
    for name, found in part["pwcet"].items():
        kind = name.replace("_", "-")
        drawn = [place for one in chart.shapes if one.kind in {kind, f"{kind} beyond"} for place in places(one.path)]
        for point in found["curve"]:
            x, y = chart.x.at(point["time_ns"]), vertical(chart).at(point["exceedance"])
            left, right = max(p for p in drawn if p[1] <= y + 0.1), min(p for p in drawn if p[1] >= y - 0.1)
            assert left[0] - 0.2 <= x <= right[0] + 0.2
            assert math.dist(left, right) < 12  # between two neighbours of the line


def test_a_curve_is_dashed_from_one_execution_in_the_sample_on(sound: dict[str, Any]) -> None:
    chart = distribution.tail(PartEntry.view(sound["parts"][0]), ())
    border = vertical(chart).at(1 / 4000)
    for kind in ("block-maxima", "peaks"):
        inside, beyond = (list(places(shape(chart, name))) for name in (kind, f"{kind} beyond"))
        assert inside[-1] == beyond[0]
        assert inside[-1][1] == pytest.approx(border, abs=0.1)
        assert max(y for _, y in inside) <= border + 0.1 <= min(y for _, y in beyond[1:])
    assert next(iter(places(shape(chart, "limit"))))[1] == pytest.approx(border, abs=0.1)


def test_the_interval_surrounds_its_curve(sound: dict[str, Any]) -> None:
    part = sound["parts"][0]
    chart = distribution.tail(PartEntry.view(part), ())
    curve = part["pwcet"]["peaks"]["curve"]
    corners = list(places(shape(chart, "peaks interval")))
    assert len(corners) == 2 * len(curve)
    highs = [chart.x.value(x) for x, _ in corners[: len(curve)]]
    expected = [min(point["interval"]["high"], chart.x.high) for point in curve]
    assert highs == pytest.approx(expected, rel=1e-3)


def test_without_a_law_there_is_no_curve_and_no_limit(disturbed: dict[str, Any]) -> None:
    chart = distribution.tail(PartEntry.view(disturbed["parts"][0]), ())
    assert {one.kind for one in chart.shapes} == {"new"}
    assert "no pWCET applies" in chart.about


def test_base_and_new_share_one_picture(slower: dict[str, Any]) -> None:
    base = slower["against"]["parts"][0]["base_tail"]
    chart = distribution.tail(PartEntry.view(slower["parts"][0]), base)
    medians = {}
    for kind in ("base", "new"):
        corners = list(places(shape(chart, kind)))
        medians[kind] = min(chart.x.value(x) for x, y in corners if vertical(chart).value(y) < 0.5)
    assert medians["new"] - medians["base"] == pytest.approx(10_000, rel=0.05)


@pytest.mark.slow
def test_the_clock_stands_beside_the_times(layers: dict[str, Any]) -> None:
    chart = distribution.ranges([PartEntry.view(part) for part in layers["parts"]], ClockEntry.view(layers["clock"]))
    assert [tick.label for tick in chart.y.ticks] == ["first", "second", "third", "two clock readings"]
    reaches = [list(places(one.path)) for one in chart.shapes if one.kind == "reach"]
    for (start, end), part in zip(reaches, layers["parts"], strict=False):
        assert chart.x.value(start[0]) == pytest.approx(part["summary"]["min_ns"], rel=0.01)
        assert chart.x.value(end[0]) == pytest.approx(part["summary"]["max_ns"], rel=0.01)
    assert chart.x.value(reaches[-1][0][0]) == pytest.approx(32, rel=0.01)


def test_a_clock_that_stands_still_is_drawn_at_the_edge(sound: dict[str, Any]) -> None:
    sound["clock"]["cost"] |= {"min_ns": 0, "median_ns": 0.0, "max_ns": 42}
    chart = distribution.ranges([PartEntry.view(part) for part in sound["parts"]], ClockEntry.view(sound["clock"]))
    assert chart.shapes[-3].path.startswith("M0 ")


def test_shifts_are_drawn_in_gates(slower: dict[str, Any]) -> None:
    found = slower["against"]["parts"][0]
    chart = distribution.shifts(ComparedPartEntry.view(found))
    dots = [one for one in chart.shapes if one.kind.startswith("dot")]
    assert [one.kind for one in dots] == [f"dot {shift['verdict']}" for shift in found["shifts"]]
    for dot, shift in zip(dots, found["shifts"], strict=True):
        [(x, _)] = places(dot.path)
        assert chart.x.value(x) == pytest.approx(shift["shift_ns"] / shift["gate_ns"], rel=0.01, abs=0.05)
    assert chart.x.value(next(iter(places(shape(chart, "gate"))))[0]) == pytest.approx(-1, abs=0.05)


def test_words_above_the_plot_do_not_touch(sound: dict[str, Any], disturbed: dict[str, Any]) -> None:
    for document in (sound, disturbed):
        marks = distribution.tail(PartEntry.view(document["parts"][0]), ()).marks
        summary = document["parts"][0]["summary"]
        named = {mark.text: mark.x for mark in marks}
        x = distribution.tail(PartEntry.view(document["parts"][0]), ()).x
        assert (named["max"], named["median"]) == (x.at(summary["max_ns"]), x.at(summary["median_ns"]))
        assert marks[0].text == "max"
        for right, left in pairwise(marks):
            assert left.x + 3.5 * len(left.text) < right.x - 3.5 * len(right.text)

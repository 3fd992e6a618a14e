"""The pictures of what happened one after the other."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.report.chart import Axis
from harness.report.measurements.time_series import series_chart, states
from harness.runs.entries import MeasurementDocument, PartEntry
from tests.unit.report.measurements.test_distribution import places, shape


def test_every_stretch_reaches_from_its_minimum_to_its_maximum(disturbed: dict[str, Any]) -> None:
    part = disturbed["parts"][0]
    chart = series_chart(PartEntry.view(part), MeasurementDocument.view(disturbed), small=False)
    assert isinstance(chart.y, Axis)
    corners = list(places(shape(chart, "reach")))
    lows, highs = corners[::2], corners[1::2]
    assert len(lows) == len(part["timeline"])
    for low, high, (start, least, _, most) in zip(lows, highs, part["timeline"], strict=True):
        assert low[1] - 0.5 == pytest.approx(chart.y.at(least), abs=0.1)
        assert high[1] + 0.5 == pytest.approx(chart.y.at(most), abs=0.1)
        assert 0 <= chart.x.value(low[0]) - start <= 4000 / len(part["timeline"])


def test_joined_stretches_lose_no_extreme(disturbed: dict[str, Any]) -> None:
    whole, small = (
        series_chart(PartEntry.view(disturbed["parts"][0]), MeasurementDocument.view(disturbed), small=small)
        for small in (False, True)
    )
    assert len(re.findall("M", shape(small, "reach"))) == 100
    tops = [min(y for _, y in places(shape(chart, "reach"))) for chart in (whole, small)]
    assert tops[0] == tops[1]


def test_a_new_process_is_a_line(disturbed: dict[str, Any]) -> None:
    chart = series_chart(PartEntry.view(disturbed["parts"][0]), MeasurementDocument.view(disturbed), small=False)
    begins = [chart.x.value(x) for x, y in places(shape(chart, "rule")) if y == 0]
    assert begins == pytest.approx([1000, 2000, 3000])


def test_warm_up_and_fence_are_marked(disturbed: dict[str, Any]) -> None:
    part = disturbed["parts"][0]
    chart = series_chart(PartEntry.view(part), MeasurementDocument.view(disturbed), small=False)
    assert isinstance(chart.y, Axis)
    assert chart.x.value(next(places(shape(chart, "event")))[0]) == pytest.approx(40, abs=1)
    assert [mark.text for mark in chart.marks] == ["warm-up"]
    fence = chart.y.value(next(places(shape(chart, "limit")))[1])
    assert fence == pytest.approx(part["series"]["outliers"]["above_ns"], rel=0.02)


def test_only_segments_that_throttled_are_shaded(sound: dict[str, Any]) -> None:
    sound["state"]["segments"][2]["board"]["throttle_events"] = {"cpu0": 2}
    chart = series_chart(PartEntry.view(sound["parts"][0]), MeasurementDocument.view(sound), small=False)
    [shaded] = [one for one in chart.shapes if one.kind == "throttled"]
    assert {round(chart.x.value(x)) for x, _ in places(shaded.path)} == {2000, 3000}
    assert shaded.about == "segment 3: the board throttled"
    assert "throttled" in [key.text for key in chart.keys]


def test_a_cooling_device_in_a_snapshot_shades_the_segments_around_it(sound: dict[str, Any]) -> None:
    sound["state"]["snapshots"][1]["cooling"] = {"cpufreq": 2}
    chart = series_chart(PartEntry.view(sound["parts"][0]), MeasurementDocument.view(sound), small=False)
    assert [one.about for one in chart.shapes if one.kind == "throttled"] == [
        "segment 1: the board throttled",
        "segment 2: the board throttled",
    ]


def test_nothing_is_shaded_where_nothing_throttled(sound: dict[str, Any]) -> None:
    chart = series_chart(PartEntry.view(sound["parts"][0]), MeasurementDocument.view(sound), small=False)
    assert "throttled" not in {one.kind for one in chart.shapes} | {key.text for key in chart.keys}


def test_temperatures_and_frequencies_are_drawn_as_far_as_they_are_known(sound: dict[str, Any]) -> None:
    temperature, cores, devices = states(MeasurementDocument.view(sound))
    assert [key.text for key in temperature.keys] == ["CPU-therm", "GPU-therm"]
    assert isinstance(temperature.y, Axis)
    drawn = [temperature.y.value(y) for _, y in places(temperature.shapes[0].path)]
    assert drawn == pytest.approx([41.5, 41.75, 42.0, 42.25, 42.5], abs=0.02)
    assert ([key.text for key in cores.keys], [key.text for key in devices.keys]) == (["core 0", "core 1"], ["gpu"])
    for snapshot in sound["state"]["snapshots"]:
        snapshot |= {"temperature_c": {}, "device_hz": {}}
    assert [chart.title for chart in states(MeasurementDocument.view(sound))] == ["Frequency of the cores"]


def test_of_many_sensors_four_are_named(sound: dict[str, Any]) -> None:
    for snapshot in sound["state"]["snapshots"]:
        snapshot["temperature_c"] = {f"sensor {index}": 40.0 + index for index in range(9)}
    chart = states(MeasurementDocument.view(sound))[0]
    assert len(chart.shapes) == 9
    assert [key.text for key in chart.keys][-1] == "and 5 more"


def test_a_board_that_shows_nothing_has_no_pictures(sound: dict[str, Any]) -> None:
    assert states(MeasurementDocument.view(sound | {"state": sound["state"] | {"snapshots": []}})) == ()

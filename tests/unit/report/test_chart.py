"""Axes: places and round numbers."""

from __future__ import annotations

import pytest

from harness.report.chart import Axis, Rows, area, line


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_place_and_its_value_are_inverse(logarithmic: bool) -> None:
    axis = Axis("", 3, 4000, 200, 10, logarithmic=logarithmic)
    assert (axis.at(3), axis.at(4000)) == (200, 10)
    for value in (3, 17.5, 999, 4000):
        assert axis.value(axis.at(value)) == pytest.approx(value)


def test_a_logarithmic_axis_gives_every_power_the_same_length() -> None:
    axis = Axis("", 1, 1000, 0, 300, logarithmic=True)
    assert [axis.at(value) for value in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])


def test_what_lies_beyond_is_drawn_at_the_end() -> None:
    axis = Axis("", 10, 20, 0, 100)
    assert (axis.at(5), axis.at(25)) == (0, 100)


@pytest.mark.parametrize(
    ("low", "high", "logarithmic", "labels"),
    [
        (0, 100, False, ["0", "20", "40", "60", "80", "100"]),
        (0, 6, False, ["0", "1", "2", "3", "4", "5", "6"]),
        (49_128, 54_554, False, ["50,000", "51,000", "52,000", "53,000", "54,000"]),
        (0.5, 1500, True, ["1", "10", "100", "1,000"]),
        (1, 100, True, ["1", "2", "5", "10", "20", "50", "100"]),
        (1e-9, 1, True, ["1e-9", "1e-8", "1e-7", "1e-6", "1e-5", "1e-4", "0.001", "0.01", "0.1", "1"]),
        (43, 47, True, ["43", "44", "45", "46", "47"]),
        (-1.2, 1.2, False, ["-1", "-0.5", "0", "0.5", "1"]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, logarithmic: bool, labels: list[str]) -> None:
    axis = Axis("", low, high, 0, 500, logarithmic=logarithmic)
    assert [tick.label for tick in axis.ticks] == labels
    assert all(0 <= tick.at <= 500 for tick in axis.ticks)


def test_ticks_are_in_the_unit_of_the_axis() -> None:
    axis = Axis("µs", 0, 4000, 0, 400, unit=1000)
    assert [(tick.at, tick.label) for tick in axis.ticks] == [(0, "0"), (100, "1"), (200, "2"), (300, "3"), (400, "4")]


@pytest.mark.parametrize(("low", "high", "logarithmic"), [(5, 5, False), (0, 5, True), (7, 3, True)])
def test_an_empty_range_is_no_axis(low: float, high: float, logarithmic: bool) -> None:
    with pytest.raises(ValueError, match="no axis from"):
        Axis("", low, high, 0, 1, logarithmic=logarithmic)


def test_rows_stand_below_each_other() -> None:
    rows = Rows(("one", "two"), pitch=20)
    assert rows.height == 40
    assert [(tick.at, tick.label) for tick in rows.ticks] == [(10, "one"), (30, "two")]


def test_paths() -> None:
    assert line([(0, 1), (2.25, 3.04)]) == "M0 1L2.2 3"
    assert area([(0, 1), (5, 1)], [(0, 4), (5, 4)]) == "M0 1L5 1L5 4L0 4z"

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.runs.history.run_record import Part, Run, State
from harness.runs.history.trend import Band, NoiseLevel, line, trends

RUN = Run("a", State.FINISHED, "measured", board="xavier", kind="hardware", model="acas_coc", targets="c,c",
          quantity="time", unit="ns", scope="network", load="idle", met=True)  # fmt: skip


def measured(day: int, median: float, maximum: float, **changed: object) -> Run:
    part = Part("acas_coc", 90.0, median, None, None, None, maximum)
    return replace(RUN, name=f"r{day}", started=f"2026-11-{day:02}", parts=(part,), **changed)  # type: ignore[arg-type] # of a Run


def test_the_band_is_three_times_the_noise_of_those_before() -> None:
    found = line([100, 104, 98, 100, 200])
    # Distances from the median, 100: 0, 4, 2, 0; the 90th percentile, the higher one, is 4.
    assert found.band == Band(100 - 12, 100 + 12)
    assert found.place is NoiseLevel.ABOVE


@pytest.mark.parametrize(("last", "place"), [(101, "WITHIN"), (99, "WITHIN"), (101.1, "ABOVE"), (98.9, "BELOW")])
def test_the_band_is_never_narrower_than_one_percent(last: float, place: str) -> None:
    found = line([100, 100, 100, last])
    assert found.band == Band(99, 101)
    assert found.place is NoiseLevel[place]


def test_of_too_few_nothing_is_said() -> None:
    assert [line([1] * count).place for count in (1, 3, 4)] == [
        NoiseLevel.UNKNOWN,
        NoiseLevel.UNKNOWN,
        NoiseLevel.WITHIN,
    ]


def test_the_last_one_is_no_part_of_the_noise_that_it_is_judged_by() -> None:
    assert line([100, 100, 100, 1000]).band == line([100, 100, 100, 100]).band


def test_a_trend_has_median_maximum_and_jitter_in_the_order_of_time() -> None:
    [found] = trends([measured(3, 102, 130), measured(1, 100, 110), measured(2, 101, 120)], 10)
    assert found.median is not None
    assert found.median.values == (100, 101, 102)
    assert found.maximum.values == (110, 120, 130)
    assert found.jitter.values == (20, 30, 40)
    assert (found.last.name, found.part.maximum) == ("r3", 130)
    assert found.met
    assert not found.moved


def test_a_jump_is_told() -> None:
    [found] = trends([measured(day, 100, 110 if day < 4 else 150) for day in range(1, 5)], 10)
    assert found.moved
    assert (found.maximum.place, found.median and found.median.place) == (NoiseLevel.ABOVE, NoiseLevel.WITHIN)


@pytest.mark.parametrize(
    "other",
    [
        {"board": "kv260"}, {"kind": "emulated"}, {"model": "acas_wl"}, {"targets": "c,c:vector"}, {"load": "memory"},
        {"quantity": "cycles"}, {"scope": "layer"},
    ],
)  # fmt: skip
def test_different_things_have_trends_of_their_own(other: dict[str, str]) -> None:
    assert len(trends([measured(1, 1, 2), measured(2, 1, 2, **other)], 10)) == 2


def test_wrong_and_unfinished_measurements_are_no_part_of_it() -> None:
    bad = [measured(2, 1, 2, verdict="differs"), measured(3, 1, 2, state=State.UNFINISHED), replace(RUN, parts=())]
    [found] = trends([measured(1, 100, 110), *bad, measured(4, 100, 111, verdict="regressed")], 10)
    assert [run.name for run in found.runs] == ["r1", "r4"]


def test_times_whose_base_was_too_noisy_are_part_of_it_and_inexact_counts_are_not() -> None:
    noisy = measured(2, 100, 111, verdict="inconclusive")
    [found] = trends([measured(1, 100, 110), noisy], 10)
    assert [run.name for run in found.runs] == ["r1", "r2"]
    assert trends([replace(noisy, unit="instructions")], 10) == ()


def test_one_that_is_no_met_makes_the_trend_none() -> None:
    [found] = trends([measured(1, 1, 2), measured(2, 1, 2, met=False)], 10)
    assert not found.met


def test_the_latest_are_kept() -> None:
    [found] = trends([measured(day, 1, 2) for day in range(1, 9)], 3)
    assert [run.name for run in found.runs] == ["r6", "r7", "r8"]


def test_counts_have_no_median() -> None:
    part = Part("all parts", 5, None, None, None, None, 5)
    [found] = trends([replace(RUN, unit="instructions", parts=(part,))], 3)
    assert found.median is None

from __future__ import annotations

from typing import Any

import pytest

from harness.boards.tuning import throttled, unseen
from tests.support.tuning.snapshots import snapshot


def series(key: str, *values: Any) -> list[Any]:
    return [snapshot(float(index), **{key: value}) for index, value in enumerate(values)]


def test_of_a_board_that_shows_nothing_nothing_is_said_but_that_it_is_unknown() -> None:
    assert throttled([snapshot(), snapshot(1.0)]) == ()
    assert throttled([]) == ()
    assert unseen([snapshot()]) == (
        "the board shows no throttling counters or cooling devices: whether it throttled is unknown",
        "the board shows no frequencies: whether they were constant is unknown",
        "the board shows no temperatures: whether it was hot is unknown",
    )


@pytest.mark.parametrize("shown", [{"throttle_events": {"oc1": 0}}, {"cooling": {"cpufreq": 0}}])
def test_a_counter_at_rest_is_seen(shown: dict[str, Any]) -> None:
    constant = snapshot(frequency_khz={0: 1000}, temperature_c={"cpu": 40.0}, **shown)
    assert unseen([constant]) == ()
    assert throttled([constant, constant]) == ()


@pytest.mark.parametrize(
    ("counts", "expected"), [((5, 5, 5), ()), ((5, 6, 9), ("oc1 grew by 4",)), ((5, 9, 0, 2), ("oc1 grew by 6",))]
)
def test_events_are_counted_also_by_a_counter_that_starts_again(counts: tuple[int, ...], expected: Any) -> None:
    assert throttled(series("throttle_events", *({"oc1": count} for count in counts))) == expected


def test_a_cooling_device_that_is_active_is_told() -> None:
    found = throttled(series("cooling", {"cpufreq": 0}, {"cpufreq": 3}, {"cpufreq": 1}))
    assert found == ("cpufreq slowed down, up to step 3, in 2 of 3 snapshots",)


def test_a_limit_that_falls_is_told_and_one_that_rises_is_not() -> None:
    assert throttled(series("limit_khz", {0: 2000, 1: 900}, {0: 1500, 1: 900}, {0: 2000, 1: 2000})) == (
        "core 0: the highest frequency permitted fell from 2000 to 1500 kHz",
    )
    assert throttled(series("device_limit_hz", {"gpu": 9}, {"gpu": 7})) == (
        "gpu: the highest frequency permitted fell from 9 to 7 Hz",
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((2000, 2000, 1961), ()),  # what a sensor makes of it
        ((2000, 1959, 2000), ("core 0: the frequency was 1959 to 2000 kHz",)),
        ((1000, 2000), ("core 0: the frequency was 1000 to 2000 kHz",)),
    ],
)
def test_a_frequency_that_varies_is_told(values: tuple[int, ...], expected: Any) -> None:
    assert throttled(series("frequency_khz", *({0: value} for value in values))) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((2000, 2039, 1961), ()),
        ((1500, 2000, 1400), ("core 0: the frequency was 1400 to 1500 kHz, not 2000 kHz, in 2 of 3 snapshots",)),
        ((2500, 2500), ("core 0: the frequency was 2500 to 2500 kHz, not 2000 kHz, in 2 of 2 snapshots",)),
    ],
)
def test_another_frequency_than_the_one_wanted_is_told(values: tuple[int, ...], expected: Any) -> None:
    assert throttled(series("frequency_khz", *({0: value} for value in values)), 2000) == expected


def test_a_fall_between_two_snapshots_is_told_by_the_time_in_each_frequency() -> None:
    spent = series("state_ticks", {0: {1000: 5, 2000: 10}}, {0: {1000: 5, 2000: 500}}, {0: {1000: 30, 2000: 985}})
    assert throttled(spent, 2000) == ("core 0: 0.25 of 10 s below 2000 kHz",)
    assert throttled(spent[:2], 2000) == ()
    assert throttled(spent) == ()


def test_time_in_a_higher_frequency_or_one_as_good_as_the_wanted_is_not_told() -> None:
    spent = series("state_ticks", {0: {1961: 0, 2000: 0, 2500: 0}}, {0: {1961: 5, 2000: 5, 2500: 5}})
    assert throttled(spent, 2000) == ()

"""The statistics of a measurement as JSON types: the numbers are those of the readings, and of no others."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis import timing
from harness.runs.measurement.parts import MeasuredPart
from harness.runs.measurement.statistics import (
    TIMELINE_POINTS,
    against,
    counts,
    least_of_each,
    levels,
    limits,
    plain,
    timeline,
    times,
)

Readings = npt.NDArray[np.uint64]
PART = MeasuredPart("dense", "hardware", "dense_forward", alone=True)


def gumbel(count: int, seed: int = 1, *, location: float = 1000.0) -> Readings:
    """Times with a Gumbel tail; integers."""
    return np.random.default_rng(seed).gumbel(location, 20.0, count).round().astype(np.uint64)


@pytest.mark.slow
def test_the_summary_is_of_single_executions() -> None:
    readings = gumbel(5000)
    found = times(PART, readings)
    assert (found["name"], found["ran_on"], found["function"]) == ("dense", "hardware", "dense_forward")
    assert found["summary"]["executions"] == 5000
    assert (found["summary"]["min_ns"], found["summary"]["max_ns"]) == (readings.min(), readings.max())
    assert found["summary"]["deviation_ns"] == pytest.approx(readings.std(ddof=1))
    assert sum(found["histogram"]["counts"]) == 5000
    assert found["tail"][0] == [readings.min(), 1.0]
    assert found["tail"][-1] == [readings.max(), np.count_nonzero(readings == readings.max()) / 5000]


@pytest.mark.slow
def test_a_pwcet_that_holds_is_a_curve() -> None:
    found = times(PART, gumbel(5000))
    peaks = found["pwcet"]["peaks"]
    assert "not_applicable" not in peaks
    assert peaks["law_name"] == "generalized Pareto law"
    assert [point["exceedance"] for point in peaks["curve"]] == sorted(
        (point["exceedance"] for point in peaks["curve"]), reverse=True
    )
    assert all(point["words"] for point in peaks["curve"])


def test_a_pwcet_of_drifting_times_is_refused_in_words() -> None:
    drifting = gumbel(5000) + np.arange(5000, dtype=np.uint64) // 20
    peaks = times(PART, drifting)["pwcet"]["peaks"]
    assert peaks["not_applicable"]
    assert all(isinstance(reason, str) for reason in peaks["not_applicable"])


@pytest.mark.slow
def test_a_warm_up_that_shows_is_kept_in_the_maximum_and_left_out_of_the_extremes() -> None:
    readings = gumbel(5000)
    readings[:50] += np.uint64(10_000)
    found = times(PART, readings)
    assert found["summary"]["max_ns"] == readings.max()
    assert 45 <= found["pwcet_without"] <= 60
    assert found["pwcet"]["peaks"].get("max_ns", 0) < 5000


def test_few_times_give_what_they_can() -> None:
    found = times(PART, gumbel(10))
    assert found["series"]["needs"] == 20
    assert "at least" in found["pwcet"]["peaks"]["not_applicable"][0]


def test_the_document_is_strict_json() -> None:
    json.dumps(times(PART, gumbel(2000)), allow_nan=False)


def test_equal_counts() -> None:
    found = counts(PART, np.full(9, 151, np.uint64), 51, 3)
    assert (found["min"], found["max"], found["distinct"], found["executions"]) == (100, 100, 1, 9)


def test_what_a_reading_costs_is_taken_off_once_for_each_task() -> None:
    found = counts(dataclasses.replace(PART, tasks=3), np.full(4, 253, np.uint64), 51, 2)
    assert (found["min"], found["taken_off"]) == (100, 153)
    assert counts(PART, np.full(4, 253, np.uint64), None, 2)["taken_off"] == 0


def test_counts_that_vary_name_an_execution_of_each_extreme() -> None:
    found = counts(PART, np.array([70, 70, 69, 70, 75, 69], np.uint64), None, 3)
    assert (found["min"], found["max"], found["distinct"], found["most_often"]) == (69, 75, 3, 70)
    assert (found["first_min"], found["first_max"]) == (2, 4)


@pytest.mark.parametrize(("series", "repeatable"), [([7, 8, 7, 8], True), ([7, 8, 8, 7], False), ([7, 7, 7, 8], False)])
def test_counts_repeat_if_each_vector_has_its_own(series: list[int], repeatable: bool) -> None:
    assert counts(PART, np.array(series, np.uint64), None, 2)["repeatable"] == repeatable


@given(st.lists(st.integers(90, 92), min_size=1, max_size=3), st.sets(st.integers(0, 399), max_size=9))
def test_counts_are_json_however_they_vary(per_vector: list[int], disturbances: set[int]) -> None:
    found = counts(PART, disturbed(per_vector, dict.fromkeys(disturbances, 5)), 51, 200)
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("number", [np.bool_(1), np.int64(3), np.float32(0.5)])
def test_numbers_of_numpy_are_numbers(number: np.generic) -> None:
    assert json.dumps(plain([number])) == json.dumps([number.item()])
    assert plain(np.float64("nan")) is None


def test_the_timeline_keeps_every_extreme() -> None:
    readings = gumbel(10_001)
    found = timeline(readings)
    assert len(found) == TIMELINE_POINTS
    assert (min(part[1] for part in found), max(part[3] for part in found)) == (readings.min(), readings.max())
    starts = [part[0] for part in found]
    assert starts == sorted(set(starts))
    assert starts[0] == 0


def test_the_timeline_of_few_executions_is_the_executions() -> None:
    assert timeline(np.array([5, 3, 4], np.uint64)) == [[0, 5, 5, 5], [1, 3, 3, 3], [2, 4, 4, 4]]


def test_a_slower_part_is_named() -> None:
    base = np.stack([gumbel(4000, 1), gumbel(4000, 2)], axis=1)
    new = np.stack([gumbel(4000, 3), gumbel(4000, 4, location=1200.0)], axis=1)
    found = against(["a", "b"], base, new, [], counted=False)
    assert (found["regressed"], found["slower"]) == (True, ["b"])
    assert [part["name"] for part in found["parts"]] == ["a", "b"]
    assert found["parts"][1]["verdict"] == "slower"


def test_the_same_again_is_no_regression() -> None:
    base, new = gumbel(4000, 1)[:, None], gumbel(4000, 2)[:, None]
    assert not against(["a"], base, new, [], counted=False)["regressed"]


def test_the_level_between_runs_boots_and_days_is_that_of_the_worst_part() -> None:
    medians = np.array([[100.0, 50.0], [102.0, 50.0], [110.0, 50.0], [112.0, 50.0]])
    groups = {"runs": list("abcd"), "boots": list("xxyy"), "days": ["monday"] * 4}
    runs, boots = levels(medians, groups)
    assert (runs["between"], runs["count"], round(runs["deviation"], 4)) == ("runs", 4, 0.0555)
    assert (boots["between"], boots["count"], round(boots["deviation"], 4)) == ("boots", 2, 0.0667)
    assert limits(groups, {"boots": "z", "days": "monday"}) == []
    [limit] = limits(groups, {"boots": "z", "days": "tuesday"})
    assert limit.startswith("the gate contains no noise between days")


@pytest.mark.parametrize("count", [1, 2])
def test_a_gate_of_fewer_than_three_bases_says_so(count: int) -> None:
    groups = {name: ["same"] * count for name in ("runs", "boots", "days")}
    [limit] = limits(groups, {"boots": "another", "days": "another"})
    assert limit.startswith(f"the gate contains no noise between runs, because it has {count} base")
    assert limit.endswith("name at least 3 measurements with --against")


def test_a_single_instruction_more_is_a_regression() -> None:
    base = np.full((10, 2), 100, np.uint64)
    more = base.copy()
    more[7, 1] += np.uint64(1)
    found = against(["a", "b"], base, more, [], counted=True)
    assert (found["regressed"], found["slower"]) == (True, ["b"])
    assert against(["a", "b"], more, base, [], counted=True)["parts"][1]["verdict"] == "faster"
    assert against(["a", "b"], base, base, [], counted=True)["parts"][0]["verdict"] == "unchanged"


def test_what_json_has_not_becomes_null() -> None:
    assert plain({1: (math.inf, math.nan, 0.5), "a": timing.Verdict.SLOWER}) == {"1": [None, None, 0.5], "a": "slower"}


def test_what_is_not_given_says_why() -> None:
    assert plain(timing.NotGiven("too few", 30)) == {"not_given": "too few", "needs": 30}


def disturbed(per_vector: list[int], more: dict[int, int]) -> Readings:
    """Two passes of 200 vectors, readings `more` by so much."""
    readings = np.tile(np.resize(np.array(per_vector, np.uint64), 200), 2)
    for place, by in more.items():
        readings[place] += np.uint64(by)
    return readings


def test_a_rare_disturbance_of_the_counter_is_no_dependence_on_data() -> None:
    found = counts(PART, disturbed([90], {7: 5, 300: 5}), None, 200)
    assert json.loads(json.dumps(found)) == found
    assert (found["min"], found["max"], found["distinct"], found["executions"]) == (90, 90, 1, 400)
    assert (found["disturbed"], found["most"]) == (2, 95)


def test_a_dependence_on_data_is_found_among_disturbances() -> None:
    found = counts(PART, disturbed([90, 90, 90, 93], {7: 5}), None, 200)
    assert (found["min"], found["max"], found["distinct"], found["repeatable"]) == (90, 93, 2, True)


def test_a_vector_that_was_disturbed_every_time_shows_nothing_of_data() -> None:
    found = counts(PART, disturbed([90], {7: 5, 207: 5, 9: 5}), None, 200)
    assert (found["distinct"], found["repeatable"]) == (2, False)


def test_a_counter_that_is_often_disturbed_is_not_exact() -> None:
    found = counts(PART, disturbed([90], dict.fromkeys(range(0, 100, 10), 5)), None, 200)
    assert (found["min"], found["max"], found["distinct"], found["repeatable"]) == (90, 95, 2, False)


def test_a_base_is_compared_by_each_vectors_least() -> None:
    readings = np.stack([disturbed([90], {7: 5}), disturbed([80], {})], axis=1)
    assert least_of_each(readings, 200).tolist() == [[90, 80]] * 200

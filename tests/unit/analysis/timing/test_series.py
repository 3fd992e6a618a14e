from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.analysis.timing import NotGiven, Series, describe
from harness.analysis.timing.sample import Times
from harness.analysis.timing.series import drift, outliers, period_of, warm_up
from tests.support.timing import synthetic


def described(times: Times) -> Series:
    found = describe(times)
    assert isinstance(found, Series)
    return found


def test_a_steady_series_has_nothing_to_tell() -> None:
    found = described(synthetic.normal(5000, 1))
    assert found.warm_up.executions == 0
    assert not found.drift.drifts
    assert found.outliers.count == 0
    assert found.outliers.period is None
    assert found.independence.p_value > 0.01
    assert max(np.abs(found.autocorrelation)) < 0.06


@pytest.mark.parametrize("executions", [1, 2, 10, 19])
def test_few_executions_have_no_shape(executions: int) -> None:
    assert describe(np.arange(executions)) == NotGiven(f"{executions} executions have no shape in time", 20)


@pytest.mark.parametrize("executions", [20, 1000])
def test_a_constant_series_has_no_shape_either(executions: int) -> None:
    found = described(np.full(executions, 1000))
    assert (found.warm_up.executions, found.drift.drifts, found.outliers.count) == (0, False, 0)
    assert isinstance(found.clock, NotGiven)


@pytest.mark.parametrize("seed", range(5))
def test_a_warm_up_is_found_and_how_long_it_is(seed: int) -> None:
    found = warm_up(synthetic.warming(5000, seed))
    assert 50 <= found.executions <= 250  # its excess has fallen to half a deviation after 100
    assert found.excess_ns > 1000
    assert found.p_value < 0.001


def test_a_single_cold_execution_is_a_warm_up() -> None:
    times = synthetic.normal(5000, 1)
    times[0] += 50_000
    assert warm_up(times).executions == 1


def test_the_same_execution_elsewhere_is_none() -> None:
    times = synthetic.normal(5000, 1)
    times[700] += 50_000
    assert warm_up(times).executions == 0


def test_a_faster_start_is_no_warm_up() -> None:
    times = synthetic.normal(5000, 1)
    times[:300] -= 5000
    assert warm_up(times).executions == 0


def test_a_late_change_is_no_warm_up_but_a_drift() -> None:
    found = described(synthetic.stepped(5000, 1))
    assert found.warm_up.executions == 0
    assert found.drift.drifts
    assert found.drift.change_after == pytest.approx(3000, abs=20)


@pytest.mark.parametrize("make", [synthetic.stepped, synthetic.drifting])
def test_what_gets_faster_late_or_all_along_has_no_warm_up(make: Callable[[int, int], Times]) -> None:
    found = described(make(5000, 1)[::-1].copy())
    assert found.warm_up.executions == 0
    assert found.drift.drifts
    assert found.drift.slope_ns < 0


@pytest.mark.slow
def test_steady_series_have_a_warm_up_as_often_as_the_significance_says() -> None:
    found = sum(warm_up(synthetic.gumbel(500, seed), significance=0.05).executions > 0 for seed in range(300))
    assert 3 <= found <= 27  # 15 and three standard deviations


def test_a_drift_and_its_slope() -> None:
    found = drift(synthetic.drifting(5000, 1))
    assert found.drifts
    assert found.total_ns == pytest.approx(synthetic.SCALE_NS, rel=0.15)
    assert found.slope_ns * 5000 == pytest.approx(found.total_ns)


@pytest.mark.slow
def test_neighbours_that_depend_on_each_other_are_no_drift() -> None:
    drifts = sum(drift(synthetic.autoregressive(3000, seed)).drifts for seed in range(100))
    assert drifts <= 8
    assert described(synthetic.autoregressive(3000, 1)).autocorrelation[:2] == pytest.approx((0.5, 0.25), abs=0.06)
    assert described(synthetic.autoregressive(3000, 1)).independence.p_value < 1e-9


@pytest.mark.parametrize("period", [7 * 10, 125, 57.14 * 2, 1000])
@pytest.mark.parametrize("seed", [1, 2])
def test_periodic_outliers_and_their_period(period: float, seed: int) -> None:
    found = outliers(synthetic.periodic(20_000, seed, period))
    assert 0 <= found.count - len(np.arange(37, 20_000, period)) <= 1  # a normal execution may be one of them
    assert found.period == pytest.approx(period, rel=1e-3)


def test_a_period_stands_out_of_other_outliers() -> None:
    times = synthetic.periodic(20_000, 1, 125)
    times[np.random.default_rng(5).choice(20_000, 60, replace=False)] += 30_000
    assert outliers(times).period == pytest.approx(125, rel=1e-3)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("executions", range(3000, 5000, 130))
@pytest.mark.parametrize("period", [25, 100, 125.5])
def test_other_outliers_do_not_halve_a_period(executions: int, period: float) -> None:
    rng = np.random.default_rng(executions)
    places = np.arange(37, executions, period).astype(int)
    others = rng.choice(executions, places.size // 8, replace=False)
    found = period_of(np.union1d(places, others), executions)
    assert found == pytest.approx(period, rel=3e-3)
    missing = period_of(places[rng.random(places.size) > 0.2], executions)
    assert missing == pytest.approx(period, rel=3e-3)


def test_outliers_of_which_two_come_together_have_the_period_of_both() -> None:
    places = np.arange(37, 4000, 100)
    assert period_of(np.union1d(places, places + 1), 4000) == pytest.approx(100, rel=1e-3)


def test_a_period_of_which_the_series_has_two_is_none() -> None:
    """A burst is not spread evenly; what it is a part of cannot be told."""
    times = synthetic.normal(4000, 1)
    times[np.r_[1000:1020, 3000:3020]] += 30_000
    found = outliers(times)
    assert found.test.p_value < 0.01
    assert found.period is None


def test_no_period_is_longer_than_half_the_series() -> None:
    for seed in range(60):
        places = np.sort(np.random.default_rng(seed).choice(4000, 3, replace=False))
        assert (period_of(places, 4000) or 1) <= 2000


def test_outliers_at_random_have_no_period() -> None:
    without = 0
    for seed in range(50):
        times = synthetic.normal(10_000, seed)
        times[np.random.default_rng(seed + 99).choice(10_000, 80, replace=False)] += 30_000
        found = outliers(times)
        assert 80 <= found.count <= 81  # a normal execution may be one of them
        without += found.period is None
    assert without >= 48


def test_a_second_mode_is_no_outlier() -> None:
    assert outliers(synthetic.bimodal(5000, 1, share=0.1)).count == 0


def test_a_quantised_clock_is_told() -> None:
    found = described(synthetic.normal(5000, 1) // 32 * 32)
    assert not isinstance(found.clock, NotGiven)
    assert found.clock.resolution_ns == 32


def test_the_seed_decides() -> None:
    times = synthetic.warming(1000, 1)
    assert describe(times, seed=4) == describe(times, seed=4)

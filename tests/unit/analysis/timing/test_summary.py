from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analysis.timing import Interval, NotGiven, summarise
from harness.analysis.timing.sample import Times
from harness.analysis.timing.summary import executions_needed, mean_interval, order_statistic, quantile_ranks
from tests.support.examples import examples
from tests.support.timing import synthetic

SERIES = st.lists(st.integers(0, 10**9), min_size=1, max_size=400).map(lambda values: np.array(values, np.int64))


def test_of_a_known_series() -> None:
    found = summarise(np.arange(1, 1001)[::-1])
    assert (found.executions, found.min_ns, found.max_ns) == (1000, 1, 1000)
    assert (found.mean_ns, found.median_ns) == (500.5, 500)
    assert found.deviation_ns == pytest.approx(np.std(np.arange(1, 1001), ddof=1))
    assert [quantile.value_ns for quantile in found.quantiles] == [990, None, None]
    assert [quantile.name for quantile in found.quantiles] == ["p99", "p99.9", "p99.99"]


def test_the_published_spread_of_ten_runs_has_no_tail() -> None:
    """Ten runs, as the published tables have: minimum, mean, maximum, and no more."""
    found = summarise(np.arange(16_285, 16_295))
    for quantile, needed in zip(found.quantiles, (368, 3688, 36_887), strict=True):
        assert quantile.value_ns is None
        assert isinstance(quantile.interval, NotGiven)
        assert quantile.interval.needs == needed
        assert quantile.name in quantile.interval.reason
    assert isinstance(found.median_interval, Interval)


@pytest.mark.parametrize(("executions", "given_"), [(1, [0, 0, 0]), (2, [1, 0, 1]), (10, [1, 1, 1])])
def test_what_few_executions_give(executions: int, given_: list[int]) -> None:
    found = summarise(np.arange(executions) + 5)
    parts = (found.mean_interval, found.median_interval, found.deviation_ns)
    assert [int(not isinstance(part, NotGiven)) for part in parts] == given_


def test_a_constant_series() -> None:
    found = summarise(np.full(1000, 7))
    assert (found.min_ns, found.mean_ns, found.median_ns, found.max_ns, found.deviation_ns) == (7, 7, 7, 7, 0)
    assert isinstance(found.mean_interval, Interval)
    assert (found.mean_interval.low, found.mean_interval.high) == (7, 7)


@pytest.mark.parametrize(
    ("executions", "ranks"),
    # The 95 % intervals of the median in David and Nagaraja (2003), and every table since.
    [(6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (30, (10, 21)), (50, (18, 33)), (100, (40, 61))],
)
def test_ranks_of_the_median_are_the_published_ones(executions: int, ranks: tuple[int, int]) -> None:
    assert quantile_ranks(executions, 0.5, 0.95) == ranks


@pytest.mark.parametrize(
    ("probability", "confidence", "needed"),
    # Wilks (1941): 59 executions for 95/95, 299 for 95/99 one-sided, which is 90 % two-sided.
    [(0.95, 0.90, 59), (0.99, 0.90, 299), (0.5, 0.95, 6), (0.99, 0.95, 368), (0.01, 0.95, 368)],
)
def test_the_executions_that_a_quantile_needs(probability: float, confidence: float, needed: int) -> None:
    assert executions_needed(probability, confidence) == needed
    low, high = quantile_ranks(needed, probability, confidence)
    assert low >= 1
    assert high <= needed
    low, high = quantile_ranks(needed - 1, probability, confidence)
    assert low < 1 or high > needed - 1


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("executions", [4000, 5000])
def test_ranks_are_the_narrowest_with_half_the_error_on_each_side(probability: float, executions: int) -> None:
    low, high = quantile_ranks(executions, probability, 0.95)
    below = stats.binom(executions, probability)
    assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
    assert below.sf(high - 1) <= 0.025 < below.sf(high - 2)


@pytest.mark.slow
def test_the_interval_of_a_quantile_covers_it() -> None:
    true = stats.norm.ppf(0.99, synthetic.CENTRE_NS, synthetic.SCALE_NS)
    found = [summarise(synthetic.normal(1000, seed)).quantiles[0].interval for seed in range(400)]
    covered = sum(isinstance(interval, Interval) and true in interval for interval in found)
    assert 0.93 <= covered / 400 <= 0.995


@pytest.mark.parametrize("coefficient", [0.0, 0.5])
def test_the_interval_of_the_mean_covers_it_also_under_dependence(coefficient: float) -> None:
    found = [mean_interval(synthetic.autoregressive(3000, seed, coefficient), 0.95) for seed in range(200)]
    covered = sum(isinstance(interval, Interval) and synthetic.CENTRE_NS in interval for interval in found)
    assert 0.90 <= covered / 200 <= 0.99


def test_a_short_series_has_students_interval() -> None:
    times = synthetic.normal(50, 1)
    expected = stats.t.interval(0.95, 49, times.mean(), stats.sem(times))
    found = mean_interval(times, 0.95)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx(expected)


def test_the_share_that_is_longer_than_the_maximum() -> None:
    assert summarise(np.arange(59)).longer_at_most == pytest.approx(0.05, abs=1e-3)
    assert summarise(np.arange(299)).longer_at_most == pytest.approx(0.01, abs=1e-4)


@given(SERIES)
@examples(60)
def test_the_numbers_are_in_order_and_were_measured(times: Times) -> None:
    found = summarise(times, probabilities=(0.5, 0.9, 0.99))
    values = [quantile.value_ns for quantile in found.quantiles if quantile.value_ns is not None]
    assert [found.min_ns, *values, found.max_ns] == sorted([found.min_ns, *values, found.max_ns])
    assert set(values) <= set(times.tolist())
    assert found.min_ns <= found.mean_ns <= found.max_ns
    for quantile in found.quantiles:
        if isinstance(quantile.interval, Interval):
            assert quantile.value_ns is not None
            assert quantile.value_ns in quantile.interval


@given(SERIES, st.integers(1, 1000), st.integers(0, 10**6))
@examples(60)
def test_scale_and_shift_carry_through(times: Times, scale: int, shift: int) -> None:
    one, two = summarise(times), summarise(scale * times + shift)
    assert two.max_ns == scale * one.max_ns + shift
    assert two.median_ns == scale * one.median_ns + shift
    for first, second in zip(one.quantiles, two.quantiles, strict=True):
        assert (first.value_ns is None) == (second.value_ns is None)
        assert first.value_ns is None or second.value_ns == scale * first.value_ns + shift


@given(SERIES, st.randoms())
@examples(30)
def test_no_order_of_the_executions_changes_a_quantile(times: Times, random: object) -> None:
    shuffled = times.copy()
    np.random.default_rng(hash(random) % 2**32).shuffle(shuffled)
    assert summarise(shuffled).quantiles == summarise(times).quantiles


def test_the_maximum_is_of_single_executions() -> None:
    times = synthetic.normal(10_000, 3)
    times[4321] = 9_999_999
    assert summarise(times).max_ns == 9_999_999


@given(SERIES, st.floats(0.01, 0.99))
@examples(60)
def test_the_order_statistic_is_numpys(times: Times, probability: float) -> None:
    found = order_statistic(np.sort(times), probability)
    assert found == np.quantile(times, probability, method="inverted_cdf")


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 2])
def test_a_confidence_lies_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        summarise([1, 2, 3], confidence=confidence)


def test_a_quantile_lies_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        summarise([1, 2, 3], probabilities=(1.0,))

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analysis.timing import likelihood
from harness.analysis.timing.fit import Fit, by_l_moments, fit, goodness, level_intervals
from harness.analysis.timing.laws import (
    ExtremeValue,
    Law,
    Pareto,
    anderson_darling,
    l_moments,
    reduce,
    stretch,
    stretch_slope,
)
from harness.analysis.timing.sample import Floats
from tests.support.examples import examples

# Annual maximum sea levels at Port Pirie, 1923 to 1987, in m (Coles 2001, section 3.4.1).
PORT_PIRIE = np.array([
    4.03, 3.83, 3.65, 3.88, 4.01, 4.08, 4.18, 3.80, 4.36, 3.96, 3.98, 4.69, 3.85, 3.96, 3.85, 3.93, 3.75, 3.63, 3.57,
    4.25, 3.97, 4.05, 4.24, 4.22, 3.73, 4.37, 4.06, 3.71, 3.96, 4.06, 4.55, 3.79, 3.89, 4.11, 3.85, 3.86, 3.86, 4.21,
    4.01, 4.11, 4.24, 3.96, 4.21, 3.74, 3.85, 3.88, 3.66, 4.11, 3.71, 4.18, 3.90, 3.78, 3.91, 3.72, 4.00, 3.66, 3.62,
    4.33, 4.55, 3.75, 4.08, 3.90, 3.88, 3.94, 4.33,
])  # fmt: skip
TEN_AND_HUNDRED_YEARS = -np.log(-np.log1p(-np.array([0.1, 0.01])))


def maxima(shape: float, count: int, seed: int) -> Floats:
    return np.asarray(
        stats.genextreme.rvs(-shape, 1e6, 1e3, count, random_state=np.random.default_rng(seed)), np.float64
    )


def excesses(shape: float, count: int, seed: int) -> Floats:
    return np.asarray(stats.genpareto.rvs(shape, 1e6, 1e3, count, random_state=np.random.default_rng(seed)), np.float64)


def sample(law: type[Law], shape: float, count: int, seed: int) -> Fit:
    data = maxima(shape, count, seed) if law is ExtremeValue else excesses(shape, count, seed)
    return fit(law, data, 1e6)


def test_port_pirie_is_coles() -> None:
    """3.87, 0.198 and -0.050 with a log likelihood of 4.34."""
    found = fit(ExtremeValue, PORT_PIRIE)
    assert found.settled
    assert found.law.location == pytest.approx(3.87, abs=0.005)
    assert found.law.scale == pytest.approx(0.198, abs=0.0005)
    assert found.law.shape == pytest.approx(-0.050, abs=0.0005)
    assert found.log_likelihood == pytest.approx(4.34, abs=0.005)


def test_port_pirie_has_coles_return_levels_and_profile_intervals() -> None:
    """4.30 with [4.21, 4.45] and 4.69 with [4.50, 5.27], read from his profile likelihoods."""
    found = fit(ExtremeValue, PORT_PIRIE)
    assert found.law.time(TEN_AND_HUNDRED_YEARS) == pytest.approx([4.30, 4.69], abs=0.005)
    ten, hundred = level_intervals(found, TEN_AND_HUNDRED_YEARS, 0.95, "")
    assert (ten.low, ten.high) == pytest.approx((4.21, 4.45), abs=0.012)
    assert (hundred.low, hundred.high) == pytest.approx((4.50, 5.27), abs=0.012)


@pytest.mark.parametrize("shape", [-0.4, -0.1, 0.0, 0.1, 0.3])
@pytest.mark.parametrize("count", [50, 400])
def test_the_extreme_value_law_is_scipys(shape: float, count: int) -> None:
    data = maxima(shape, count, 7)
    found = fit(ExtremeValue, data)
    start = by_l_moments(found)
    other = stats.genextreme.fit(data, -start.shape, loc=start.location, scale=start.scale)
    assert found.log_likelihood >= stats.genextreme.logpdf(data, *other).sum() - 1e-6
    own = stats.genextreme.logpdf(data, -found.law.shape, found.law.location, found.law.scale).sum()
    assert found.log_likelihood == pytest.approx(own, rel=1e-9)
    assert -found.law.shape == pytest.approx(other[0], abs=2e-3)
    assert found.law.scale == pytest.approx(other[2], rel=2e-3)


@pytest.mark.parametrize("shape", [-0.4, -0.1, 0.0, 0.1, 0.3])
@pytest.mark.parametrize("count", [50, 400])
def test_the_pareto_law_is_scipys(shape: float, count: int) -> None:
    data = excesses(shape, count, 7)
    found = fit(Pareto, data, 1e6)
    other = stats.genpareto.fit(data - 1e6, floc=0)
    own = stats.genpareto.logpdf(data, found.law.shape, 1e6, found.law.scale).sum()
    assert found.log_likelihood == pytest.approx(own, rel=1e-9)
    assert found.log_likelihood >= stats.genpareto.logpdf(data - 1e6, *other).sum() - 1e-6
    assert found.law.shape == pytest.approx(other[0], abs=2e-3)
    assert found.law.scale == pytest.approx(other[2], rel=2e-3)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2])
def test_many_rows_climb_where_each_alone_does(law: type[Law], shape: float) -> None:
    fits = [sample(law, shape, 80, seed) for seed in range(20)]
    rows = np.stack([one.data - 1e6 if law is Pareto else one.data - one.origin for one in fits])
    start = likelihood.moment_start(law, rows)
    found = likelihood.climb(law, rows, start, likelihood.free_law(law))
    assert found.settled.all()
    assert found.log_likelihood == pytest.approx([one.log_likelihood for one in fits], abs=1e-5)


@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
@pytest.mark.parametrize("shape", [-0.2, -1e-7, 0.0, 1e-7, 1e-5, 0.3])
def test_the_scores_are_the_likelihoods_slopes(law: type[Law], shape: float) -> None:
    data = np.sort(np.random.default_rng(3).exponential(size=(1, 30)))
    at = np.array([[0.0 if law is Pareto else 0.9, 0.3, shape]])
    total = likelihood.scores(law, data, at).sum(axis=1)[0]
    for column in range(3):
        aside = np.zeros((1, 3))
        aside[0, column] = 1e-5
        rise = likelihood.log_likelihood(law, data, at + aside) - likelihood.log_likelihood(law, data, at - aside)
        assert total[column] == pytest.approx(rise[0] / 2e-5, rel=1e-4, abs=1e-4)


@given(st.floats(-0.4, 0.4), st.floats(-3, 8))
@examples(100)
def test_the_standard_variate_and_the_time_are_inverse(shape: float, variate: float) -> None:
    r = np.array([variate])
    assert reduce(stretch(r, shape), shape) == pytest.approx(r, rel=1e-5, abs=1e-5)
    rise = (stretch(r, shape + 1e-4) - stretch(r, shape - 1e-4)) / 2e-4
    assert stretch_slope(r, shape) == pytest.approx(rise, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("law", "scipys"), [(ExtremeValue, stats.genextreme), (Pareto, stats.genpareto)])
@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3])
def test_the_laws_are_scipys(law: type[Law], scipys: stats.rv_continuous, shape: float) -> None:
    ours = law(10.0, 2.0, shape)
    theirs = scipys(-shape if law is ExtremeValue else shape, 10.0, 2.0)
    times = theirs.ppf(np.array([0.01, 0.3, 0.9, 0.999]))
    below, above = law.log_tails(ours.variate(times))
    assert np.exp(below) == pytest.approx([0.01, 0.3, 0.9, 0.999])
    assert np.exp(above) == pytest.approx([0.99, 0.7, 0.1, 0.001])
    assert ours.end == pytest.approx(theirs.support()[1])
    drawn = ours.draw(np.random.default_rng(1), (2000,))
    assert stats.kstest(drawn, theirs.cdf).pvalue > 1e-3


def test_anderson_darling_is_scipys_of_a_known_law() -> None:
    times = np.sort(np.random.default_rng(2).exponential(size=100))
    own = float(anderson_darling(Pareto, times))
    u, n = -np.expm1(-times), 100
    expected = -n - sum((2 * i - 1) * (math.log(u[i - 1]) + math.log1p(-u[n - i])) for i in range(1, n + 1)) / n
    assert own == pytest.approx(expected)
    scaled = float(anderson_darling(Pareto, times / times.mean()))
    assert scaled == pytest.approx(stats.anderson(times, "expon", method="interpolate").statistic)


def test_l_moments_of_a_written_out_sample() -> None:
    """All pairs and triples, by definition (Hosking 1990)."""
    ordered = np.sort(np.random.default_rng(1).gumbel(size=9))
    pairs = [(ordered[j] - ordered[i]) / 2 for i in range(9) for j in range(i + 1, 9)]
    triples = [
        (ordered[k] - 2 * ordered[j] + ordered[i]) / 3
        for i in range(9) for j in range(i + 1, 9) for k in range(j + 1, 9)
    ]  # fmt: skip
    mean, spread, skewness = l_moments(ordered)
    assert (mean, spread) == pytest.approx((ordered.mean(), np.mean(pairs)))
    assert skewness == pytest.approx(np.mean(triples) / np.mean(pairs))


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3])
def test_l_moments_of_a_large_sample_give_its_law_back(law: type[Law], shape: float) -> None:
    found = by_l_moments(sample(law, shape, 200_000, 3))
    assert found.shape == pytest.approx(shape, abs=0.02)
    assert found.scale == pytest.approx(1e3, rel=0.02)
    assert found.location == pytest.approx(1e6, abs=20)


@pytest.mark.parametrize("shape", [-0.4, -0.1, 0.05, 0.3])
def test_the_shape_by_l_moments_is_as_near_as_published(shape: float) -> None:
    """Within 0.0009 of the law's own L-moments (Hosking, Wallis and Wood 1985)."""
    k = -shape
    gamma, skewness = math.gamma(1 + k), 2 * (1 - 3**-k) / (1 - 2**-k) - 3
    mean, spread = (1 - gamma) / k, (1 - 2**-k) * gamma / k
    # Three values cannot have them: an ascending sample of five does, with L-kurtosis and the next 0.
    basis = np.array([[math.comb(i, r) / math.comb(4, r) for i in range(5)] for r in range(5)]) / 5
    b = [mean, (spread + mean) / 2, (skewness * spread + 3 * (spread + mean) - mean) / 6]
    b.append((12 * b[1] * -1 + 30 * b[2] + mean) / 20)
    b.append((140 * b[3] - 90 * b[2] + 20 * b[1] - mean) / 70)
    ordered = np.linalg.solve(basis, np.array(b))
    assert float(ExtremeValue.by_l_moments(ordered[None])[2][0]) == pytest.approx(shape, abs=0.0009)


@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
def test_the_fit_moves_and_stretches_with_the_data(law: type[Law]) -> None:
    one = sample(law, 0.1, 100, 5)
    two = fit(law, 7 * one.data + 3, 7 * one.origin + 3)
    assert two.law.shape == pytest.approx(one.law.shape, abs=1e-4)
    assert two.law.scale == pytest.approx(7 * one.law.scale, rel=1e-4)
    variates = np.array([3.0, 9.0])
    for first, second in zip(
        level_intervals(one, variates, 0.95, ""), level_intervals(two, variates, 0.95, ""), strict=True
    ):
        assert (second.low - 3) / 7 == pytest.approx(first.low, rel=1e-5)
        assert (second.high - 3) / 7 == pytest.approx(first.high, rel=1e-5)


@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
def test_the_ends_of_an_interval_have_the_deviance_that_they_should(law: type[Law]) -> None:
    """By SciPy's own maximisation over the other parameters."""
    from scipy import optimize

    found = sample(law, 0.1, 120, 9)
    variate = np.array([8.0])
    interval = level_intervals(found, variate, 0.95, "")[0]
    for end in (interval.low, interval.high):
        place = likelihood.through(law, np.array([end - found.origin]), variate)

        def lost(free: Floats, place: likelihood.Placement = place) -> float:
            return -float(likelihood.log_likelihood(law, found.shifted, place(free[None])[0])[0])

        start = [math.log(found.law.scale), 0.1] if law is ExtremeValue else [0.1]
        options = {"xatol": 1e-10, "fatol": 1e-10, "maxiter": 10_000}
        best = optimize.minimize(lost, start, method="Nelder-Mead", options=options)
        assert 2 * (found.log_likelihood + best.fun) == pytest.approx(stats.chi2.ppf(0.95, 1), rel=0.02)


@pytest.mark.campaign
@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
def test_the_interval_covers_the_true_time(law: type[Law]) -> None:
    """Of 200 samples of each law; the time is far beyond the sample."""
    variate = np.array([9.0])
    true = law(1e6, 1e3, 0.05).time(variate)[0]
    covered = sum(true in level_intervals(sample(law, 0.05, 100, seed), variate, 0.95, "")[0] for seed in range(200))
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.campaign
@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
@pytest.mark.parametrize("step", [1.0, 250.0])
def test_the_goodness_of_fit_has_its_level_also_with_a_coarse_clock(law: type[Law], step: float) -> None:
    """The clock's step is a quarter of the scale: were the bootstrap not rounded, nearly all would be refused."""
    p_values = []
    for seed in range(120):
        data = sample(law, 0.05, 100, seed).data
        rounded = 1e6 + step * (np.floor((data - 1e6) / step) + 0.5)
        tests = goodness(fit(law, rounded, 1e6), step_ns=step, replicates=99, seed=seed)
        p_values.append([test.p_value for test in tests])
    refused = np.count_nonzero(np.array(p_values) <= 0.1, axis=0)
    assert refused[0] <= 24  # 12 and four standard deviations
    assert refused[1] <= 24


@pytest.mark.parametrize("law", [ExtremeValue, Pareto])
def test_the_goodness_of_fit_refuses_another_law(law: type[Law]) -> None:
    rng = np.random.default_rng(1)
    data = 1e6 + np.concatenate([rng.normal(1000, 50, 150), rng.normal(3000, 50, 50)])
    assert goodness(fit(law, data, 1e6), step_ns=1, replicates=199, seed=1)[0].p_value == 1 / 200


def test_lumps_are_too_few_distinct_values() -> None:
    data = np.repeat(np.sort(maxima(0.0, 40, 1)), 5)
    assert goodness(fit(ExtremeValue, data), step_ns=1, replicates=199, seed=1)[1].p_value == 1 / 200


def test_an_interval_that_no_level_ends_is_infinite() -> None:
    found = sample(Pareto, 0.8, 20, 1)
    interval = level_intervals(found, np.array([40.0]), 0.999, "")[0]
    assert interval.low < found.law.time(np.array([40.0]))[0] < interval.high

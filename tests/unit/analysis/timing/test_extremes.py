from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from harness.analysis.timing import Extremes, NotApplicable, Pwcet, Rules, analyse
from harness.analysis.timing.extremes import _block_maxima
from harness.analysis.timing.laws import ExtremeValue, Pareto
from harness.analysis.timing.sample import Times
from tests.support.timing import synthetic

pytestmark = pytest.mark.slow

QUICK = Rules(replicates=109, exceedances=(1e-3, 1e-5, 1e-7))


def both(found: Extremes) -> tuple[Pwcet | NotApplicable, Pwcet | NotApplicable]:
    return found.block_maxima, found.peaks


def given(result: Pwcet | NotApplicable) -> Pwcet:
    assert isinstance(result, Pwcet), result
    return result


def refused(result: Pwcet | NotApplicable) -> str:
    assert isinstance(result, NotApplicable), result
    return "\n".join(result.reasons)


@pytest.fixture(scope="module")
def sound() -> Extremes:
    return analyse(synthetic.gumbel(10_000, 2), seed=1)


def test_a_sound_series_has_both(sound: Extremes) -> None:
    maxima, peaks = map(given, both(sound))
    assert isinstance(maxima.law, ExtremeValue)
    assert isinstance(peaks.law, Pareto)
    for result in (maxima, peaks):
        assert abs(result.law.shape) < 0.15
        assert all(test.p_value >= 0.01 for test in result.tests)
        assert result.executions == 10_000
        assert result.max_ns == synthetic.gumbel(10_000, 2).max()
        assert result.extremes == pytest.approx(result.rate * 10_000)
        assert f"{result.extremes} " in result.selection


def test_the_tests_that_were_passed_are_told(sound: Extremes) -> None:
    maxima, peaks = map(given, both(sound))
    for names, result in (
        (("Ljung-Box", "runs", "KPSS", "Kolmogorov-Smirnov", "Fisher", "Anderson-Darling", "distinct"), maxima),
        (("Ljung-Box", "runs", "KPSS", "Kolmogorov-Smirnov", "Fisher", "binomial", "about the threshold"), peaks),
    ):
        told = " ".join(test.test for test in result.tests)
        assert all(name in told for name in names)


def test_the_curve_rises_and_says_how_far_it_reaches(sound: Extremes) -> None:
    for result in map(given, both(sound)):
        times = [point.time_ns for point in result.curve]
        assert times == sorted(times)
        assert [point.exceedance for point in result.curve][-3:] == [1e-7, 1e-8, 1e-9]
        for point in result.curve:
            assert point.interval.low < point.time_ns < point.interval.high
            assert point.reach == pytest.approx(1e-4 / point.exceedance)
            assert point.beyond == (point.exceedance < 0.9e-5)
            assert "independent" in point.interval.assumes
        words = {point.exceedance: point.words for point in result.curve}
        assert words[1e-3] == "within the sample"
        assert words[1e-5] == "extrapolated to 10 times the sample, within the stated limit"
        assert words[1e-9] == "extrapolated to 1e+05 times the sample, beyond the stated limit"


def test_time_and_exceedance_are_inverse(sound: Extremes) -> None:
    for result in map(given, both(sound)):
        for exceedance in (1e-3, 1e-6, 1e-9):
            assert result.exceedance(result.time_ns(exceedance)) == pytest.approx(exceedance, rel=1e-6)
        for point in result.curve:
            assert result.time_ns(point.exceedance) == pytest.approx(point.time_ns)
        with pytest.raises(ValueError, match="the tail begins"):
            result.exceedance(900_000)
        with pytest.raises(ValueError, match="the tail begins"):
            result.time_ns(0.5)


def test_the_curve_meets_the_sample(sound: Extremes) -> None:
    times = synthetic.gumbel(10_000, 2)
    for result in map(given, both(sound)):
        for share in (0.01, 0.003):
            assert result.time_ns(share) == pytest.approx(np.quantile(times, 1 - share), rel=3e-4)


def test_a_law_with_an_end_is_never_exceeded_there() -> None:
    """A power of a uniform number: its shape is -1/4, its end 1 ms and 4000 ns."""
    values = 4 * (1 - np.random.default_rng(3).random(10_000) ** 0.25)
    result = given(analyse(synthetic.standard(values), rules=QUICK).peaks)
    assert result.law.shape == pytest.approx(-0.25, abs=0.12)
    assert result.law.end >= result.max_ns
    assert result.exceedance(result.law.end + 1) == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_second_mode_may_have_a_tail(seed: int) -> None:
    """The upper mode holds 30 %: the slowest tenth is its normal tail."""
    true = stats.norm.isf(1e-5 / 0.3, synthetic.CENTRE_NS + 20 * synthetic.SCALE_NS, synthetic.SCALE_NS)
    for result in both(analyse(synthetic.bimodal(10_000, seed), rules=QUICK)):
        assert true in next(point for point in given(result).curve if point.exceedance == 1e-5).interval


def test_a_mode_of_few_executions_has_its_own_tail() -> None:
    """One of 50 executions: the threshold stays within the upper mode, where alone a law fits."""
    result = given(analyse(synthetic.bimodal(10_000, 2, share=0.02), rules=QUICK).peaks)
    assert result.law.location > synthetic.CENTRE_NS + 15 * synthetic.SCALE_NS


def uniform(executions: int, seed: int) -> Times:
    return synthetic.whole(1e6 + 1e6 * np.random.default_rng(seed).random(executions))


def cauchy(executions: int, seed: int) -> Times:
    return synthetic.standard(np.abs(np.random.default_rng(seed).standard_cauchy(executions)))


def with_stalls(executions: int, seed: int) -> Times:
    """One of 300 executions is 50 deviations slower: neither law holds both them and the rest."""
    return synthetic.bimodal(executions, seed, share=1 / 300)


def clustered(executions: int, seed: int) -> Times:
    """Stalls that come in groups of five."""
    times = synthetic.normal(executions, seed)
    for start in np.random.default_rng(seed).choice(executions - 5, executions // 250, replace=False):
        times[start : start + 5] += np.random.default_rng(start).exponential(5000, 5).astype(np.int64)
    return times


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (synthetic.drifting, "KPSS"),
        (synthetic.drifting, "Kolmogorov-Smirnov of the halves"),
        (synthetic.stepped, "one level"),
        (synthetic.autoregressive, "Ljung-Box"),
        (synthetic.autoregressive, "runs rejects 'independence'"),
        (synthetic.periodic, "Fisher's g"),
        (clustered, "Ljung-Box"),
        (uniform, "the shape"),
        (cauchy, "the law has no variance"),
        (with_stalls, "the law has no variance"),
        (lambda n, seed: synthetic.gumbel(n, seed) // 1000 * 1000, "the clock's step of 1000 ns permits"),
        (lambda n, _: np.full(n, 5000), "1 distinct values"),
    ],
)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_a_series_without_a_pwcet_is_refused_with_the_reason(
    make: Callable[[int, int], Times], reason: str, seed: int
) -> None:
    for result in both(analyse(make(5000, seed), rules=QUICK, seed=seed)):
        assert reason in refused(result)


@pytest.mark.parametrize("seed", [1, 3])
def test_neither_law_holds_the_rare_and_the_rest(seed: int) -> None:
    assert "Anderson-Darling rejects" in refused(analyse(with_stalls(5000, seed), rules=QUICK, seed=seed).peaks)


def test_an_empty_curve_is_none() -> None:
    rules = Rules(replicates=109, exceedances=(0.5,))
    assert given(analyse(synthetic.gumbel(2000, 3), rules=rules).peaks).curve == ()


@pytest.mark.parametrize("executions", [1, 2, 10, 499])
def test_few_executions_have_no_tail(executions: int) -> None:
    for result in both(analyse(synthetic.gumbel(executions, 1))):
        assert refused(result) == f"{executions} executions: a tail needs 500 at least"


def test_between_the_two_minima_only_the_threshold_applies() -> None:
    found = analyse(synthetic.gumbel(700, 2), rules=QUICK)
    assert refused(found.block_maxima) == "700 executions: 50 blocks of 20 need 1000"
    assert given(found.peaks).extremes >= 50


def test_too_few_bootstrap_samples_are_said() -> None:
    with pytest.raises(ValueError, match="99 bootstrap samples never give a p-value below"):
        Rules(replicates=99)


def test_a_reason_names_test_statistic_p_value_and_threshold() -> None:
    text = refused(analyse(synthetic.drifting(5000, 1), rules=QUICK).peaks)
    assert "KPSS, 10 lags rejects 'one level': statistic " in text
    assert ", p-value " in text
    assert " below 0.01" in text


def test_the_warm_up_is_the_callers_to_remove() -> None:
    times = synthetic.warming(10_000, 1)
    assert isinstance(analyse(times, rules=QUICK).block_maxima, NotApplicable)
    given(analyse(times[300:], rules=QUICK).block_maxima)


def test_a_coarse_clock_that_leaves_enough_values_is_no_hindrance() -> None:
    for result in both(analyse(synthetic.gumbel(10_000, 2) // 64 * 64, rules=QUICK)):
        true = synthetic.CENTRE_NS + synthetic.SCALE_NS * stats.gumbel_r.isf(1e-5)
        assert true in next(point for point in given(result).curve if point.exceedance == 1e-5).interval


@pytest.mark.slow
def test_no_execution_is_left_out_of_the_blocks() -> None:
    """The slowest execution is the last one, where blocks of equal length would have a rest."""
    times = synthetic.gumbel(10_037, 2)
    times = np.append(np.delete(times, times.argmax()), times.max())
    result = analyse(times, rules=QUICK).block_maxima
    assert given(result).max_ns == times.max()
    assert given(result).law.time(np.array([30.0]))[0] > times.max()


@pytest.mark.parametrize("executions", [1000, 10_037, 4999])
def test_blocks_are_of_one_length_but_for_one_execution(executions: int) -> None:
    candidate = _block_maxima(np.arange(executions), 50)
    lengths = np.diff(np.append(candidate.places, executions))
    assert lengths.size == 50
    assert np.ptp(lengths) <= 1
    assert candidate.values.tolist() == (np.append(candidate.places[1:], executions) - 1).tolist()


def test_the_seed_decides() -> None:
    times = synthetic.gumbel(2000, 5)
    assert analyse(times, rules=QUICK, seed=3) == analyse(times, rules=QUICK, seed=3)


@pytest.mark.slow
def test_the_curve_moves_and_stretches_with_the_times() -> None:
    """By 7 and 3, with the clock's step going along; every test has the same p-value."""
    times = synthetic.gumbel(2000, 3)
    for one, two in zip(both(analyse(times, rules=QUICK)), both(analyse(7 * times + 3, rules=QUICK)), strict=True):
        for first, second in zip(given(one).tests, given(two).tests, strict=True):
            assert second.p_value == pytest.approx(first.p_value, rel=1e-6)
        for before, after in zip(given(one).curve, given(two).curve, strict=True):
            assert (after.time_ns - 3) / 7 == pytest.approx(before.time_ns, rel=1e-6)


@pytest.mark.campaign
def test_sound_series_are_seldom_refused_and_the_intervals_cover() -> None:
    """Of 60 series with a Gumbel tail: the true time of 1e-5 and 1e-7, 100 and 10,000 times beyond the sample."""
    rules = Rules(replicates=109, exceedances=(1e-5, 1e-7))
    true = [synthetic.CENTRE_NS + synthetic.SCALE_NS * stats.gumbel_r.isf(p) for p in rules.exceedances]
    covered, total = np.zeros((2, 2)), np.zeros(2)
    for seed in range(60):
        found = analyse(synthetic.gumbel(1000, seed), rules=rules, seed=seed)
        for method, result in enumerate(both(found)):
            if isinstance(result, Pwcet):
                total[method] += 1
                covered[method] += [time in point.interval for time, point in zip(true, result.curve, strict=True)]
    assert (total >= 48).all()
    shares = covered / total[:, None]
    assert (shares >= 0.85).all(), shares  # 0.95 less three standard deviations

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from harness.analysis.timing import hypotheses
from harness.analysis.timing.hypotheses import Outcome
from harness.analysis.timing.sample import Times
from tests.support.timing import synthetic

# The flow of the Nile at Aswan, 1871 to 1970 (Cobb 1978; R's data set `Nile`): a level that falls after 1898.
NILE = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
    744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
])  # fmt: skip

# Pettitt (1979), table 1.
PETTITT = [
    -1.05, 0.96, 1.22, 0.58, -0.98, -0.03, -1.54, -0.71, -0.35, 0.66, 0.44, 0.91, -0.02, -1.42, 1.26, -1.02, -0.81,
    1.66, 1.05, 0.97, 2.14, 1.22, -0.24, 1.60, 0.72, -0.12, 0.44, 0.03, 0.66, 0.56, 1.37, 1.66, 0.10, 0.80, 1.29,
    0.49, -0.07, 1.18, 3.29, 1.84,
]  # fmt: skip


@pytest.mark.parametrize(("lags", "statistic"), [(0, 2.5264564549), (4, 0.9654349078), (12, 0.5497197024)])
def test_kpss_of_the_nile_is_statsmodels(lags: int, statistic: float) -> None:
    """And R's: tseries gives 0.96543 with its truncation lag 4."""
    assert hypotheses.kpss(NILE, lags).statistic == pytest.approx(statistic, rel=1e-9)


def test_kpss_takes_the_short_lag() -> None:
    assert hypotheses.short_lags(100) == 4
    assert hypotheses.long_lags(100) == 12
    assert hypotheses.kpss(NILE) == hypotheses.kpss(NILE, 4)


@pytest.mark.parametrize(
    ("critical", "level"),
    # Anderson and Darling (1952), table 1, to which the limit of Kwiatkowski and others is equal.
    [(0.34730, 0.10), (0.46136, 0.05), (0.74346, 0.01), (1.16786, 0.001)],
)
def test_the_limit_of_kpss_is_the_published_table(critical: float, level: float) -> None:
    assert hypotheses.cramer_von_mises_tail(critical) == pytest.approx(level, rel=1e-3)


@pytest.mark.parametrize(("critical", "level"), [(0.347, 0.10), (0.463, 0.05), (0.574, 0.025), (0.739, 0.01)])
def test_the_limit_of_kpss_agrees_with_the_papers_simulation(critical: float, level: float) -> None:
    assert hypotheses.cramer_von_mises_tail(critical) == pytest.approx(level, rel=0.05)


def test_the_limit_of_kpss_falls_from_one_to_zero() -> None:
    found = [hypotheses.cramer_von_mises_tail(x) for x in (0.0, 0.01, 0.05, 0.1, 0.3, 1, 3, 9, 11, 1e9)]
    assert found == sorted(found, reverse=True)
    assert (found[0], found[-1]) == (1, 0)


@pytest.mark.parametrize(
    ("lags", "statistic", "p_value"),
    [(1, 25.593832, 4.213843e-07), (10, 88.126872, 1.258633e-14), (20, 128.662090, 6.944351e-18)],
)
def test_ljung_box_of_the_nile_is_statsmodels(lags: int, statistic: float, p_value: float) -> None:
    found = hypotheses.ljung_box(NILE, lags)
    assert found.statistic == pytest.approx(statistic, rel=1e-7)
    assert found.p_value == pytest.approx(p_value, rel=1e-5)


def test_runs_of_the_nile_are_statsmodels() -> None:
    found = hypotheses.runs(NILE)
    assert found.statistic == pytest.approx(-4.221374183841087)
    assert found.p_value == pytest.approx(2.428174732475468e-05)


def test_pettitts_example_is_pettitts() -> None:
    """K = 232, p = 0.0146, after observation 17."""
    found, after = hypotheses.pettitt(PETTITT)
    assert (found.statistic, after) == (232, 17)
    assert found.p_value == pytest.approx(0.0146, abs=5e-5)


def test_the_nile_changes_after_1898() -> None:
    assert hypotheses.pettitt(NILE)[1] == 28


def test_mann_kendall_is_kendalls_tau_with_time() -> None:
    pairs = [np.sign(NILE[j] - NILE[i]) for i in range(100) for j in range(i + 1, 100)]
    found = hypotheses.mann_kendall(NILE)
    ties = sum(count * (count - 1) / 2 for count in np.unique(NILE, return_counts=True)[1])
    assert found.statistic == pytest.approx(sum(pairs) / np.sqrt(4950 * (4950 - ties)))
    assert found.p_value < 1e-4


@pytest.mark.parametrize(
    # Fisher (1929), table 1: the 5 % points of the largest share of so many periodogram ordinates.
    ("ordinates", "critical"),
    [(5, 0.68377), (10, 0.44495), (20, 0.27040), (30, 0.19784), (50, 0.13135)],
)
def test_fishers_g_has_the_published_level(ordinates: int, critical: float, monkeypatch: pytest.MonkeyPatch) -> None:
    power = np.full(ordinates, (1 - critical) / (ordinates - 1))
    power[3] = critical
    monkeypatch.setattr(hypotheses, "periodogram", lambda *_: power)
    found = hypotheses.periodicity(np.arange(10), 2 * ordinates + 1)
    assert 0.05 - 1e-4 <= found.p_value <= 0.052


TESTS: list[Callable[[Times], Outcome]] = [
    hypotheses.ljung_box,
    hypotheses.kpss,
    hypotheses.runs,
    hypotheses.mann_kendall,
    hypotheses.halves,
    lambda times: hypotheses.pettitt(times)[0],
    lambda times: hypotheses.periodicity(np.sort(np.argsort(times)[-30:]), times.size),
    lambda times: hypotheses.evenly_spread(np.sort(np.argsort(times)[-60:]), times.size),
]


@pytest.mark.half_of_cases
@pytest.mark.parametrize("test", TESTS)
def test_each_test_refuses_as_many_sound_series_as_it_says(test: Callable[[Times], Outcome]) -> None:
    """Of 400 independent series, those below 0.05: 20 if the p-value is exact, fewer if it is an upper bound."""
    refused = sum(test(synthetic.gumbel(600, seed)).p_value < 0.05 for seed in range(400))
    assert refused <= 33  # 20 and three standard deviations


@pytest.mark.parametrize(
    ("test", "series"),
    [
        (hypotheses.ljung_box, synthetic.autoregressive(600, 1)),
        (hypotheses.runs, synthetic.autoregressive(600, 1)),
        (hypotheses.kpss, synthetic.drifting(2000, 1)),
        (hypotheses.mann_kendall, synthetic.drifting(2000, 1)),
        (hypotheses.halves, synthetic.stepped(600, 1)),
        (lambda times: hypotheses.pettitt(times)[0], synthetic.stepped(600, 1)),
        (TESTS[6], synthetic.periodic(4000, 1)),
    ],
)
def test_each_test_finds_what_it_is_for(test: Callable[[Times], Outcome], series: Times) -> None:
    assert test(series).p_value < 1e-4


@pytest.mark.parametrize("test", TESTS[:6])
def test_a_constant_series_has_nothing_against_any_hypothesis(test: Callable[[Times], Outcome]) -> None:
    assert test(np.full(100, 5)).p_value == 1


def test_extremes_on_one_side_are_not_evenly_spread() -> None:
    assert hypotheses.evenly_spread(np.arange(20), 1000).p_value == pytest.approx(2**-19)


def test_runs_against_a_level_see_clusters() -> None:
    times = np.zeros(1000)
    times[400:420] = 1
    assert hypotheses.runs(times, 0.5).p_value < 1e-9


@pytest.mark.parametrize("test", [hypotheses.ljung_box, hypotheses.kpss, hypotheses.mann_kendall])
def test_too_few_values_are_said(test: Callable[[list[int]], Outcome]) -> None:
    with pytest.raises(ValueError, match="needs 3"):
        test([1, 2])


def test_more_lags_than_values_are_said() -> None:
    with pytest.raises(ValueError, match="5 lags of 5 values"):
        hypotheses.ljung_box(np.arange(5), 5)


def test_the_normal_limit_of_runs() -> None:
    found = [hypotheses.runs(synthetic.normal(500, seed)).statistic for seed in range(300)]
    assert stats.kstest(found, "norm").pvalue > 1e-3

"""Tests of the assumptions of the statistics: independence, one level, one distribution, no period.

Every test gives the same value: a statistic and the probability of one as large if the hypothesis held.  A series
that never varies has nothing against any hypothesis: p-value 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from harness.analysis.timing.sample import Floats

LJUNG_BOX_LAGS = 20
CERTAIN_KPSS = 10.0  # from here on the p-value is below 1e-20


@dataclass(frozen=True)
class Outcome:
    """Result of a test: its name, the hypothesis, the statistic, its p-value, and further details."""

    test: str
    hypothesis: str
    statistic: float
    p_value: float
    detail: str = ""


def autocorrelation(series: npt.ArrayLike, lags: int) -> Floats:
    """Return the sample autocorrelations at lags 1 to `lags`, float64 (lags,); zeros for a series that never varies."""
    centred = _floats(series)
    centred = centred - centred.mean()
    power = float(centred @ centred)
    if power == 0:
        return np.zeros(lags)
    return np.array([float(centred[lag:] @ centred[:-lag]) / power for lag in range(1, lags + 1)])


def ljung_box(series: npt.ArrayLike, lags: int | None = None) -> Outcome:
    """Test autocorrelation: Q = n (n + 2) sum r_k^2 / (n - k), chi-squared, `lags` degrees (Ljung and Box 1978).

    Lags 1 to min(20, n / 5) by default.  ValueError for a series of fewer than 3, or not longer than `lags`.
    """
    values = _at_least(series, 3)
    lags = lags or max(1, min(LJUNG_BOX_LAGS, values.size // 5))
    if lags >= values.size:
        raise ValueError(f"{lags} lags of {values.size} values")
    found = autocorrelation(values, lags)
    statistic = values.size * (values.size + 2) * float(np.sum(found**2 / (values.size - np.arange(1, lags + 1))))
    largest = int(np.abs(found).argmax())
    return Outcome(
        f"Ljung-Box, {lags} lags",
        "no autocorrelation",
        statistic,
        float(stats.chi2.sf(statistic, lags)),
        f"the largest autocorrelation is {found[largest]:.3f} at lag {largest + 1}",
    )


def kpss(series: npt.ArrayLike, lags: int | None = None) -> Outcome:
    """Test level stationarity: sum S_t^2 / (n^2 s^2(l)) (Kwiatkowski, Phillips, Schmidt and Shin 1992).

    S_t are the partial sums of the series less its mean, s^2(l) its long-run variance with Bartlett's weights
    1 - k / (l + 1); l = int(4 (n / 100)^(1/4)) by default.  The p-value is the limit's own (Cramér and von Mises'
    distribution), not read from the paper's table.  ValueError for a series of fewer than 3.
    """
    values = _at_least(series, 3)
    lags = short_lags(values.size) if lags is None else lags
    centred = values - values.mean()
    variance = float(centred @ centred)
    if variance == 0:
        return Outcome("KPSS", "one level", 0.0, 1.0, "the series never varies")
    weights = 1 - np.arange(1, lags + 1) / (lags + 1)
    long_run = variance * (1 + 2 * float(weights @ autocorrelation(values, lags)))
    statistic = float(np.sum(np.cumsum(centred) ** 2)) / values.size / long_run
    return Outcome(f"KPSS, {lags} lags", "one level", statistic, cramer_von_mises_tail(statistic))


def short_lags(executions: int) -> int:
    """Return the paper's l4, for series that are nearly independent."""
    return int(4 * (executions / 100) ** 0.25)


def long_lags(executions: int) -> int:
    """Return the paper's l12, for series with a dependence."""
    return min(int(12 * (executions / 100) ** 0.25), executions - 1)


def cramer_von_mises_tail(statistic: float) -> float:
    """Return P(integral of a squared Brownian bridge > statistic) (Anderson and Darling 1952, 4.35)."""
    if statistic <= 0:
        return 1.0
    if statistic > CERTAIN_KPSS:
        return 0.0
    j = np.arange(64)
    argument = (4 * j + 1) ** 2 / (16 * statistic)
    factor = np.exp(special.gammaln(j + 0.5) - special.gammaln(0.5) - special.gammaln(j + 1) - 2 * argument)
    terms = factor * np.sqrt(4 * j + 1) * special.kve(0.25, argument)
    return float(np.clip(1 - terms.sum() / (math.pi * math.sqrt(statistic)), 0, 1))


def runs(series: npt.ArrayLike, level: float | None = None) -> Outcome:
    """Test the number of runs above `level` (by default the median) and not above it (Wald and Wolfowitz 1940).

    The statistic is standardised and compared with the normal distribution, two-sided; values that equal the level
    count as not above it, so that a coarse clock loses no execution.
    """
    values = _floats(series)
    level = float(np.median(values)) if level is None else level
    above = values > level
    found, first = int(np.count_nonzero(above[1:] != above[:-1])) + 1, int(above.sum())
    second = values.size - first
    pairs = 2 * first * second
    if pairs <= values.size:  # one value at most on a side: the number of runs has no room
        return Outcome("runs", "independence", 0.0, 1.0, "the series has no two sides")
    variance = pairs * (pairs - values.size) / (values.size**2 * (values.size - 1))
    statistic = (found - 1 - pairs / values.size) / math.sqrt(variance)
    return Outcome(
        "runs", "independence", statistic, float(2 * stats.norm.sf(abs(statistic))), f"{found} runs about {level:g} ns"
    )


def mann_kendall(series: npt.ArrayLike) -> Outcome:
    """Test Kendall's tau of the values with time, corrected for ties (Mann 1945).

    Its p-value takes independence for granted: under a positive autocorrelation it is too small.
    """
    values = _at_least(series, 3)
    if np.ptp(values) == 0:
        return Outcome("Mann-Kendall", "no trend", 0.0, 1.0, "the series never varies")
    found = stats.kendalltau(np.arange(values.size), values, method="asymptotic")
    return Outcome("Mann-Kendall", "no trend", float(found.statistic), float(found.pvalue))


def pettitt(series: npt.ArrayLike) -> tuple[Outcome, int]:
    """Test for a change: K = max |2 sum of the first t ranks - t (n + 1)|, and its t (Pettitt 1979).

    p = 2 exp(-6 K^2 / (n^3 + n^2)), good below 0.5.
    """
    values = _at_least(series, 2)
    n = values.size
    sums = np.abs(2 * np.cumsum(stats.rankdata(values)) - np.arange(1, n + 1) * (n + 1))
    at = int(sums.argmax()) + 1
    statistic = float(sums[at - 1])
    p_value = min(1.0, 2 * math.exp(-6 * statistic**2 / (n**3 + n**2)))
    return Outcome("Pettitt", "no change of level", statistic, p_value, f"the likeliest change is after {at}"), at


def halves(series: npt.ArrayLike) -> Outcome:
    """Test the first half against the second (Kolmogorov and Smirnov's two-sample test)."""
    values = _at_least(series, 4)
    middle = values.size // 2
    found = stats.ks_2samp(values[:middle], values[middle:], method="asymp")
    return Outcome("Kolmogorov-Smirnov of the halves", "one distribution", float(found.statistic), float(found.pvalue))


def evenly_spread(places: npt.NDArray[np.intp], executions: int) -> Outcome:
    """Return the exact binomial test of equal numbers of extremes in the first and second half of the series."""
    first = int(np.count_nonzero(places < executions // 2))
    p_value = float(stats.binomtest(first, places.size, (executions // 2) / executions).pvalue)
    detail = f"{first} of {places.size} lie in the first half"
    return Outcome("binomial test of the extremes in the halves", "one rate of extremes", float(first), p_value, detail)


def periodogram(places: npt.NDArray[np.intp], executions: int) -> Floats:
    """Return the power of the series that is 1 at `places` and 0 elsewhere, at frequencies 1/n, 2/n, ... below 1/2."""
    marks = np.zeros(executions)
    marks[places] = 1
    power: Floats = np.abs(np.fft.rfft(marks)) ** 2
    return power[1 : (executions + 1) // 2]


def periodicity(places: npt.NDArray[np.intp], executions: int) -> Outcome:
    """Test the times of extremes: the largest share of one frequency in the power (Fisher's g, 1929).

    p is the first term of Fisher's sum, m (1 - g)^(m - 1), an upper bound that is exact above g = 1/2 and close
    where it is small.
    """
    power = periodogram(places, executions)
    if power.size < 2 or places.size < 3 or power.sum() == 0:
        return Outcome("Fisher's g", "no period", 0.0, 1.0, f"{places.size} extremes have no period")
    share = float(power.max() / power.sum())
    p_value = math.exp(min(0.0, math.log(power.size) + (power.size - 1) * math.log1p(-min(share, 1 - 1e-15))))
    return Outcome("Fisher's g", "no period", share, p_value, f"of the places of {places.size} extremes")


def _floats(series: npt.ArrayLike) -> Floats:
    return np.asarray(series, np.float64)


def _at_least(series: npt.ArrayLike, fewest: int) -> Floats:
    values = _floats(series)
    if values.size < fewest:
        raise ValueError(f"{values.size} values: this test needs {fewest}")
    return values

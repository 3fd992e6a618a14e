"""Properties of a series in time: warm-up, drift, periodic outliers, dependence, the clock's step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.analysis.timing import hypotheses
from harness.analysis.timing.hypotheses import Outcome
from harness.analysis.timing.sample import Floats, NotGiven, Tick, Times, as_times, resolution, tick
from harness.analysis.timing.summary import order_statistic

FEWEST = 20  # executions; a shorter series shows no shape
WARM_UP_SHARE = 4  # a warm-up ends within the first quarter: a later shift is a change
WARM_UP_ROUNDS = 12
GRID_RATIO = 1.1
SLOPE_BLOCKS = 300
FENCE = 3.0  # Tukey's far-out fence, in interquartile ranges above the upper quartile
MOST_OUTLIERS = 20  # at most one execution of this number, otherwise it is a second mode
FEWEST_CYCLES = 3  # of a period in a series: one or two occurrences are not a period
MOST_A_CYCLE = 4  # outliers that one cause makes
IN_STEP = 0.7  # of the strongest frequency's: outliers of other causes take that much from the true one, or give it


@dataclass(frozen=True)
class WarmUp:
    """The first executions that are slower than the rest: how many, by how much (medians), how sure.

    `p_value` is that of the first change found; 0 executions and the p-value of none found otherwise.
    """

    executions: int
    excess_ns: float
    p_value: float


@dataclass(frozen=True)
class Drift:
    """Movement of the level: a trend, a change of level, or (KPSS) any other movement.

    `slope_ns` is per execution (Theil and Sen, of block medians); `total_ns` is over the whole series.
    """

    drifts: bool
    slope_ns: float
    total_ns: float
    change_after: int
    tests: tuple[Outcome, ...]


@dataclass(frozen=True)
class Outliers:
    """Executions above `above_ns` (Tukey's far-out fence): how many, and their period in executions if they have one.

    Without a period, a small p-value says that they are not evenly spread.
    An interrupt that is periodic in time is periodic here as far as executions follow each other without a gap.
    """

    above_ns: float
    count: int
    period: float | None
    test: Outcome


@dataclass(frozen=True)
class Series:
    """Properties of a series; all but `warm_up` and `clock` refer to the executions after the warm-up."""

    executions: int
    warm_up: WarmUp
    drift: Drift
    outliers: Outliers
    autocorrelation: tuple[float, ...]
    independence: Outcome
    clock: Tick | NotGiven


def describe(values: npt.ArrayLike, *, seed: int = 0, significance: float = 0.01) -> Series | NotGiven:
    """Describe execution times in integer nanoseconds, int (n,), in the order of measurement.

    Not given for fewer than 20 executions.  `seed` is of the Monte Carlo p-value of the warm-up.
    """
    times = as_times(values)
    if times.size < FEWEST:
        return NotGiven(f"{times.size} executions have no shape in time", FEWEST)
    start = warm_up(times, seed=seed, significance=significance)
    steady = times[start.executions :]
    lags = min(hypotheses.LJUNG_BOX_LAGS, steady.size // 5)
    return Series(
        executions=times.size,
        warm_up=start,
        drift=drift(steady, significance=significance),
        outliers=outliers(steady, significance=significance),
        autocorrelation=tuple(hypotheses.autocorrelation(steady, lags).tolist()),
        independence=hypotheses.ljung_box(steady),
        clock=tick(times),
    )


def warm_up(times: Times, *, seed: int = 0, significance: float = 0.01) -> WarmUp:
    """Return the slow executions at the start, removed change by change until none is left.

    Each change is the largest standardised sum of the first t scores; a score is the expected exponential order
    statistic of the execution's rank (Savage 1956), so that a single slow first execution counts and the size of
    an outlier does not.  The p-value is by simulation of exponential scores.
    """
    found, first_p = 0, None
    for round_ in range(WARM_UP_ROUNDS):
        end, p_value = _change(times[found:], times.size // WARM_UP_SHARE - found, seed + round_, significance)
        first_p = p_value if first_p is None else first_p
        if end == 0:
            break
        found += end
    if not found:
        return WarmUp(0, 0.0, first_p or 0.0)
    slow, steady = (order_statistic(np.sort(part), 0.5) for part in (times[:found], times[found:]))
    return WarmUp(found, float(slow - steady), first_p or 0.0)


def _change(times: Times, latest: int, seed: int, significance: float) -> tuple[int, float]:
    """Return after how many executions the series gets faster, 0 if not or only after `latest`; and the p-value."""
    scores = _savage(times)
    spread = float(scores.std())
    if spread == 0 or latest < 1:
        return 0, 1.0
    ends = np.arange(1, times.size)
    profile = _standardised(np.cumsum(scores)[:-1] / spread, ends, times.size)
    grid = _grid(times.size)
    p_value = _simulated(float(profile[grid - 1].max()), grid, times.size, seed)
    after = int(profile.argmax()) + 1
    return (after if p_value < significance and after <= latest else 0), p_value


def _savage(times: Times) -> Floats:
    """Return -log of the share of executions that are as slow or slower, less its mean."""
    scores = -np.log1p(-(stats.rankdata(times) - 0.5) / times.size)
    return np.asarray(scores - scores.mean(), np.float64)


def _standardised(sums: Floats, ends: npt.NDArray[np.int64], n: int) -> Floats:
    """Return the sums of the first `ends` of n scores of mean 0 and deviation 1, over their deviation."""
    return np.asarray(sums / np.sqrt(ends * (1 - ends / n)), np.float64)


def _grid(executions: int) -> npt.NDArray[np.int64]:
    """Return ends from 1 up to all but one execution, each about a tenth beyond the one before."""
    count = 2 + int(math.log(executions) / math.log(GRID_RATIO))
    return np.unique(np.geomspace(1, executions - 1, count).round().astype(np.int64))


def _simulated(observed: float, grid: npt.NDArray[np.int64], n: int, seed: int, replicates: int = 1999) -> float:
    """Return how often a series without a warm-up has as large a maximum; it has sums of exponential variates."""
    rng = np.random.default_rng(seed)
    widths = np.diff(np.concatenate([[0], grid, [n]]))
    sums = np.cumsum(rng.standard_gamma(widths, (replicates, widths.size)), axis=1)
    bridge = sums[:, :-1] - sums[:, -1:] * grid / n
    return float((1 + np.count_nonzero(_standardised(bridge, grid, n).max(axis=1) >= observed)) / (1 + replicates))


def drift(times: Times, *, significance: float = 0.01) -> Drift:
    """Test trend, change of level and stationarity.

    It drifts if KPSS with the long lag says so: that test allows for a dependence of neighbours, under which the
    others are too sure.  They say what kind of drift it is.
    """
    level = hypotheses.kpss(times, hypotheses.long_lags(times.size))
    change, after = hypotheses.pettitt(times)
    slope = _slope(times)
    tests = (level, hypotheses.mann_kendall(times), change)
    return Drift(level.p_value < significance, slope, slope * times.size, after, tests)


def _slope(times: Times) -> float:
    """Return Theil and Sen's slope of the medians of at most 300 blocks, ns per execution."""
    blocks = np.array_split(times, min(SLOPE_BLOCKS, times.size))
    medians = [float(np.median(block)) for block in blocks]
    centres = (np.arange(len(blocks)) + 0.5) * times.size / len(blocks)
    return float(stats.theilslopes(medians, centres).slope)


def outliers(times: Times, *, significance: float = 0.01) -> Outliers:
    """Find executions far above the rest, and their period.

    More than one of 20 are a second mode, not outliers, and are not counted.
    """
    lower, upper = np.percentile(times, [25, 75])
    fence = float(upper + FENCE * max(upper - lower, resolution(times)))
    places = np.flatnonzero(times > fence)
    if places.size * MOST_OUTLIERS > times.size:
        places = places[:0]
    test = hypotheses.periodicity(places, times.size)
    period = period_of(places, times.size) if test.p_value < significance else None
    return Outliers(fence, places.size, period, test)


def period_of(places: npt.NDArray[np.intp], executions: int) -> float | None:
    """Return the period of `places`, in executions: the longest nearly as strong as the strongest.

    A comb has equal power at all harmonics of its frequency, so the strongest may be any of them.  None where fewer
    than FEWEST_CYCLES periods fit into the series: the places are not evenly spread then, and no more is known.
    """
    power = hypotheses.periodogram(places, executions)
    strongest = _sharpened(places, (int(power.argmax()) + 1) / executions, executions)
    enough = IN_STEP * _in_step(places, strongest)
    longest = executions / max(FEWEST_CYCLES, places.size / MOST_A_CYCLE)
    for harmonic in range(int(longest * strongest), 0, -1):
        if _in_step(places, strongest / harmonic) >= enough:
            return round(strongest / _sharpened(places, strongest / harmonic, executions)) / strongest
    return None


def _in_step(places: npt.NDArray[np.intp], frequency: float) -> float:
    """Return 1 if all places have one phase, near 0 if the frequency is not theirs."""
    return float(abs(np.exp(2j * np.pi * frequency * places).mean()))


def _sharpened(places: npt.NDArray[np.intp], frequency: float, executions: int) -> float:
    """Return the frequency within half a step of the periodogram at which the places are most in step."""
    for width in (0.5, 0.01):
        near = frequency + np.linspace(-width, width, 101) / executions
        frequency = float(near[np.argmax([_in_step(places, float(one)) for one in near])])
    return frequency

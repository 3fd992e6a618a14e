"""Location, spread and tail of a series with confidence intervals; histogram and empirical tail for charts.

Quantiles, and so the median, are observed execution times (order statistics), never interpolated: a value between two
executions is a value that no execution took.  Of an even number of executions, the median is the lower of the two
middle times.  The intervals of quantiles assume no distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.analysis.timing.sample import (
    INDEPENDENT,
    Floats,
    Interval,
    NotGiven,
    Times,
    as_times,
    check_confidence,
    resolution,
)

TAILS = (0.99, 0.999, 0.9999)

# Batches of the mean's interval: enough degrees of freedom for Student's t, and long enough to hold a dependence.
BATCHES = 30
SHORTEST_BATCH = 10


@dataclass(frozen=True)
class Quantile:
    """The execution time that this share of executions does not exceed; None where the interval is not given."""

    probability: float
    value_ns: int | None
    interval: Interval | NotGiven

    @property
    def name(self) -> str:
        """The name that `percentile` gives."""
        return percentile(self.probability)


@dataclass(frozen=True)
class Summary:
    """The numbers of one series of `executions`.

    `deviation_ns` is the sample's standard deviation (divisor n - 1).  The maximum is the largest execution time
    seen, not a bound: with the confidence of the intervals, at most the share `longer_at_most` of all executions
    is longer, if they are independent and of one distribution (Wilks 1941, one-sided).
    """

    executions: int
    min_ns: int
    mean_ns: float
    mean_interval: Interval | NotGiven
    median_ns: int
    median_interval: Interval | NotGiven
    deviation_ns: float | NotGiven
    quantiles: tuple[Quantile, ...]
    max_ns: int
    longer_at_most: float


def summarise(values: npt.ArrayLike, *, confidence: float = 0.95, probabilities: tuple[float, ...] = TAILS) -> Summary:
    """Return the summary of execution times in integer nanoseconds, int (n,).

    The maximum, the median and every quantile are of single executions: nothing is averaged before they are taken.
    ValueError for an invalid series of times and for a confidence or probability outside (0, 1).
    """
    times = as_times(values)
    check_confidence(confidence)
    ordered = np.sort(times)
    return Summary(
        executions=times.size,
        min_ns=int(ordered[0]),
        mean_ns=float(times.mean()),
        mean_interval=mean_interval(times, confidence),
        median_ns=order_statistic(ordered, 0.5),
        median_interval=quantile_interval(ordered, 0.5, confidence),
        deviation_ns=_deviation(times),
        quantiles=tuple(quantile(ordered, probability, confidence) for probability in probabilities),
        max_ns=int(ordered[-1]),
        longer_at_most=-math.expm1(math.log1p(-confidence) / times.size),
    )


def quantile(ordered: Times, probability: float, confidence: float) -> Quantile:
    """Return the order statistic and its interval, or neither; `ordered` ascending."""
    interval = quantile_interval(ordered, probability, confidence)
    if isinstance(interval, NotGiven):
        return Quantile(probability, None, interval)
    return Quantile(probability, order_statistic(ordered, probability), interval)


def order_statistic(ordered: Times, probability: float) -> int:
    """Return the smallest time that at least this share of executions does not exceed; `ordered` ascending."""
    # 0.99 of 100 is 99, though not in floating point.
    return int(ordered[max(1, math.ceil(probability * ordered.size - 1e-9)) - 1])


def percentile(probability: float) -> str:
    """Return the name p99, p99.9 and so on."""
    return f"p{100 * probability:.10g}"


def quantile_interval(ordered: Times, probability: float, confidence: float) -> Interval | NotGiven:
    """Return order statistics around the quantile, with equal tails (David and Nagaraja 2003, 7.1).

    The number of n executions below the quantile is binomial for any distribution; ties, and so a coarse
    clock, only make the interval surer than it says.
    """
    needed = executions_needed(probability, confidence)
    if ordered.size < needed:
        wanted = f"no {confidence:.4g} interval for {percentile(probability)}"
        return NotGiven(f"{ordered.size} executions give {wanted}", needed)
    ranks = quantile_ranks(ordered.size, probability, confidence)
    return Interval(float(ordered[ranks[0] - 1]), float(ordered[ranks[1] - 1]), confidence, INDEPENDENT)


def quantile_ranks(executions: int, probability: float, confidence: float) -> tuple[int, int]:
    """Return the ranks, from 1, of the ends of the interval: of each side at most half the error."""
    tail = (1 - confidence) / 2
    below = stats.binom(executions, probability)
    return int(below.ppf(tail)), int(below.ppf(1 - tail)) + 1


def executions_needed(probability: float, confidence: float) -> int:
    """Return the fewest executions of which minimum and maximum hold the quantile, each side with half the error."""
    if not 0 < probability < 1:
        raise ValueError(f"quantile {probability}: it lies between 0 and 1, both excluded")
    tail = math.log((1 - confidence) / 2)
    return math.ceil(max(tail / math.log(probability), tail / math.log1p(-probability)) - 1e-9)


def mean_interval(times: Times, confidence: float) -> Interval | NotGiven:
    """Return Student's interval of the mean: of batch means if the series is long enough, else of the executions.

    Means of 30 consecutive batches are nearly independent though their executions are not (Law and Kelton 2000,
    9.5.3), so that the interval stays honest under a dependence shorter than a batch.
    """
    if times.size < 2:
        return NotGiven("one execution says nothing of the spread", 2)
    if times.size < BATCHES * SHORTEST_BATCH:
        return _student(times.astype(np.float64), float(times.mean()), confidence, f"{INDEPENDENT}, and nearly normal")
    means = np.array([batch.mean() for batch in np.array_split(times, BATCHES)])
    assumes = f"no dependence reaches farther than {times.size // BATCHES} executions, and none drifts"
    return _student(means, float(times.mean()), confidence, assumes)


def _student(parts: Floats, centre: float, confidence: float, assumes: str) -> Interval:
    error = float(parts.std(ddof=1)) / math.sqrt(parts.size)
    reach = float(stats.t.ppf((1 + confidence) / 2, parts.size - 1)) * error
    return Interval(centre - reach, centre + reach, confidence, assumes)


def _deviation(times: Times) -> float | NotGiven:
    return float(times.std(ddof=1)) if times.size > 1 else NotGiven("one execution says nothing of the spread", 2)


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` executions from `edges_ns[i]` on and below `edges_ns[i + 1]`; every execution is in one bin."""

    edges_ns: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Exceedance:
    """The share of executions that took `time_ns` or longer."""

    time_ns: int
    share: float


def histogram(values: npt.ArrayLike, *, bins: int = 120, resolution_ns: float | None = None) -> Histogram:
    """Count in at most `bins` bins of one width, a multiple of the clock's step, to avoid empty bins between steps.

    The step is estimated from the times unless given.  Edges are half a step away from the values that occur.
    """
    times = as_times(values)
    if bins < 1:
        raise ValueError(f"{bins} bins")
    step = resolution(times) if resolution_ns is None else resolution_ns
    ticks = np.round((times - times.min()) / step).astype(np.int64)
    width = int(ticks.max()) // bins + 1
    counts = np.bincount(ticks // width)
    edges = float(times.min()) + step * (width * np.arange(counts.size + 1) - 0.5)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


def empirical_tail(values: npt.ArrayLike, *, points: int = 500) -> tuple[Exceedance, ...]:
    """Return the empirical complementary distribution, ascending in time: P(an execution takes t or longer).

    At most about `points`, evenly spread on the logarithm of the share, where the tail is looked at; the slowest
    50 executions, the fastest and the slowest are always among them.
    """
    times = np.sort(as_times(values))[::-1]
    ranks = np.unique(np.geomspace(1, times.size, points).round().astype(np.int64))
    ranks = np.union1d(ranks, np.arange(1, min(50, times.size) + 1))
    shown = np.unique(times[ranks - 1])
    counts = times.size - np.searchsorted(times[::-1], shown, side="left")
    return tuple(Exceedance(int(time), int(count) / times.size) for time, count in zip(shown, counts, strict=True))

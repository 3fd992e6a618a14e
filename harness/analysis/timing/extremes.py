"""The probabilistic worst-case execution time (pWCET), by extreme value theory, or why this series has none.

Two ways, each from the same series: the maxima of blocks follow the generalized extreme value law, what exceeds a
high threshold the generalized Pareto law (Coles 2001, chapters 3 and 4).  Both hold only for executions that are
independent and of one distribution, and only if the law fits: every one of these is tested, and if one test speaks
against it the answer is `NotApplicable`, with the tests as its reasons.  That no test speaks against it is no proof:
the curve holds for the inputs, the load and the state of the board that were measured, and for nothing else.

The intervals are those of the law: that a real tail follows it only in the limit is not in them.  Of 5000 executions
with a Gumbel tail the 95 % intervals held the true time of 1e-5 in 93 % of series, with a normal tail, which comes
to its limit slowest of all, in 87 to 88 %, mostly missing it on the low side.

A warm-up belongs removed before (`series.warm_up` finds it): it is no part of the steady distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.analysis.timing import hypotheses
from harness.analysis.timing.fit import Fit, by_l_moments, fit, goodness, level_intervals
from harness.analysis.timing.hypotheses import Outcome
from harness.analysis.timing.laws import ExtremeValue, Law, Pareto
from harness.analysis.timing.sample import Floats, Interval, Times, as_times, check_confidence, p_text, resolution

# The likelihood is regular above -1/2 (Smith 1985); from 1/2 on the law has no variance, which no execution time lacks.
SHAPES = (-0.5, 0.5)
FEWEST_DISTINCT = 10
SHORTEST_BLOCK = 20
HIGHEST_SHARE = 10  # at most one execution of this number exceeds the threshold, apart from ties
TIES_ALLOWED = 2  # times the requested exceedances
MOST_EXTREMES = 800
PERIODIC_SHARE = 100  # the slowest of this number of executions is examined for a period
FEWEST_EXECUTIONS = 500


@dataclass(frozen=True)
class Rules:
    """Conditions that a pWCET must meet, and its limits.

    A test speaks against it below `significance`: of sound series each test refuses this share.  A curve's point
    whose probability is below 1 / (`extrapolation` x executions) is marked as beyond what the sample supports.
    ValueError for fewer bootstrap samples than a p-value below the significance takes.
    """

    significance: float = 0.01
    confidence: float = 0.95
    replicates: int = 199
    fewest_extremes: int = 50
    extrapolation: float = 10.0
    exceedances: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if (1 + self.replicates) * self.significance <= 1:
            raise ValueError(f"{self.replicates} bootstrap samples never give a p-value below {self.significance}")


DEFAULT = Rules()


@dataclass(frozen=True)
class Point:
    """One point of the curve: an execution exceeds `time_ns` with probability `exceedance`.

    `reach` is 1 / (exceedance x executions): beyond 1 the time is extrapolated, beyond the rules' factor `beyond`.
    """

    exceedance: float
    time_ns: float
    interval: Interval
    reach: float
    beyond: bool

    @property
    def words(self) -> str:
        """Describe how far the point lies beyond the sample."""
        if self.reach <= 1:
            return "within the sample"
        limit = "beyond the stated limit" if self.beyond else "within the stated limit"
        return f"extrapolated to {self.reach:.4g} times the sample, {limit}"


@dataclass(frozen=True)
class Pwcet:
    """A law of extremes that passed every test, and its curve.

    `extremes` maxima or excesses, `rate` of them per execution; `selection` says how block or threshold was chosen.
    `check` is the law with the same L-moments.  Points of `curve` that reach beyond `extrapolation` times the sample
    are marked.  `max_ns` is the observed maximum.
    """

    law: Law
    check: Law
    executions: int
    extremes: int
    rate: float
    selection: str
    extrapolation: float
    curve: tuple[Point, ...]
    tests: tuple[Outcome, ...]
    max_ns: int

    def time_ns(self, exceedance: float) -> float:
        """Return the time that an execution exceeds with this probability; ValueError outside the tail."""
        return float(self.law.time(_variate(type(self.law), self.rate, exceedance)))

    def exceedance(self, time_ns: float) -> float:
        """Return P(an execution exceeds this time); ValueError below the tail, 0 beyond the law's end."""
        if time_ns >= self.law.end:
            return 0.0
        variate = float(self.law.variate(np.asarray(time_ns, np.float64)))
        maxima = isinstance(self.law, ExtremeValue)
        found = -math.expm1(-math.exp(-variate) * self.rate) if maxima else self.rate * math.exp(-variate)
        if not found < self.rate:
            raise ValueError(f"{time_ns} ns: the tail begins at {self.law.location:.0f} ns or above")
        return found


@dataclass(frozen=True)
class NotApplicable:
    """Reasons why there is no pWCET, each a sentence; `tests` are all tests, passed or not."""

    reasons: tuple[str, ...]
    tests: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class Extremes:
    """The pWCET by block maxima and by peaks over a threshold; either may not apply."""

    block_maxima: Pwcet | NotApplicable
    peaks: Pwcet | NotApplicable


@dataclass(frozen=True)
class _Candidate:
    """Extremes that a law may be fitted to: values in ns, their places in the series, the law's threshold."""

    law: type[Law]
    values: Floats
    places: npt.NDArray[np.intp]
    threshold: float
    rate: float
    words: str


_Judged: TypeAlias = tuple[_Candidate, Fit, tuple[Outcome, ...]]


def analyse(
    values: npt.ArrayLike, *, rules: Rules = DEFAULT, resolution_ns: float | None = None, seed: int = 0
) -> Extremes:
    """Return both pWCETs of execution times in integer nanoseconds, int (n,), in the order of measurement.

    `resolution_ns` is the clock's step, by default found in the times; `seed` is that of the bootstrap.  ValueError for
    an invalid series of times.
    """
    times = as_times(values)
    refused = _too_little(times)
    if refused:
        return Extremes(NotApplicable(refused), NotApplicable(refused))
    step = resolution_ns or resolution(times)
    common = series_tests(times)
    return Extremes(
        _judge(times, _blocks(times, rules), common, rules, step, seed),
        _judge(times, _peaks(times, rules, step), common, rules, step, seed),
    )


def _too_little(times: Times) -> tuple[str, ...]:
    distinct = np.unique(times).size
    if times.size < FEWEST_EXECUTIONS:
        return (f"{times.size} executions: a tail needs {FEWEST_EXECUTIONS} at least",)
    if distinct < FEWEST_DISTINCT:
        return (f"the executions take {distinct} distinct values: a continuous law needs {FEWEST_DISTINCT} at least",)
    return ()


def series_tests(times: Times) -> tuple[Outcome, ...]:
    """Test all executions for independence, one level, one distribution, and no period of the slowest."""
    slowest = np.argsort(-times, kind="stable")[: max(30, times.size // PERIODIC_SHARE)]
    # One execution of a thousand times the rest would hide any dependence from the first test; it is one of the ranks.
    ranks = _named(hypotheses.ljung_box(stats.rankdata(times)), "of the ranks")
    return (
        hypotheses.ljung_box(times),
        ranks,
        hypotheses.runs(times),
        hypotheses.kpss(times),
        hypotheses.halves(times),
        hypotheses.periodicity(np.sort(slowest), times.size),
    )


def _blocks(times: Times, rules: Rules) -> list[_Candidate]:
    """Return maxima of 50, 100, 200, ... blocks of equal length (except for one execution), none left over."""
    return [_block_maxima(times, count) for count in _counts(times.size // SHORTEST_BLOCK, rules)]


def _counts(most: int, rules: Rules) -> list[int]:
    counts = rules.fewest_extremes * 2 ** np.arange(16)
    return [int(count) for count in counts if count <= min(most, max(MOST_EXTREMES, rules.fewest_extremes))]


def _block_maxima(times: Times, count: int) -> _Candidate:
    starts = np.arange(count) * times.size // count
    maxima = np.maximum.reduceat(times, starts).astype(np.float64)
    words = f"{count} blocks of {times.size // count} executions"
    return _Candidate(ExtremeValue, maxima, starts, 0.0, count / times.size, words)


def _peaks(times: Times, rules: Rules, step: float) -> list[_Candidate]:
    """Return the slowest 50, 100, 200, ... executions; the threshold is half a step of the clock below the fastest."""
    ordered = np.sort(times)[::-1]
    asked = _counts(times.size // HIGHEST_SHARE, rules)
    found = [_exceedances(times, int(ordered[count - 1]), step) for count in asked]
    return [one for one, count in zip(found, asked, strict=True) if one.values.size <= TIES_ALLOWED * count]


def _exceedances(times: Times, lowest: int, step: float) -> _Candidate:
    places = np.flatnonzero(times >= lowest)
    threshold = lowest - step / 2
    words = f"{places.size} executions over {threshold:.10g} ns"
    values = times[places].astype(np.float64)
    return _Candidate(Pareto, values, places, threshold, places.size / times.size, words)


def _judge(
    times: Times, candidates: list[_Candidate], common: tuple[Outcome, ...], rules: Rules, step: float, seed: int
) -> Pwcet | NotApplicable:
    """Take the largest choice of extremes such that it and all smaller ones fit; then make all other tests."""
    if not candidates:
        return NotApplicable(_no_candidate(times, rules), common)
    few = _indistinct(candidates[0], step)
    if few:
        return NotApplicable((*_against(common, rules), few), common)
    (candidate, fitted, fits), tried = _select(candidates, rules, step, seed)
    tests = (*common, *_extremes_tests(times, candidate), *fits)
    reasons = [*_against(tests, rules), *_unfit(fitted)]
    if reasons:
        return NotApplicable(tuple(reasons), tests)
    check = by_l_moments(fitted)
    apart = _disagreement(times.size, candidate, fitted, check, rules)
    if apart:
        return NotApplicable((apart,), tests)
    selection = f"{candidate.words}: of {tried} tried, from the most extreme on, the last that fits"
    return Pwcet(
        fitted.law, check, times.size, candidate.values.size, candidate.rate, selection, rules.extrapolation,
        _curve(times.size, candidate, fitted, rules), tests, int(times.max()),
    )  # fmt: skip


def _no_candidate(times: Times, rules: Rules) -> tuple[str, ...]:
    needed = rules.fewest_extremes * SHORTEST_BLOCK
    if times.size < needed:
        return (f"{times.size} executions: {rules.fewest_extremes} blocks of {SHORTEST_BLOCK} need {needed}",)
    return ("the executions share so few values that no threshold parts the slowest tenth from the rest",)


def _indistinct(candidate: _Candidate, step: float) -> str:
    """Return the reason against extremes of too few distinct values; empty if there are enough."""
    distinct = np.unique(candidate.values).size
    if distinct >= FEWEST_DISTINCT:
        return ""
    permitted = int(np.ptp(candidate.values) / step) + 1
    return (
        f"the extremes of {candidate.words} take {distinct} distinct values, where a continuous law needs "
        f"{FEWEST_DISTINCT}: the clock's step of {step:.4g} ns permits {permitted} in their range"
    )


def _select(candidates: list[_Candidate], rules: Rules, step: float, seed: int) -> tuple[_Judged, int]:
    """Return the last candidate before the first that does not fit, or the first; and how many were tried."""
    chosen: _Judged | None = None
    for tried, candidate in enumerate(candidates, 1):
        fitted = fit(candidate.law, candidate.values, candidate.threshold)
        tests = goodness(fitted, step_ns=step, replicates=rules.replicates, seed=seed + tried)
        if chosen and _against(tests, rules):
            return chosen, tried
        chosen = candidate, fitted, tests
        if _against(tests, rules):
            return chosen, tried
    assert chosen is not None  # noqa: S101 - there is a candidate
    return chosen, len(candidates)


def _extremes_tests(times: Times, candidate: _Candidate) -> tuple[Outcome, ...]:
    """Test independence and evenness of the extremes."""
    series = _named(hypotheses.ljung_box(candidate.values), "of the extremes")
    if candidate.law is ExtremeValue:
        return (series, _named(hypotheses.kpss(candidate.values), "of the extremes"))
    clusters = _named(hypotheses.runs(times, candidate.threshold), "about the threshold")
    return (series, clusters, hypotheses.evenly_spread(candidate.places, times.size))


def _named(outcome: Outcome, words: str) -> Outcome:
    return replace(outcome, test=f"{outcome.test}, {words},")


def _against(tests: tuple[Outcome, ...], rules: Rules) -> list[str]:
    """Return a sentence for each test that rejects its hypothesis."""
    return [_sentence(test, rules.significance) for test in tests if test.p_value < rules.significance]


def _sentence(test: Outcome, significance: float) -> str:
    detail = f" ({test.detail})" if test.detail else ""
    return (
        f"{test.test} rejects '{test.hypothesis}': statistic {test.statistic:.4g}, "
        f"{p_text(test.p_value)}, below {significance:g}{detail}"
    )


def _unfit(fitted: Fit) -> list[str]:
    low, high = SHAPES
    if not low < fitted.law.shape < high:
        why = "below, the likelihood's intervals do not hold; above, the law has no variance"
        return [f"the shape {fitted.law.shape:.3f} lies outside {low:g} to {high:g}: {why}"]
    if not fitted.settled:
        return ["the maximum of the likelihood was not found: the law has none for these extremes"]
    return []


def _disagreement(executions: int, candidate: _Candidate, fitted: Fit, check: Law, rules: Rules) -> str:
    """Return the reason if the L-moments' time of one execution in n is far from the likelihood's; else empty."""
    variate = np.atleast_1d(_variate(candidate.law, candidate.rate, 1 / executions))
    interval = level_intervals(fitted, variate, 1 - rules.significance, "")[0]
    other = float(check.time(variate)[0])
    if other in interval:
        return ""
    return (
        f"maximum likelihood and L-moments disagree: one execution of {executions} exceeds {interval.low:.0f} to "
        f"{interval.high:.0f} ns ({interval.confidence:g}) by the first, {other:.0f} ns by the second"
    )


def _curve(executions: int, candidate: _Candidate, fitted: Fit, rules: Rules) -> tuple[Point, ...]:
    """Return the curve at the rules' probabilities that lie in the tail."""
    tail = [p for p in sorted(rules.exceedances, reverse=True) if p < candidate.rate]
    variates = np.array([float(_variate(candidate.law, candidate.rate, p)) for p in tail])
    assumes = f"executions like those measured, independent, whose extremes follow the {candidate.law.name}"
    intervals = level_intervals(fitted, variates, rules.confidence, assumes)
    farthest = rules.extrapolation * (1 + 1e-9)
    reaches = [1 / (p * executions) for p in tail]
    return tuple(
        Point(p, float(time), interval, reach, reach > farthest)
        for p, time, interval, reach in zip(tail, fitted.law.time(variates), intervals, reaches, strict=True)
    )


def _variate(law: type[Law], rate: float, exceedance: float) -> Floats:
    """Return the standard variate of the time that one execution exceeds with this probability.

    Excesses: P(more than x) = rate exp(-r).  Maxima of b = 1 / rate executions: P(more than x) = 1 - exp(-exp(-r) / b).
    """
    if not 0 < exceedance < rate:
        raise ValueError(f"probability {exceedance}: the tail begins below {rate:g}")
    if law is Pareto:
        return np.asarray(math.log(rate / exceedance))
    return np.asarray(-math.log(-math.log1p(-exceedance) / rate))

"""Comparison of two series: shifts of median and tail, their significance and relevance.

All executions of a side belong to its series: what was measured twice is put together, and no better retry replaces
a worse one, for a maximum is not made smaller by measuring again.

A shift matters from the gate on, max(floor, 3 x noise): the noise is how far the same number moves when nothing has
changed, between the base and earlier series if these are three or more, else between ten parts of the base: such a
gate contains no noise between runs.  A gate of more than 20 % of
the base hides regressions: a shift within it is inconclusive, never unchanged.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from harness.analysis.timing.sample import INDEPENDENT, Interval, NotGiven, Times, as_times, check_confidence, p_text
from harness.analysis.timing.summary import executions_needed, order_statistic, percentile, quantile_interval

NOISE_FACTOR = 3.0
FLOOR = 0.01
WIDEST_GATE = 0.2  # of the base; a wider gate judges nothing but a shift beyond it
PARTS = 10
FEWEST_BASES = 3  # with which a gate contains the noise between runs
NOISE_QUANTILE = 0.9
FEWEST = PARTS * 2
TOO_NOISY = "base too noisy"
TAILS = (0.9999, 0.999, 0.99, 0.9)

Statistic: TypeAlias = Callable[[Times], float]


class Verdict(enum.Enum):
    """Verdict on a shift."""

    UNCHANGED = "unchanged"
    SLOWER = "slower"
    FASTER = "faster"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Shift:
    """Shift of one number of the series; positive is slower.

    `interval` is of the shift.  `gate_ns` is the smallest shift that matters, `noise_ns` the part of it that was seen.
    """

    of: str
    base_ns: float
    new_ns: float
    shift_ns: float
    interval: Interval | NotGiven
    p_value: float
    gate_ns: float
    noise_ns: float
    verdict: Verdict
    reason: str

    @property
    def too_noisy(self) -> bool:
        """Return whether the base varies too much to judge this shift."""
        return self.verdict is Verdict.INCONCLUSIVE and _too_wide(self.gate_ns, self.base_ns)


@dataclass(frozen=True)
class Comparison:
    """The verdict on a new series against a base, with its evidence.

    `shifts` are of the median (Hodges and Lehmann), of the highest quantile that both series give, and of the
    maximum.  `delta` is Cliff's: P(new slower) - P(new faster) for one execution of each, with its interval.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    shifts: tuple[Shift, ...]
    delta: float
    delta_interval: Interval


def compare(
    base: npt.ArrayLike,
    new: npt.ArrayLike,
    *,
    history: Sequence[npt.ArrayLike] = (),
    floor: float = FLOOR,
    confidence: float = 0.95,
    significance: float = 0.01,
) -> Comparison | NotGiven:
    """Compare execution times in integer nanoseconds, int (n,) and int (m,), each in the order of measurement.

    `history` are earlier series of the same thing, for the noise; `floor` is a share of the base's own number.  Not
    given for fewer than 20 executions on a side.  ValueError for an invalid series of times.
    """
    one, two = as_times(base), as_times(new)
    earlier = [as_times(series) for series in history]
    check_confidence(confidence)
    if min(one.size, two.size) < FEWEST:
        return NotGiven(f"{one.size} and {two.size} executions cannot be compared", FEWEST)
    rules = _Rules(earlier, floor, confidence, significance)
    shifts = (_median(one, two, rules), _tail(one, two, rules), _maximum(one, two, rules))
    verdict, reasons = _overall(shifts)
    return Comparison(verdict, reasons, shifts, *cliffs_delta(one, two, confidence))


@dataclass(frozen=True)
class _Rules:
    history: Sequence[Times]
    floor: float
    confidence: float
    significance: float

    def noise(self, base: Times, statistic: Statistic) -> float:
        return noise(base, statistic, self.history)

    def gate(self, base_ns: float, noise_ns: float) -> float:
        return max(self.floor * base_ns, NOISE_FACTOR * noise_ns)


def noise(base: Times, statistic: Statistic, history: Sequence[Times] = ()) -> float:
    """Return the noise of the statistic, ns: the p90 of its distances from its median.

    Among the base and the earlier series, if there are FEWEST_BASES in all; else among ten parts of the base, which say
    nothing of the noise between runs: see `limits` of harness.runs.measurement.statistics.
    """
    runs: Sequence[Times] = [*history, base]
    parts = runs if len(runs) >= FEWEST_BASES else np.array_split(base, PARTS)
    found = np.array([statistic(part) for part in parts])
    return float(np.quantile(np.abs(found - np.median(found)), NOISE_QUANTILE, method="higher"))


def _median(base: Times, new: Times, rules: _Rules) -> Shift:
    shift, interval = hodges_lehmann(base, new, rules.confidence)
    p_value = float(stats.mannwhitneyu(new, base, method="asymptotic").pvalue) if _varies(base, new) else 1.0
    noise_ns = rules.noise(base, _middle)
    gate = rules.gate(_middle(base), noise_ns)
    verdict, reason = _judge(_middle(base), shift, interval, p_value, gate, rules.significance)
    return Shift("median", _middle(base), _middle(new), shift, interval, p_value, gate, noise_ns, verdict, reason)


def _middle(times: Times) -> float:
    return float(order_statistic(np.sort(times), 0.5))


def _varies(base: Times, new: Times) -> bool:
    return int(max(base.max(), new.max())) > int(min(base.min(), new.min()))


def hodges_lehmann(base: Times, new: Times, confidence: float) -> tuple[float, Interval]:
    """Return the median of all differences new - base, and its interval (Hodges and Lehmann 1963; Lehmann 1975).

    Exact, without writing the n m differences down: integers are found by how many differences lie at or below.
    """
    one, two = np.sort(base), np.sort(new)
    pairs = one.size * two.size
    spread = math.sqrt(pairs * (one.size + two.size + 1) / 12)
    rank = max(1, math.floor(pairs / 2 - float(stats.norm.ppf((1 + confidence) / 2)) * spread))
    low, lower, upper, high = (
        _difference(one, two, r) for r in (rank, (pairs + 1) // 2, pairs // 2 + 1, pairs + 1 - rank)
    )
    return (lower + upper) / 2, Interval(low, high, confidence, f"{INDEPENDENT} but for a shift")


def _difference(one: Times, two: Times, rank: int) -> int:
    """Return the `rank`-th smallest (from 1) of all differences of `two` and `one`, both ascending."""
    low, high = int(two[0] - one[-1]), int(two[-1] - one[0])
    while low < high:
        middle = (low + high) // 2
        if int(np.searchsorted(two, one + middle, side="right").sum()) >= rank:
            high = middle
        else:
            low = middle + 1
    return low


def cliffs_delta(base: Times, new: Times, confidence: float) -> tuple[float, Interval]:
    """Return Cliff's delta (1993), from -1 (all of new faster) to 1 (all slower), and its interval."""
    one, two = np.sort(base), np.sort(new)
    n, m = one.size, two.size
    dominances = _dominance(one, new)
    delta = int(dominances.sum()) / (n * m)
    of_new, of_base = dominances / n, -_dominance(two, base) / m
    sums = float(((of_new - delta) ** 2).sum()) * n**2 + float(((of_base - delta) ** 2).sum()) * m**2
    # The variance of the dominances of all pairs: each is -1, 0 or 1, so its square says whether it is a tie.
    pairs = n * m * (1 - delta**2) - _ties(one, new)
    variance = max((sums - pairs) / (n * m * (n - 1) * (m - 1)), (1 - delta**2) / (n * m - 1))
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * math.sqrt(variance)
    return delta, Interval(max(-1.0, delta - reach), min(1.0, delta + reach), confidence, INDEPENDENT)


def _dominance(ordered: Times, values: Times) -> npt.NDArray[np.int64]:
    """Return for each value the number of elements of `ordered` below it, minus the number above it."""
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray(below - (ordered.size - np.searchsorted(ordered, values, side="right")), np.int64)


def _ties(ordered: Times, values: Times) -> int:
    return int((np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")).sum())


def _tail(base: Times, new: Times, rules: _Rules) -> Shift:
    """Return the shift of the highest quantile for which both series give an interval."""
    each = (1 + rules.confidence) / 2
    one, two = np.sort(base), np.sort(new)
    given = [p for p in TAILS if min(one.size, two.size) >= executions_needed(p, each)]
    if not given:
        return _no_tail(one, two, executions_needed(TAILS[-1], each))
    probability = given[0]
    interval = _difference_interval(
        quantile_interval(one, probability, each), quantile_interval(two, probability, each), rules.confidence
    )
    base_ns, new_ns = order_statistic(one, probability), order_statistic(two, probability)
    noise_ns = rules.noise(base, lambda times: float(order_statistic(np.sort(times), probability)))
    gate, shift = rules.gate(base_ns, noise_ns), float(new_ns - base_ns)
    p_value = tail_test(base, new, probability)
    verdict, reason = _judge(base_ns, shift, interval, p_value, gate, rules.significance)
    return Shift(percentile(probability), base_ns, new_ns, shift, interval, p_value, gate, noise_ns, verdict, reason)


def _no_tail(one: Times, two: Times, needed: int) -> Shift:
    lacking = NotGiven(f"{min(one.size, two.size)} executions give no interval for p90", needed)
    base_ns, new_ns = (order_statistic(times, TAILS[-1]) for times in (one, two))
    reason = f"{lacking.reason}: {needed} are needed"
    return Shift(
        percentile(TAILS[-1]), base_ns, new_ns, new_ns - base_ns, lacking, 1.0, 0.0, 0.0, Verdict.INCONCLUSIVE, reason
    )


def _difference_interval(one: Interval | NotGiven, two: Interval | NotGiven, confidence: float) -> Interval | NotGiven:
    """Return the interval of a difference, from intervals that miss with half the error each (Bonferroni)."""
    if isinstance(one, NotGiven):
        return one
    if isinstance(two, NotGiven):
        return two
    return Interval(two.low - one.high, two.high - one.low, confidence, INDEPENDENT)


def tail_test(base: Times, new: Times, probability: float) -> float:
    """Test how many executions of each side exceed the quantile of both together (Fisher's exact test).

    The median test of Mood (1950), at another quantile: a permutation test, exact for any distribution.
    """
    pooled = np.sort(np.concatenate([base, new]))
    level = np.quantile(pooled, probability, method="higher")
    above = int(np.count_nonzero(new > level)), int(np.count_nonzero(base > level))
    table = [[above[0], new.size - above[0]], [above[1], base.size - above[1]]]
    return float(stats.fisher_exact(table).pvalue)


def beyond_maximum(base: Times, new: Times) -> tuple[int, float]:
    """Return the number of `new` that exceed the maximum of `base`, and P(this number or more) (Rosenbaum 1954).

    If all executions were of one distribution, each choice of which were `new` would be as likely.
    """
    found = int(np.count_nonzero(new > base.max()))
    ranks = np.arange(found)
    return found, float(np.exp(np.sum(np.log((new.size - ranks) / (new.size + base.size - ranks)))))


def _maximum(base: Times, new: Times, rules: _Rules) -> Shift:
    """Return the shift of the maximum: slower if significantly many executions exceed the base's maximum.

    A maximum has no interval, so it is never `faster`: a rare execution may be yet to come.  A single execution far
    beyond the base's maximum proves nothing and is not passed over: inconclusive.
    """
    base_ns, new_ns = float(base.max()), float(new.max())
    noise_ns = rules.noise(base, lambda times: float(times.max()))
    gate, shift = rules.gate(base_ns, noise_ns), new_ns - base_ns
    found, p_value = beyond_maximum(base, new)
    counted = f"{found} of {new.size} executions exceed the base's maximum, by {max(shift, 0):,.0f} ns at most"
    reason = f"{counted}: {p_text(p_value)}, {gate_text(gate, base_ns)}"
    verdict = Verdict.INCONCLUSIVE if shift > gate else Verdict.UNCHANGED
    if shift > gate and p_value < rules.significance:
        verdict = Verdict.SLOWER
    elif _too_wide(gate, base_ns):
        verdict, reason = Verdict.INCONCLUSIVE, f"{TOO_NOISY}: {reason}"
    lacking = NotGiven("a maximum has no interval free of a law")
    return Shift("maximum", base_ns, new_ns, shift, lacking, p_value, gate, noise_ns, verdict, reason)


def _judge(
    base_ns: float, shift: float, interval: Interval | NotGiven, p_value: float, gate: float, significance: float
) -> tuple[Verdict, str]:
    """Decide: slower or faster beyond the gate and significant, unchanged if the interval is within a narrow gate."""
    if isinstance(interval, NotGiven):
        return Verdict.INCONCLUSIVE, interval.reason
    ends = f"{interval.low:+,.0f} to {interval.high:+,.0f}"
    seen = f"{shift:+,.0f} ns ({ends}), {p_text(p_value)}, {gate_text(gate, base_ns)}"
    if abs(shift) > gate and p_value < significance:
        return (Verdict.SLOWER if shift > 0 else Verdict.FASTER), seen
    if _too_wide(gate, base_ns):
        return Verdict.INCONCLUSIVE, f"{TOO_NOISY}: {seen}"
    if -gate <= interval.low and interval.high <= gate:
        return Verdict.UNCHANGED, seen
    return Verdict.INCONCLUSIVE, f"{seen}: more executions would tell"


def _too_wide(gate_ns: float, base_ns: float) -> bool:
    return gate_ns > WIDEST_GATE * base_ns


def gate_text(gate_ns: float, base_ns: float) -> str:
    """Describe the gate, with its share of the base."""
    share = f" ({gate_ns / base_ns:,.1%} of the base)" if base_ns else ""
    return f"gate {gate_ns:,.0f} ns{share}"


def _overall(shifts: tuple[Shift, ...]) -> tuple[Verdict, tuple[str, ...]]:
    """Return slower if any shift is; else inconclusive if any is; else faster if any is."""
    verdicts = {shift.verdict for shift in shifts}
    order = (Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.FASTER, Verdict.UNCHANGED)
    verdict = next(one for one in order if one in verdicts)
    return verdict, tuple(f"{shift.of}: {shift.verdict.value}, {shift.reason}" for shift in shifts)

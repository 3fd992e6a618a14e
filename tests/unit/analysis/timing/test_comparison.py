from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analysis.timing import Comparison, Interval, NotGiven, Shift, Verdict, compare
from harness.analysis.timing.comparison import _judge, beyond_maximum, cliffs_delta, hodges_lehmann, noise, tail_test
from harness.analysis.timing.sample import Times
from tests.support.examples import examples
from tests.support.timing import synthetic

SMALL = st.lists(st.integers(0, 60), min_size=2, max_size=25).map(lambda values: np.array(values, np.int64))


def compared(base: Times, new: Times, **options: object) -> Comparison:
    found = compare(base, new, **options)  # type: ignore[arg-type]
    assert isinstance(found, Comparison)
    return found


def shift(found: Comparison, of: str) -> Shift:
    return next(one for one in found.shifts if one.of == of)


def test_nothing_changed() -> None:
    found = compared(synthetic.normal(5000, 1), synthetic.normal(5000, 2))
    assert found.verdict is Verdict.UNCHANGED
    assert [one.of for one in found.shifts] == ["median", "p99.9", "maximum"]
    assert found.delta in found.delta_interval


@pytest.mark.parametrize(("by", "verdict"), [(20_000, Verdict.SLOWER), (-20_000, Verdict.FASTER)])
def test_all_of_it_moved(by: int, verdict: Verdict) -> None:
    found = compared(synthetic.normal(5000, 1), synthetic.normal(5000, 2) + by)
    assert found.verdict is verdict
    median = shift(found, "median")
    assert median.shift_ns == pytest.approx(by, abs=100)
    assert isinstance(median.interval, Interval)
    assert by in median.interval
    assert found.delta == np.sign(by)


def test_a_sure_shift_below_the_gate_is_unchanged() -> None:
    found = compared(synthetic.normal(5000, 1), synthetic.normal(5000, 2) + 1000)
    assert shift(found, "median").p_value < 1e-9
    assert found.verdict is Verdict.UNCHANGED
    assert compared(synthetic.normal(5000, 1), synthetic.normal(5000, 2) + 1000, floor=1e-5).verdict is Verdict.SLOWER


def test_a_slower_tail_alone_is_slower() -> None:
    new = synthetic.normal(5000, 2)
    new[::50] += 30_000
    found = compared(synthetic.normal(5000, 1), new)
    assert shift(found, "median").verdict is Verdict.UNCHANGED
    assert shift(found, "p99.9").verdict is Verdict.SLOWER
    assert shift(found, "maximum").verdict is Verdict.SLOWER
    assert found.verdict is Verdict.SLOWER


def test_a_faster_median_does_not_buy_a_slower_tail() -> None:
    new = synthetic.normal(5000, 2) - 50_000
    new[::50] += 200_000
    found = compared(synthetic.normal(5000, 1), new)
    assert shift(found, "median").verdict is Verdict.FASTER
    assert found.verdict is Verdict.SLOWER


def test_one_far_execution_is_neither_passed_over_nor_proof() -> None:
    new = synthetic.normal(5000, 2)
    new[1234] = 3_000_000
    found = compared(synthetic.normal(5000, 1), new)
    assert shift(found, "maximum").verdict is Verdict.INCONCLUSIVE
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "1 of 5000 executions exceed" in "\n".join(found.reasons)


def test_a_retry_without_the_far_execution_does_not_replace_it() -> None:
    """What is measured again is put to what was measured: the maximum stays."""
    new = synthetic.normal(5000, 2)
    new[1234] = 3_000_000
    again = np.concatenate([new, synthetic.normal(5000, 3)])
    found = compared(synthetic.normal(5000, 1), again)
    assert shift(found, "maximum").new_ns == 3_000_000
    assert found.verdict is Verdict.INCONCLUSIVE


def test_a_lower_maximum_is_never_faster() -> None:
    base = synthetic.normal(5000, 1)
    base[77] = 3_000_000
    assert shift(compared(base, synthetic.normal(5000, 2)), "maximum").verdict is Verdict.INCONCLUSIVE


def test_a_noisy_base_has_a_wide_gate() -> None:
    """A level that wanders by 5 %: half of that is no regression."""
    wander = np.repeat(np.random.default_rng(3).normal(0, 50_000, 10), 500).astype(np.int64)
    base = synthetic.normal(5000, 1) + wander
    found = compared(base, base + 25_000)
    median = shift(found, "median")
    assert median.gate_ns == pytest.approx(3 * median.noise_ns)
    assert median.gate_ns > 100_000
    assert found.verdict is not Verdict.SLOWER


def test_earlier_series_tell_the_noise() -> None:
    earlier = [synthetic.normal(2000, seed) + 1000 * seed for seed in range(10, 20)]
    base = synthetic.normal(2000, 1) + 15_000
    assert noise(base, lambda times: float(np.median(times)), earlier) == pytest.approx(4500, rel=0.15)
    assert noise(base, lambda times: float(np.median(times)), earlier[:1]) < 500
    found = compared(base, base + 10_000, history=earlier, floor=0.001)
    assert shift(found, "median").verdict is Verdict.UNCHANGED


@pytest.mark.parametrize(
    ("low", "high", "p_value", "verdict"),
    [
        (-30, 39, 0.5, Verdict.UNCHANGED),
        (-30, 41, 0.5, Verdict.INCONCLUSIVE),
        (-41, 30, 0.5, Verdict.INCONCLUSIVE),
        (1, 39, 1e-5, Verdict.UNCHANGED),
    ],
)
def test_unchanged_is_an_interval_within_the_gate(low: float, high: float, p_value: float, verdict: Verdict) -> None:
    interval = Interval(low, high, 0.95, "")
    assert _judge(1000, 5, interval, p_value, gate=40, significance=0.01)[0] is verdict


def test_a_large_shift_that_may_be_chance_is_inconclusive() -> None:
    interval = Interval(-10, 100, 0.95, "")
    assert _judge(1000, 50, interval, 0.02, gate=40, significance=0.01)[0] is Verdict.INCONCLUSIVE
    assert _judge(1000, 50, interval, 0.002, gate=40, significance=0.01)[0] is Verdict.SLOWER


def wandering(levels_ns: list[int]) -> Times:
    """Return ten parts of 500 executions, each with a level of its own."""
    noise_ns = np.random.default_rng(4).integers(0, 50, 5000)
    return np.repeat(np.array(levels_ns, np.int64), 500) + noise_ns


NOISY_NS = [3700, 3700, 3700, 3700, 3700, 3700, 3800, 4000, 9000, 40_000]
"""The levels of a base whose gate is about 30 times its median."""


def test_a_base_that_is_too_noisy_hides_no_slowdown() -> None:
    found = compared(wandering(NOISY_NS), wandering([19_600] * 10))
    median = shift(found, "median")
    assert (round(median.base_ns, -2), round(median.new_ns, -2)) == (3700, 19_600)
    assert median.gate_ns > 100_000
    assert (median.verdict, median.too_noisy) == (Verdict.INCONCLUSIVE, True)
    assert median.reason.startswith("base too noisy: +")
    assert "of the base)" in median.reason
    assert found.verdict is Verdict.INCONCLUSIVE


def test_each_statistic_has_its_own_gate() -> None:
    """One execution of the base is far out: its tail is noisy (p99.9 of a tenth is its maximum), its median is not."""
    base = wandering([3700] * 10)
    base[77] = 60_000
    found = compared(base, wandering([3700] * 10))
    assert {one.of: one.verdict for one in found.shifts} == {
        "median": Verdict.UNCHANGED,
        "p99.9": Verdict.INCONCLUSIVE,
        "maximum": Verdict.INCONCLUSIVE,
    }
    assert [one.of for one in found.shifts if one.too_noisy] == ["p99.9", "maximum"]


def test_a_slowdown_beyond_a_wide_gate_is_still_a_regression() -> None:
    found = compared(wandering(NOISY_NS), wandering([400_000] * 10))
    assert shift(found, "median").verdict is Verdict.SLOWER
    assert found.verdict is Verdict.SLOWER


@pytest.mark.parametrize(("gate", "verdict"), [(200, Verdict.UNCHANGED), (201, Verdict.INCONCLUSIVE)])
def test_the_widest_gate_is_a_fifth_of_the_base(gate: float, verdict: Verdict) -> None:
    assert _judge(1000, 5, Interval(-30, 39, 0.95, ""), 0.5, gate, significance=0.01)[0] is verdict


def test_equal_constants_are_unchanged() -> None:
    found = compared(np.full(5000, 7), np.full(5000, 7))
    assert found.verdict is Verdict.UNCHANGED
    assert (found.delta, shift(found, "median").p_value) == (0, 1)


def test_different_constants_differ() -> None:
    assert compared(np.full(500, 700), np.full(500, 770)).verdict is Verdict.SLOWER


@pytest.mark.parametrize(("base", "new"), [(1, 100), (2, 2), (10, 10), (100, 19)])
def test_few_executions_are_not_compared(base: int, new: int) -> None:
    found = compare(np.arange(base), np.arange(new))
    assert isinstance(found, NotGiven)
    assert found.needs == 20


def test_a_short_series_says_what_its_tail_lacks() -> None:
    found = compared(synthetic.normal(30, 1), synthetic.normal(30, 2))
    tail = shift(found, "p90")
    assert tail.verdict is Verdict.INCONCLUSIVE
    assert isinstance(tail.interval, NotGiven)
    assert tail.interval.needs == 42
    assert found.verdict is Verdict.INCONCLUSIVE


def test_the_p_value_is_mann_and_whitneys() -> None:
    one, two = synthetic.normal(300, 1), synthetic.normal(400, 2) + 50
    expected = stats.mannwhitneyu(one, two, method="asymptotic").pvalue
    assert shift(compared(one, two), "median").p_value == pytest.approx(expected)


@given(SMALL, SMALL)
@examples(150)
def test_the_shift_is_the_median_of_all_differences(base: Times, new: Times) -> None:
    found, interval = hodges_lehmann(base, new, 0.95)
    assert found == np.median([y - x for x, y in product(base, new)])
    assert interval.low <= found <= interval.high


@given(SMALL, SMALL)
@examples(150)
def test_cliffs_delta_is_the_dominance_of_all_pairs(base: Times, new: Times) -> None:
    signs = np.sign(new[None] - base[:, None])
    found, interval = cliffs_delta(base, new, 0.95)
    assert found == pytest.approx(signs.mean())
    n, m = signs.shape
    rows, columns = signs.mean(axis=1) - found, signs.mean(axis=0) - found
    total = m**2 * (rows**2).sum() + n**2 * (columns**2).sum() - ((signs - found) ** 2).sum()
    variance = max(total / (n * m * (n - 1) * (m - 1)), (1 - found**2) / (n * m - 1))
    reach = stats.norm.ppf(0.975) * np.sqrt(variance)
    assert interval.low == pytest.approx(max(-1, found - reach))
    assert interval.high == pytest.approx(min(1, found + reach))


def test_the_interval_of_the_shift_covers_it() -> None:
    covered = 0
    for seed in range(200):
        interval = hodges_lehmann(synthetic.gumbel(80, seed), synthetic.gumbel(60, seed + 1000) + 700, 0.95)[1]
        covered += 700 in interval
    assert 0.90 <= covered / 200 <= 0.99


def test_rosenbaums_test_is_the_share_of_all_choices() -> None:
    base, new = np.array([1, 4, 5]), np.array([2, 6, 7, 8])
    found, p_value = beyond_maximum(base, new)
    assert found == 3
    assert p_value == pytest.approx(4 / 7 * 3 / 6 * 2 / 5)
    assert beyond_maximum(new, base) == (0, 1)
    assert beyond_maximum(np.array([1, 5]), np.array([5, 5])) == (0, 1)


def test_rosenbaums_test_is_that_of_permutations() -> None:
    rng = np.random.default_rng(1)
    pooled = np.arange(100)
    at_least = 0
    for _ in range(4000):
        rng.shuffle(pooled)
        at_least += beyond_maximum(pooled[:50], pooled[50:])[0] >= 3
    expected = beyond_maximum(np.arange(50), np.concatenate([np.arange(47), [97, 98, 99]]))[1]
    assert at_least / 4000 == pytest.approx(expected, abs=0.02)


def test_the_tails_test_has_at_most_its_level() -> None:
    found = [tail_test(synthetic.gumbel(500, seed), synthetic.gumbel(500, seed + 500), 0.99) for seed in range(400)]
    assert np.count_nonzero(np.array(found) < 0.05) <= 33


@pytest.mark.slow
def test_unchanged_series_are_seldom_called_slower() -> None:
    verdicts = [
        compared(synthetic.gumbel(1000, seed), synthetic.gumbel(1000, seed + 500), floor=1e-6).verdict
        for seed in range(150)
    ]
    assert verdicts.count(Verdict.SLOWER) <= 5


@given(SMALL, SMALL, st.integers(1, 50), st.integers(0, 1000))
@examples(60)
def test_the_shift_stretches_with_the_times(base: Times, new: Times, scale: int, offset: int) -> None:
    one, two = hodges_lehmann(base, new, 0.9), hodges_lehmann(scale * base + offset, scale * new + offset, 0.9)
    assert two[0] == scale * one[0]
    assert (two[1].low, two[1].high) == (scale * one[1].low, scale * one[1].high)
    assert cliffs_delta(scale * base + offset, scale * new + offset, 0.9) == cliffs_delta(base, new, 0.9)


@given(SMALL, SMALL)
@examples(60)
def test_the_other_way_round_has_the_opposite_sign(base: Times, new: Times) -> None:
    one, two = hodges_lehmann(base, new, 0.95), hodges_lehmann(new, base, 0.95)
    assert one[0] == -two[0]
    assert (one[1].low, one[1].high) == (-two[1].high, -two[1].low)
    assert cliffs_delta(base, new, 0.95)[0] == -cliffs_delta(new, base, 0.95)[0]


def test_no_reason_says_that_a_p_value_is_0() -> None:
    found = compare(np.arange(5000) % 7 + 1000, np.arange(5000) % 7 + 2000)
    assert isinstance(found, Comparison)
    assert "p-value below 1e-15" in found.reasons[0]

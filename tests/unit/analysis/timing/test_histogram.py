from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.timing import empirical_tail, histogram
from harness.analysis.timing.sample import Times
from tests.support.examples import examples
from tests.support.timing import synthetic

SERIES = st.lists(st.integers(0, 10**7), min_size=1, max_size=300).map(lambda values: np.array(values, np.int64))


@given(SERIES, st.integers(1, 200))
@examples(80)
def test_every_execution_is_in_one_bin(times: Times, bins: int) -> None:
    found = histogram(times, bins=bins)
    assert sum(found.counts) == times.size
    assert len(found.edges_ns) == len(found.counts) + 1 <= bins + 1
    assert found.edges_ns[0] < times.min()
    assert times.max() < found.edges_ns[-1]
    assert list(found.counts) == np.histogram(times, found.edges_ns)[0].tolist()
    assert found.counts[-1] >= 1


def test_bins_are_whole_steps_of_the_clock() -> None:
    times = synthetic.normal(20_000, 1) // 32 * 32
    found = histogram(times, bins=100)
    assert math.remainder(found.edges_ns[1] - found.edges_ns[0], 32) == 0
    middle = np.array(found.counts)[len(found.counts) // 3 : len(found.counts) // 2]
    assert middle.min() > 0  # no comb
    assert histogram(times, bins=100, resolution_ns=32.0) == found


def test_an_empty_bin_and_a_single_execution_are_counted() -> None:
    found = histogram(np.array([0] * 100 + [9]), bins=10)
    assert found.counts == (100, 0, 0, 0, 0, 0, 0, 0, 0, 1)


def test_no_bins_are_said() -> None:
    with pytest.raises(ValueError, match="0 bins"):
        histogram([1], bins=0)


@given(SERIES)
@examples(80)
def test_the_tail_is_that_of_the_series(times: Times) -> None:
    found = empirical_tail(times)
    assert found[0].share == 1
    assert found[0].time_ns == times.min()
    assert found[-1].time_ns == times.max()
    assert all(point.share == np.count_nonzero(times >= point.time_ns) / times.size for point in found)
    assert [point.time_ns for point in found] == sorted({point.time_ns for point in found})


def test_a_long_series_is_thinned_but_for_its_slowest() -> None:
    times = np.arange(100_000)
    found = empirical_tail(times, points=200)
    assert len(found) < 260
    assert [point.time_ns for point in found[-50:]] == list(range(99_950, 100_000))
    assert found[-1].share == 1e-5

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.timing import NotGiven
from harness.analysis.timing.sample import Tick, Times, resolution, tick
from tests.support.examples import examples
from tests.support.timing import synthetic


def ticked(hertz: float, seed: int, executions: int = 2000, spread: float = 1000.0) -> Times:
    """Times by a counter of this frequency, cut to whole nanoseconds."""
    ticks = np.random.default_rng(seed).normal(1e6, spread, executions) * hertz / 1e9
    return np.floor(np.round(ticks) * 1e9 / hertz).astype(np.int64)


@pytest.mark.parametrize("hertz", [31.25e6, 100e6, 125e6, 200e6, 1e6])
def test_a_step_of_whole_nanoseconds(hertz: float) -> None:
    found = tick(ticked(hertz, 1, spread=2e4))
    assert isinstance(found, Tick)
    assert found.resolution_ns == 1e9 / hertz


@pytest.mark.parametrize("hertz", [24e6, 26e6, 19.2e6, 54e6, 32.768e3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_step_of_no_whole_number_of_nanoseconds(hertz: float, seed: int) -> None:
    found = tick(ticked(hertz, seed, spread=2e5 if hertz > 1e6 else 1e6))
    assert isinstance(found, Tick)
    assert found.resolution_ns == pytest.approx(1e9 / hertz, rel=1e-3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("spread", [50.0, 1e4, 1e8])
def test_a_fine_clock_has_a_step_of_one(seed: int, spread: float) -> None:
    times = np.random.default_rng(seed).normal(1e9, spread, 60).astype(np.int64)
    assert resolution(times) == 1


def test_few_values_tell_nothing() -> None:
    found = tick(np.array([100, 137, 174] * 50))
    assert isinstance(found, NotGiven)
    assert "3 distinct values" in found.reason
    assert resolution(np.array([100, 137, 174])) == 1


@given(st.integers(1, 5000), st.integers(0, 10**6), st.integers(0, 2**32))
@examples(50)
def test_the_step_scales_with_the_times(scale: int, shift: int, seed: int) -> None:
    times = synthetic.normal(200, seed)
    assert resolution(scale * times + shift) == scale * resolution(times)

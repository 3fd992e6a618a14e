"""Series with known answers: integer nanoseconds around one millisecond, each a function of its seed."""

from __future__ import annotations

import numpy as np

from harness.analysis.timing.sample import Floats, Times

CENTRE_NS, SCALE_NS = 1_000_000, 1_000


def whole(times: Floats) -> Times:
    return np.round(times).astype(np.int64)


def standard(variates: Floats) -> Times:
    return whole(CENTRE_NS + SCALE_NS * variates)


def normal(executions: int, seed: int) -> Times:
    return standard(np.random.default_rng(seed).normal(size=executions))


def gumbel(executions: int, seed: int) -> Times:
    return standard(np.random.default_rng(seed).gumbel(size=executions))


def bimodal(executions: int, seed: int, share: float = 0.3) -> Times:
    """A second mode of `share` of the executions, 20 deviations above."""
    rng = np.random.default_rng(seed)
    return standard(rng.normal(size=executions) + 20 * (rng.random(executions) < share))


def drifting(executions: int, seed: int) -> Times:
    return standard(np.random.default_rng(seed).gumbel(size=executions) + np.linspace(0, 1, executions))


def stepped(executions: int, seed: int) -> Times:
    """Slower by two deviations from 60 % on."""
    return standard(
        np.random.default_rng(seed).normal(size=executions) + 2 * (np.arange(executions) >= 0.6 * executions)
    )


def autoregressive(executions: int, seed: int, coefficient: float = 0.5) -> Times:
    noise = np.random.default_rng(seed).normal(size=executions)
    values = np.empty(executions)
    last = 0.0
    for place, shock in enumerate(noise):
        last = coefficient * last + shock
        values[place] = last
    return standard(values)


def periodic(executions: int, seed: int, period: float = 125) -> Times:
    """Every `period` executions one that is 20 deviations slower."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=executions)
    places = np.arange(37, executions, period).astype(np.int64)
    values[places] += 20 + rng.normal(size=places.size)
    return standard(values)


def warming(executions: int, seed: int, first: int = 100) -> Times:
    """The first executions are slower, the very first by ten deviations."""
    values = np.random.default_rng(seed).normal(size=executions)
    values[:first] += 10 * np.exp(-np.arange(first) / (first / 3))
    return standard(values)

"""The resolution of the clock, seen in the times themselves.

A clock of 31.25 MHz gives multiples of 32 ns; one of 24 MHz multiples of 41.67 ns, cut to 41, 42, 83, 125 ns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.analysis.timing.sample import Floats, NotGiven, Times

FEWEST_DISTINCT = 10  # of fewer distinct values a common divisor may well be chance
FINEST_FRACTION_NS = 8.0  # a finer tick that is no whole number of ns cannot be told from the rounding
ROUNDING_NS = 2.0  # the most by which the difference of two differences of cut times is off


@dataclass(frozen=True)
class Tick:
    """The step between the values that occur: the clock's resolution or a multiple of it."""

    resolution_ns: float
    distinct: int


def tick(times: Times) -> Tick | NotGiven:
    """The largest step of which all differences are multiples, whole ns or (from 8 ns on) a fraction cut to ns.

    Not given for fewer than 10 distinct values: five values have a common divisor by chance in one case of 27.
    """
    distinct = np.unique(times)
    if distinct.size < FEWEST_DISTINCT:
        return NotGiven(f"{distinct.size} distinct values do not tell the clock's resolution", None)
    steps = np.diff(distinct)
    whole = int(np.gcd.reduce(steps))
    fraction = _fraction(np.unique(steps).astype(np.float64)) if whole == 1 else None
    return Tick(fraction or float(whole), distinct.size)


def resolution(times: Times) -> float:
    """The step in ns, 1 where it is not told by the times."""
    found = tick(times)
    return found.resolution_ns if isinstance(found, Tick) else 1.0


def _fraction(steps: Floats) -> float | None:
    """The tick that all steps (ascending) are multiples of but for the rounding; None if there is none."""
    if steps[0] < FINEST_FRACTION_NS:
        return None
    estimate = _refined(steps, float(steps[steps <= steps[0] + 1].mean()))
    off = np.abs(steps - estimate * np.round(steps / estimate))
    # Beyond this many ticks even a false estimate is always near a multiple: such steps say nothing.
    telling = steps < estimate**2 / ROUNDING_NS
    return estimate if off[telling].max() < ROUNDING_NS and np.count_nonzero(telling) > 1 else None


def _refined(steps: Floats, estimate: float) -> float:
    """The estimate improved by ever larger steps, each while its number of ticks is beyond doubt."""
    for largest in estimate * 2.0 ** np.arange(1, 24):
        known = steps[steps <= min(largest, steps[-1])]
        ticks = np.round(known / estimate)
        estimate = float(known @ ticks / (ticks @ ticks))
        if largest > steps[-1]:
            break
    return estimate

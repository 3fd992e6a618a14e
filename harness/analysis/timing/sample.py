"""Series of execution times, intervals, and the resolution of the clock seen in the times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Times: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

LONGEST_NS = 1 << 53  # up to here float64 holds every integer: 104 days


@dataclass(frozen=True)
class Interval:
    """A confidence interval, and the assumptions of its confidence."""

    low: float
    high: float
    confidence: float
    assumes: str

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class NotGiven:
    """A number that this series cannot give: why, and how many executions would (None: no number would)."""

    reason: str
    needs: int | None = None


INDEPENDENT = "the executions are independent and of one distribution"


def as_times(values: npt.ArrayLike) -> Times:
    """Return the series as int64 (n,), in the order of measurement, in nanoseconds.

    Takes what a board program writes (uint64) and any other integers.  ValueError for an empty series, another
    shape, fractions, and times below 0 or beyond 2**53 ns, which no float64 could carry exactly.
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"execution times of shape {array.shape}: one or more in one row are needed")
    if array.dtype.kind not in "iu":
        raise ValueError(f"execution times of type {array.dtype}: they are integer nanoseconds")
    if int(array.min()) < 0 or int(array.max()) > LONGEST_NS:
        raise ValueError(f"execution times from {array.min()} to {array.max()} ns: they lie between 0 and 2**53")
    return array.astype(np.int64)


def p_text(p_value: float) -> str:
    """Format a p-value; one too small for a float is not 0."""
    return f"p-value {p_value:.2g}" if p_value > 1e-15 else "p-value below 1e-15"


def check_confidence(confidence: float) -> float:
    """Return the confidence; ValueError unless it is between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence}: it lies between 0 and 1, both excluded")
    return confidence


FEWEST_DISTINCT = 10  # of fewer distinct values a common divisor may well be chance
FINEST_FRACTION_NS = 8.0  # a finer tick that is not a whole number of ns cannot be distinguished from the rounding
ROUNDING_NS = 2.0  # the most by which the difference of two differences of cut times is off


@dataclass(frozen=True)
class Tick:
    """The step between the values that occur: the clock's resolution or a multiple of it."""

    resolution_ns: float
    distinct: int


def tick(times: Times) -> Tick | NotGiven:
    """Return the largest step of which all differences are multiples, whole ns or (from 8 ns on) a fraction cut to ns.

    A clock of 31.25 MHz gives multiples of 32 ns; one of 24 MHz multiples of 41.67 ns, cut to 41, 42, 83, 125 ns.
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
    """Return the step in ns, 1 if the times do not show it."""
    found = tick(times)
    return found.resolution_ns if isinstance(found, Tick) else 1.0


def _fraction(steps: Floats) -> float | None:
    """Return the tick of which all steps (ascending) are multiples, except for rounding; None without such a tick."""
    if steps[0] < FINEST_FRACTION_NS:
        return None
    estimate = _refined(steps, float(steps[steps <= steps[0] + 1].mean()))
    off = np.abs(steps - estimate * np.round(steps / estimate))
    # Beyond this many ticks even a false estimate is always near a multiple: such steps say nothing.
    telling = steps < estimate**2 / ROUNDING_NS
    return estimate if off[telling].max() < ROUNDING_NS and np.count_nonzero(telling) > 1 else None


def _refined(steps: Floats, estimate: float) -> float:
    """Improve the estimate by ever larger steps, each while its number of ticks is certain."""
    for largest in estimate * 2.0 ** np.arange(1, 24):
        known = steps[steps <= min(largest, steps[-1])]
        ticks = np.round(known / estimate)
        estimate = float(known @ ticks / (ticks @ ticks))
        if largest > steps[-1]:
            break
    return estimate

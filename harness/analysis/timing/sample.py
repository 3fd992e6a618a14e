"""What the statistics of this room are about: a series of execution times, and what can be said of it."""

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
    """A confidence interval, and what must hold for its confidence to be true."""

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
    """The series as int64 (n,), in the order of measurement, in nanoseconds.

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
    """A p-value in words; one too small for a float is not 0."""
    return f"p-value {p_value:.2g}" if p_value > 1e-15 else "p-value below 1e-15"


def check_confidence(confidence: float) -> float:
    """The confidence itself; ValueError unless it lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence}: it lies between 0 and 1, both excluded")
    return confidence

"""What pictures of a distribution are drawn from: bins for a logarithmic count, points of the empirical tail."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.timing.clock import resolution
from harness.analysis.timing.sample import as_times


@dataclass(frozen=True)
class Histogram:
    """`counts[i]` executions from `edges_ns[i]` on and below `edges_ns[i + 1]`; every execution is in one bin.

    A logarithmic axis draws a count as log10(count) and leaves a bin of 0 empty: one execution must stay visible.
    """

    edges_ns: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def heights(self) -> tuple[float | None, ...]:
        """log10 of the counts, None for an empty bin."""
        return tuple(math.log10(count) if count else None for count in self.counts)


@dataclass(frozen=True)
class Exceedance:
    """The share of executions that took `time_ns` or longer."""

    time_ns: int
    share: float


def histogram(values: npt.ArrayLike, *, bins: int = 120, resolution_ns: float | None = None) -> Histogram:
    """At most `bins` bins of one width, a whole number of the clock's steps: else the clock would draw a comb.

    The step is seen in the times unless told.  Edges lie half a step beside the values that occur.
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
    """The empirical complementary distribution, ascending in time: P(an execution takes t or longer).

    At most about `points`, evenly spread on the logarithm of the share, where the tail is looked at; the slowest
    50 executions, the fastest and the slowest are always among them.
    """
    times = np.sort(as_times(values))[::-1]
    ranks = np.unique(np.geomspace(1, times.size, points).round().astype(np.int64))
    ranks = np.union1d(ranks, np.arange(1, min(50, times.size) + 1))
    shown = np.unique(times[ranks - 1])
    counts = times.size - np.searchsorted(times[::-1], shown, side="left")
    return tuple(Exceedance(int(time), int(count) / times.size) for time, count in zip(shown, counts, strict=True))

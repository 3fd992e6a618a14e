"""A measured number over the nights, with its noise band: pure functions of the index's records.

The band is that of harness.analysis.timing.comparison, around the median of all measurements but the last.  Its width
is the larger of 1 % and three times the noise.  With fewer than three earlier measurements there is none.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from harness.analysis.timing import comparison
from harness.core.outcome import Outcome
from harness.runs.history.run_record import Part, Run, State

FEWEST = 3  # earlier measurements needed to estimate the noise
SOUND = {Outcome.MEASURED.value, Outcome.REGRESSED.value}


class NoiseLevel(StrEnum):
    """Position of the last value relative to the noise."""

    WITHIN = "within its noise"
    ABOVE = "above its noise"
    BELOW = "below its noise"
    UNKNOWN = "too few to tell"


@dataclass(frozen=True)
class Band:
    """The range of an unchanged number."""

    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """One number over the measurements, the latest last."""

    values: tuple[float, ...]
    band: Band | None

    @property
    def place(self) -> NoiseLevel:
        """Return the position of the last value."""
        if self.band is None:
            return NoiseLevel.UNKNOWN
        last = self.values[-1]
        return (
            NoiseLevel.ABOVE
            if last > self.band.high
            else NoiseLevel.BELOW
            if last < self.band.low
            else NoiseLevel.WITHIN
        )


@dataclass(frozen=True)
class Trend:
    """Comparable measurements: the same board, model, targets, quantity, scope and load, the latest last.

    `median` is None if events were counted.  `met` holds if all are measured execution times of hardware.
    """

    runs: tuple[Run, ...]
    median: Series | None
    maximum: Series
    jitter: Series

    @property
    def last(self) -> Run:
        """Return the latest measurement."""
        return self.runs[-1]

    @property
    def part(self) -> Part:
        """Return the part of the latest measurement that represents the whole."""
        return self.last.parts[0]

    @property
    def met(self) -> bool:
        """Return whether all values are measured execution times of the board's hardware."""
        return all(run.met for run in self.runs)

    @property
    def moved(self) -> bool:
        """Return whether a number is outside its noise band."""
        lines = [line for line in (self.median, self.maximum, self.jitter) if line]
        return any(line.place in {NoiseLevel.ABOVE, NoiseLevel.BELOW} for line in lines)


def trends(runs: Iterable[Run], most: int) -> tuple[Trend, ...]:
    """Return the trends of all finished measurements with right outputs, at most the latest `most` of each."""
    series: dict[tuple[str, ...], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.started, run.name)):
        if run.state is State.FINISHED and run.parts and (run.verdict in SOUND or _is_compared_in_vain(run)):
            series.setdefault(_key(run), []).append(run)
    return tuple(_trend(tuple(series[key][-most:])) for key in sorted(series))


def _is_compared_in_vain(run: Run) -> bool:
    """Return whether only the base of --against was too noisy; counts of an inexact counter are also inconclusive."""
    return run.verdict == Outcome.INCONCLUSIVE.value and run.unit == "ns"


def _key(run: Run) -> tuple[str, ...]:
    whole = run.parts[0].name if run.scope != "network" else ""
    return run.board, run.kind, run.model, run.targets, run.quantity, run.unit, run.scope, run.load, whole


def _trend(runs: tuple[Run, ...]) -> Trend:
    wholes = [run.parts[0] for run in runs]
    medians = [part.median for part in wholes if part.median is not None]
    return Trend(
        runs,
        line(medians) if len(medians) == len(wholes) else None,
        line([part.maximum for part in wholes]),
        line([part.jitter for part in wholes]),
    )


def line(values: Sequence[float]) -> Series:
    """Return the series with its noise band, if there are enough values."""
    *earlier, _ = values
    if len(earlier) < FEWEST:
        return Series(tuple(values), None)
    middle = statistics.median_low(earlier)
    series = [np.array([value]) for value in earlier]
    noise = comparison.noise(series[-1], lambda one: float(one[0]), series[:-1])
    gate = max(comparison.FLOOR * middle, comparison.NOISE_FACTOR * noise)
    return Series(tuple(values), Band(middle - gate, middle + gate))

"""The box of states a network is for, its normalisation, and the points on which it is trained and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from models.acas.mdp import Floats
    from models.acas.table import Axes, ScoreTable

STATE_NAMES = ("rho", "theta", "psi", "v_own", "v_int")
STATE_UNITS = ("ft", "rad", "rad", "ft/s", "ft/s")
SPEEDS = slice(3, 5)


@dataclass(frozen=True)
class Scaling:
    """Affine normalisation: normalised = (physical - mean) / range, element-wise."""

    mean: Floats
    range: Floats

    def normalise(self, physical: Floats) -> Floats:
        """The normalised values, same shape."""
        return (physical - self.mean) / self.range


def box(axes: Axes) -> tuple[Floats, Floats]:
    """The least and the greatest state (rho ft, theta, psi rad, own and intruder speed ft/s) of the table."""
    return np.array([cuts[0] for cuts in axes.cuts]), np.array([cuts[-1] for cuts in axes.cuts])


def state_scaling(axes: Axes) -> Scaling:
    """The scaling that takes the box into [-0.5, 0.5], so that one quantiser serves all inputs.

    Both speeds have the scaling of the wider span, so that equal speeds are equal inputs.
    """
    low, high = box(axes)
    low[SPEEDS], high[SPEEDS] = low[SPEEDS].min(), high[SPEEDS].max()
    return Scaling((low + high) / 2, high - low)


@dataclass(frozen=True)
class Samples:
    """Normalised states (n, 5), their normalised scores (n, 5) and best advisories (n,) by the table."""

    states: Floats
    scores: Floats
    advisories: np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Subject:
    """A table with the scaling of its scores: by its own mean and spread (greatest less least score)."""

    table: ScoreTable
    score_scaling: Scaling

    @staticmethod
    def of(table: ScoreTable) -> Subject:
        """The table with its scaling, for which all of it is read."""
        scores = table.scores
        return Subject(table, Scaling(np.array(scores.mean(dtype=np.float64)), np.array(np.ptp(scores), np.float64)))

    def grid_samples(self, count: int, seed: int) -> Samples:
        """`count` grid points, drawn with replacement."""
        chosen = np.random.default_rng(seed).integers(self.table.axes.points, size=count)
        return self._samples(*self.table.grid_points(chosen))

    def uniform_samples(self, count: int, seed: int) -> Samples:
        """`count` points drawn uniformly from the box, with scores interpolated in the table."""
        low, high = box(self.table.axes)
        states = np.random.default_rng(seed).uniform(low, high, (count, len(STATE_NAMES)))
        return self._samples(states, self.table.at(states))

    def _samples(self, states: Floats, scores: Floats) -> Samples:
        normalised = state_scaling(self.table.axes).normalise(states)
        return Samples(normalised, self.score_scaling.normalise(scores), scores.argmax(axis=1))

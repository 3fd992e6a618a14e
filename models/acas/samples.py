"""The box of states a network is for, its normalisation, and the points on which it is trained and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from models.acas.mdp import Floats, Grid
    from models.acas.table import ScoreTable

STATE_NAMES = ("rho", "theta", "psi")
STATE_UNITS = ("ft", "rad", "rad")


@dataclass(frozen=True)
class Scaling:
    """Affine normalisation: normalised = (physical - mean) / range, element-wise."""

    mean: Floats
    range: Floats

    def normalise(self, physical: Floats) -> Floats:
        """The normalised values, same shape."""
        return (physical - self.mean) / self.range


def box(grid: Grid) -> tuple[Floats, Floats]:
    """The least and the greatest state (rho ft, theta rad, psi rad) of the grid."""
    low = np.array([grid.rho_ft[0], grid.theta_rad[0], grid.psi_rad[0]])
    high = np.array([grid.rho_ft[-1], grid.theta_rad[-1], grid.psi_rad[-1]])
    return low, high


def state_scaling(grid: Grid) -> Scaling:
    """The scaling that takes the box to [-0.5, 0.5] on every axis, so that one quantiser serves all inputs."""
    low, high = box(grid)
    return Scaling((low + high) / 2, high - low)


def score_scaling(table: ScoreTable) -> Scaling:
    """The scaling of the scores of one table by its own mean and spread (greatest less least score)."""
    return Scaling(np.array(table.scores.mean()), np.array(np.ptp(table.scores)))


@dataclass(frozen=True)
class Samples:
    """Normalised states (n, 3), their normalised scores (n, 5) and best advisories (n,) by the table."""

    states: Floats
    scores: Floats
    advisories: np.ndarray[tuple[int], np.dtype[np.int64]]


def _samples(table: ScoreTable, states: Floats, scores: Floats) -> Samples:
    normalised = state_scaling(table.grid).normalise(states)
    return Samples(normalised, score_scaling(table).normalise(scores), scores.argmax(axis=1))


def grid_samples(table: ScoreTable) -> Samples:
    """Every grid point of the table."""
    return _samples(table, *table.grid_points())


def uniform_samples(table: ScoreTable, count: int, seed: int) -> Samples:
    """`count` points drawn uniformly from the box, with scores interpolated in the table."""
    low, high = box(table.grid)
    states = np.random.default_rng(seed).uniform(low, high, (count, len(STATE_NAMES)))
    return _samples(table, states, table.at(states))

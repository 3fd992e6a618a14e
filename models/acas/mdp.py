"""The horizontal collision-avoidance problem as a Markov decision process.

Own aircraft sits at the origin and flies along +x; the intruder is at (rho cos theta, rho sin theta) with heading psi.
The process is the one of Julian and Kochenderfer, "Guaranteeing safety for neural network-based aircraft collision
avoidance systems", DASC 2019.  Both speeds are constant during an encounter, so every pair of speeds is a process of
its own over the three axes (rho, theta, psi); a table with speed axes is one solution per pair.

Arrays over states have the shape (psi, rho, theta): heading first, because the heading's transition does not depend on
the position (see `Transition`).  Angles are radians, left positive; ranges feet; speeds feet per second; turn rates
degrees per second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Weighted = tuple[Indices, Floats]
"""Indices into the first axis of an array, and the weights that go with them."""

ADVISORIES = ("COC", "WL", "WR", "SL", "SR")

STEP_S = 1.0
COLLISION_FT = 500.0

RHO_FT = (
    *(0, 25, 50, 75, 100, 150, 200, 300, 400, 500, 510, 750, 1000, 1500, 2000, 3000, 4000, 5000, 7000, 9000),
    *(11000, 13000, 15000, 17000, 19000, 21000, 25000, 30000, 35000, 40000, 48000, 56000),
)
"""The published cut points."""
ANGLES = 41

WIDE_RHO_FT = (
    *(0, 125, 250, 375, 500, 750, 1000, 1250, 1500, 2000, 2500, 3000, 3500, 4000, 5000, 6000, 7000, 8000, 9000),
    *(10000, 12000, 14000, 16000, 18000, 20000, 22000, 24000, 26000, 28000, 30000, 33000, 36000, 39000, 42000),
    *(45000, 48000, 52000, 56000, 60000),
)
"""Cut points for fast encounters: up to 60,000 ft, and from 500 ft on multiples of 250 ft."""
OWN_SPEEDS_FT_S = tuple(range(100, 1201, 100))
INTRUDER_SPEEDS_FT_S = (*range(0, 1001, 100), 1200)

Turns = dict[float, float]
"""Turn rate in deg/s -> its probability."""

STRAIGHT: Turns = {0.0: 0.34, 1.5: 0.33, -1.5: 0.33}
WEAK: Turns = {1.5: 0.5, 2.0: 0.25, 1.25: 0.25}
STRONG: Turns = {3.0: 0.5, 4.0: 0.25, 2.0: 0.25}


def _rightwards(turns: Turns) -> Turns:
    return {-rate: probability for rate, probability in turns.items()}


OWN_TURNS = (STRAIGHT, WEAK, _rightwards(WEAK), STRONG, _rightwards(STRONG))
"""How the own aircraft turns while it follows an advisory, in the order of `ADVISORIES`."""
INTRUDER_TURNS = STRAIGHT


def _uniform_angles() -> Floats:
    return np.linspace(-math.pi, math.pi, ANGLES)


@dataclass(frozen=True)
class Grid:
    """The cut points: ascending ranges `rho_ft`, and angles `theta_rad`, `psi_rad` that hold both -pi and pi."""

    rho_ft: Floats = field(default_factory=lambda: np.array(RHO_FT, dtype=np.float64))
    theta_rad: Floats = field(default_factory=_uniform_angles)
    psi_rad: Floats = field(default_factory=_uniform_angles)

    @classmethod
    def wide(cls) -> Grid:
        """The grid of the five-input table: 39 ranges, 41 bearings, 41 headings."""
        return cls(rho_ft=np.array(WIDE_RHO_FT, dtype=np.float64))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of cut points as (psi, rho, theta)."""
        return len(self.psi_rad), len(self.rho_ft), len(self.theta_rad)

    def states(self) -> tuple[Floats, Floats, Floats]:
        """Psi, rho and theta of every state, each of shape `shape`."""
        psi, rho, theta = np.meshgrid(self.psi_rad, self.rho_ft, self.theta_rad, indexing="ij")
        return psi, rho, theta


@dataclass(frozen=True)
class Speeds:
    """The constant speeds of one encounter, ft/s."""

    own_ft_s: float = 200.0
    intruder_ft_s: float = 200.0


def wrapped(angle_rad: Floats) -> Floats:
    """The angles less one full turn where they leave [-pi, pi]; for angles within one turn of it."""
    turn = 2 * math.pi
    return np.where(angle_rad > math.pi, angle_rad - turn, np.where(angle_rad < -math.pi, angle_rad + turn, angle_rad))


def bracket(points: Floats, cuts: Floats) -> tuple[Indices, Floats]:
    """Linear interpolation on `cuts`, clamped to its ends.

    Returns, for `points` of any shape, the index of the cut point below (int) and the weight of the one above (0..1),
    both of the shape of `points`.
    """
    inside = np.clip(points, cuts[0], cuts[-1])
    below = np.clip(np.searchsorted(cuts, inside, side="right") - 1, 0, len(cuts) - 2)
    return below, (inside - cuts[below]) / (cuts[below + 1] - cuts[below])


@dataclass(frozen=True)
class Transition:
    """One second of an encounter in which the own aircraft turns at one rate, as interpolation on the grid.

    The heading moves by turn rates alone, so its part is the same at every position: `headings` (psi, psi) holds the
    weight of every later psi (column) after every psi (row).  The position moves along straight lines; its part is
    bilinear: `corners` are four pairs of (index into the flattened state arrays, weight), both (states,).
    """

    headings: Floats
    corners: tuple[Weighted, ...]

    def expected(self, values: Floats) -> Floats:
        """The mean of `values` (psi, rho, theta) one second later, same shape."""
        headed = (self.headings @ values.reshape(len(values), -1)).ravel()
        total = np.zeros_like(headed)
        for index, weight in self.corners:
            part = headed.take(index, mode="clip")  # the quickest mode; no index is out of range
            part *= weight
            total += part
        return total.reshape(values.shape)


def transition(grid: Grid, speeds: Speeds, own_turn_rad: float) -> Transition:
    """The transition of one second with the own aircraft turning by `own_turn_rad` after the straight move."""
    psi, rho, theta = grid.states()
    ahead = rho * np.cos(theta) + (speeds.intruder_ft_s * np.cos(psi) - speeds.own_ft_s) * STEP_S
    left = rho * np.sin(theta) + speeds.intruder_ft_s * np.sin(psi) * STEP_S
    later_theta = wrapped(np.arctan2(left, ahead) - own_turn_rad)
    corners = _bilinear(grid, np.hypot(ahead, left), later_theta)
    return Transition(_later_headings(grid.psi_rad, own_turn_rad), corners)


def _later_headings(psi_rad: Floats, own_turn_rad: float) -> Floats:
    weights = np.zeros((len(psi_rad), len(psi_rad)))
    rows = np.arange(len(psi_rad))
    for rate_deg_s, probability in INTRUDER_TURNS.items():
        later = wrapped(psi_rad + math.radians(rate_deg_s) * STEP_S - own_turn_rad)
        below, above_weight = bracket(later, psi_rad)
        weights[rows, below] += probability * (1 - above_weight)
        weights[rows, below + 1] += probability * above_weight
    return weights


def _bilinear(grid: Grid, rho_ft: Floats, theta_rad: Floats) -> tuple[Weighted, ...]:
    """The corners of a `Transition` to the positions given for every state, at unchanged psi."""
    psis, rhos, thetas = grid.shape
    rho_below, far = bracket(rho_ft, grid.rho_ft)
    theta_below, high = bracket(theta_rad, grid.theta_rad)
    same_psi = np.arange(psis)[:, None, None] * rhos * thetas
    origin = same_psi + rho_below * thetas + theta_below
    corners = (
        (origin, (1 - far) * (1 - high)),
        (origin + 1, (1 - far) * high),
        (origin + thetas, far * (1 - high)),
        (origin + thetas + 1, far * high),
    )
    return tuple((index.ravel(), weight.ravel()) for index, weight in corners)


def closest_approach(grid: Grid, speeds: Speeds) -> tuple[Floats, Floats]:
    """Distance (ft) and time (s) of the closest point of approach in straight flight, each (psi, rho, theta).

    Where the aircraft do not close, that point is now: time 0 at distance rho.
    """
    psi, rho, theta = grid.states()
    ahead, left = rho * np.cos(theta), rho * np.sin(theta)
    ahead_rate = speeds.intruder_ft_s * np.cos(psi) - speeds.own_ft_s
    left_rate = speeds.intruder_ft_s * np.sin(psi)
    rate_squared = ahead_rate**2 + left_rate**2
    time_s = np.maximum(-(ahead * ahead_rate + left * left_rate) / np.maximum(rate_squared, 1e-12), 0.0)
    return np.hypot(ahead + ahead_rate * time_s, left + left_rate * time_s), time_s


def collision_reward(grid: Grid) -> Floats:
    """The reward of being close at the same altitude, (psi, rho, theta): -1 within 500 ft, then decaying."""
    _, rho, _ = grid.states()
    return -np.exp(-np.maximum(rho - COLLISION_FT, 0.0) / COLLISION_FT)


def advisory_reward(grid: Grid, speeds: Speeds, previous: int) -> Floats:
    """The reward of each advisory after the advisory `previous`, (advisory, psi, rho, theta).

    Alerts cost by strength and by change of mind; clear-of-conflict costs by how near straight flight leads.
    """
    distance_ft, time_s = closest_approach(grid, speeds)
    rewards = np.empty((len(ADVISORIES), *grid.shape))
    rewards[0] = -1e-2 * np.exp(-distance_ft / COLLISION_FT) * np.exp(-time_s / 10) / _relief(previous)
    for advisory in range(1, len(ADVISORIES)):
        rewards[advisory] = _alert_reward(advisory, previous)
    return rewards


def _relief(previous: int) -> float:
    return 1.0 if previous == 0 else 0.1


def _alert_reward(advisory: int, previous: int) -> float:
    """The reward of an alert.  Left advisories have odd indices, right ones even; the strong ones come last."""
    reward = -5e-4 * _relief(previous)
    if advisory > 2:
        reward -= 2e-3 * _relief(previous)
    if previous != 0 and advisory % 2 != previous % 2:
        return reward - 5e-2
    if advisory > previous:
        return reward - 1e-3
    return reward - 2e-4 if advisory < previous else reward

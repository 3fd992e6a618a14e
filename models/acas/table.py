"""Value iteration over the process of `mdp`, and the score table that a network learns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from models.acas import mdp
from models.acas.mdp import Floats, Grid, Speeds, Transition

WARM_UP_SWEEPS = 99

PUBLISHED_TAUS = 61
PUBLISHED_MEAN = -0.242819
PUBLISHED_RANGE = 17.479225
"""Mean and range of all scores for tau = 0..60 s, in the header of every published HorizontalCAS network."""


@dataclass(frozen=True)
class Problem:
    """The grid and the speeds of one encounter, with transitions and rewards worked out.

    `turns` has, for each previous advisory, (probability, index into `transitions`); the advisories share turn rates.
    `advisory_rewards` is (previous, advisory, psi, rho, theta), `collision_rewards` (psi, rho, theta).
    """

    grid: Grid
    transitions: tuple[Transition, ...]
    turns: tuple[tuple[tuple[float, int], ...], ...]
    advisory_rewards: Floats
    collision_rewards: Floats

    def sweep(self, values: Floats, *, level: bool) -> Floats:
        """One Bellman backup, Q[s, a] = r + E[U[s', a]].

        `values` is U (previous, psi, rho, theta).  With `level` the aircraft share their altitude, and being close
        costs.  Returns Q (previous, advisory, psi, rho, theta).
        """
        later = [np.stack([transition.expected(value) for value in values]) for transition in self.transitions]
        scores = self.advisory_rewards.copy()
        for previous, outcomes in enumerate(self.turns):
            for probability, index in outcomes:
                scores[previous] += probability * later[index]
        return scores + self.collision_rewards if level else scores


def problem(grid: Grid, speeds: Speeds) -> Problem:
    """The problem of one pair of speeds."""
    rates_deg_s = sorted({rate for turns in mdp.OWN_TURNS for rate in turns})
    return Problem(
        grid=grid,
        transitions=tuple(mdp.transition(grid, speeds, math.radians(rate) * mdp.STEP_S) for rate in rates_deg_s),
        turns=tuple(tuple((p, rates_deg_s.index(rate)) for rate, p in turns.items()) for turns in mdp.OWN_TURNS),
        advisory_rewards=np.stack([mdp.advisory_reward(grid, speeds, p) for p in range(len(mdp.ADVISORIES))]),
        collision_rewards=mdp.collision_reward(grid),
    )


def solve(to_solve: Problem) -> Iterator[Floats]:
    """The scores Q (previous, advisory, psi, rho, theta) for tau = 0, 1, 2, ... without end.

    tau is the seconds until the aircraft share their altitude.  At tau = 0 they do, and the `WARM_UP_SWEEPS` earlier
    backups make that the value of an encounter that stays level; each further second is one backup without the cost of
    being close.
    """
    values = np.zeros((len(mdp.ADVISORIES), *to_solve.grid.shape))
    for _ in range(WARM_UP_SWEEPS):
        values = to_solve.sweep(values, level=True).max(axis=1)
    for tau_s in itertools.count():
        scores = to_solve.sweep(values, level=tau_s == 0)
        yield scores
        values = scores.max(axis=1)


def mean_and_range(slices: Iterable[Floats]) -> tuple[float, float]:
    """The mean of all scores, and the greatest less the least, over slices of one shape."""
    figures = np.array([(scores.mean(), scores.min(), scores.max()) for scores in slices])
    return float(figures[:, 0].mean()), float(figures[:, 2].max() - figures[:, 1].min())


@dataclass(frozen=True)
class ScoreTable:
    """The scores after one previous advisory at one tau, (advisory, psi, rho, theta); the advisory is the argmax."""

    scores: Floats
    grid: Grid = field(default_factory=Grid)

    def at(self, states: Floats) -> Floats:
        """Scores (n, advisory) at `states` (n, 3) of rho ft, theta rad, psi rad: multilinear, clamped to the grid."""
        rho, theta, psi = states.T
        brackets = (
            mdp.bracket(psi, self.grid.psi_rad),
            mdp.bracket(rho, self.grid.rho_ft),
            mdp.bracket(theta, self.grid.theta_rad),
        )
        total = np.zeros((len(self.scores), len(states)))
        for above in itertools.product((0, 1), repeat=3):
            weight = np.prod([w if up else 1 - w for up, (_, w) in zip(above, brackets, strict=True)], axis=0)
            psi_index, rho_index, theta_index = (low + up for up, (low, _) in zip(above, brackets, strict=True))
            total += weight * self.scores[:, psi_index, rho_index, theta_index]
        return total.T

    def grid_points(self) -> tuple[Floats, Floats]:
        """All grid points: states (n, 3) of rho ft, theta rad, psi rad, and their scores (n, advisory)."""
        psi, rho, theta = self.grid.states()
        return np.stack([rho, theta, psi], axis=-1).reshape(-1, 3), self.scores.reshape(len(self.scores), -1).T


def solve_one(previous: int, tau_s: int) -> ScoreTable:
    """The table of one previous advisory at one tau, on the default grid and at the default speeds."""
    grid = Grid()
    scores = next(itertools.islice(solve(problem(grid, Speeds())), tau_s, None))
    return ScoreTable(scores[previous], grid)

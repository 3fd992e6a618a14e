"""Value iteration over the process of `mdp`, and the score table that the networks learn."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.acas import mdp
from models.acas.mdp import Floats, Grid, Indices, Speeds, Transition

if TYPE_CHECKING:
    from pathlib import Path

WARM_UP_SWEEPS = 99
STATIONARY_SWEEPS = 200

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
    scores = solve_stationary(to_solve, WARM_UP_SWEEPS + 1)
    while True:
        yield scores
        scores = to_solve.sweep(scores.max(axis=1), level=False)


def solve_stationary(to_solve: Problem, sweeps: int = STATIONARY_SWEEPS) -> Floats:
    """The scores Q (previous, advisory, psi, rho, theta) of an encounter that stays level for `sweeps` seconds.

    Nobody counts the seconds in such an encounter: after that many, one more hardly changes a score.
    """
    values = np.zeros((len(mdp.ADVISORIES), *to_solve.grid.shape))
    for _ in range(sweeps - 1):
        values = to_solve.sweep(values, level=True).max(axis=1)
    return to_solve.sweep(values, level=True)


def mean_and_range(slices: Iterable[Floats]) -> tuple[float, float]:
    """The mean of all scores, and the greatest less the least, over slices of one shape."""
    figures = np.array([(scores.mean(), scores.min(), scores.max()) for scores in slices])
    return float(figures[:, 0].mean()), float(figures[:, 2].max() - figures[:, 1].min())


@dataclass(frozen=True)
class Axes:
    """The cut points of a table: the grid of positions and headings, and the speeds in ft/s, ascending."""

    grid: Grid = field(default_factory=Grid.wide)
    own_ft_s: tuple[float, ...] = mdp.OWN_SPEEDS_FT_S
    intruder_ft_s: tuple[float, ...] = mdp.INTRUDER_SPEEDS_FT_S

    @property
    def cuts(self) -> tuple[Floats, ...]:
        """The cut points of rho (ft), theta, psi (rad), own and intruder speed (ft/s)."""
        speeds = np.array(self.own_ft_s, np.float64), np.array(self.intruder_ft_s, np.float64)
        return self.grid.rho_ft, self.grid.theta_rad, self.grid.psi_rad, *speeds

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the scores after one previous advisory: (own, intruder, advisory, psi, rho, theta)."""
        return len(self.own_ft_s), len(self.intruder_ft_s), len(mdp.ADVISORIES), *self.grid.shape

    @property
    def points(self) -> int:
        """The number of grid points."""
        return math.prod(map(len, self.cuts))

    def pairs(self) -> list[tuple[int, int]]:
        """The indices of all pairs of own and intruder speed."""
        return list(itertools.product(range(len(self.own_ft_s)), range(len(self.intruder_ft_s))))


def _solve_pair(axes: Axes, pair: tuple[int, int]) -> NDArray[np.float32]:
    own, intruder = pair
    speeds = Speeds(axes.own_ft_s[own], axes.intruder_ft_s[intruder])
    return solve_stationary(problem(axes.grid, speeds)).astype(np.float32)


def solve_all(axes: Axes, folder: Path) -> Iterator[tuple[int, int]]:
    """Solve every pair of speeds on all cores, into `scores.npy` of `folder`; yields each pair as it is done.

    `scores.npy` is float32 (previous, own, intruder, advisory, psi, rho, theta).  `solved.npy`, bool (own, intruder),
    says which pairs it holds already; they are not solved again.
    """
    scores = _open_or_create(folder / "scores.npy", (len(mdp.ADVISORIES), *axes.shape), np.float32)
    solved = _open_or_create(folder / "solved.npy", scores.shape[1:3], np.bool_)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one process a core; read when numpy loads in each of them
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(_solve_pair, axes, pair): pair for pair in axes.pairs() if not solved[pair]}
        try:
            for done in as_completed(pending):
                pair = pending[done]
                scores[:, pair[0], pair[1]] = done.result()
                scores.flush()
                solved[pair] = True
                yield pair
        finally:
            pool.shutdown(cancel_futures=True)  # whoever stops here shall not wait for the pairs not begun


def _open_or_create(path: Path, shape: tuple[int, ...], dtype: type[np.generic]) -> np.memmap:
    if path.exists():
        return np.lib.format.open_memmap(path, mode="r+")
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


@dataclass(frozen=True)
class ScoreTable:
    """The scores after one previous advisory, (own, intruder, advisory, psi, rho, theta); the advisory is the argmax.

    The scores may be a memory map: only what is looked at is read.
    """

    scores: NDArray[np.floating]
    axes: Axes = field(default_factory=Axes)

    def at(self, states: Floats) -> Floats:
        """Scores (n, advisory) at `states` (n, 5) of rho ft, theta, psi rad, own and intruder speed ft/s.

        Multilinear, clamped to the grid.
        """
        brackets = [mdp.bracket(values, cuts) for values, cuts in zip(states.T, self.axes.cuts, strict=True)]
        total = np.zeros((len(states), len(mdp.ADVISORIES)))
        for above in itertools.product((0, 1), repeat=len(brackets)):
            weight = np.prod([w if up else 1 - w for up, (_, w) in zip(above, brackets, strict=True)], axis=0)
            index = [below + up for up, (below, _) in zip(above, brackets, strict=True)]
            total += weight[:, None] * self._at_indices(*index)
        return total

    def grid_points(self, chosen: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """The grid points of these numbers (n,), 0 to axes.points - 1: states (n, 5) and scores (n, advisory)."""
        index = np.unravel_index(chosen, [len(cuts) for cuts in self.axes.cuts])
        states = np.stack([cuts[i] for cuts, i in zip(self.axes.cuts, index, strict=True)], axis=-1)
        return states, self._at_indices(*index)

    def _at_indices(self, *index: Indices) -> NDArray[np.floating]:
        """Scores (n, advisory) at the cut points of these numbers, an array (n,) for each axis."""
        rho, theta, psi, own, intruder = index
        return self.scores[own, intruder, :, psi, rho, theta]

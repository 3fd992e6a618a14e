from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from models.acas import mdp, table
from models.acas.table import ScoreTable

if TYPE_CHECKING:
    from tests.models.conftest import Solution


MIRROR = [0, 2, 1, 4, 3]
"""Index of the advisory that turns the other way: COC, WR, WL, SR, SL."""


def test_scores_have_the_published_mean_and_range(solution: Solution) -> None:
    assert solution.mean == pytest.approx(table.PUBLISHED_MEAN, abs=1e-6)
    assert solution.range == pytest.approx(table.PUBLISHED_RANGE, abs=5e-6)


def test_mirrored_states_have_mirrored_scores(solution: Solution) -> None:
    mirrored = solution.level_scores[MIRROR][:, MIRROR, ::-1, :, ::-1]
    np.testing.assert_allclose(solution.level_scores, mirrored, rtol=0, atol=1e-9)


def test_mirrored_states_have_mirrored_advisories(solution: Solution) -> None:
    scores = solution.table(previous=0).scores
    first, second = np.sort(scores, axis=0)[[-1, -2]]
    decided = first - second > 1e-6
    advisories = scores.argmax(axis=0)
    mirrored = np.array(MIRROR)[advisories[::-1, :, ::-1]]
    assert decided.mean() > 0.95
    assert (advisories == mirrored)[decided].all()


def test_no_alert_far_away_and_an_alert_on_collision_course(solution: Solution) -> None:
    level = solution.table(previous=0)
    far_behind, head_on = [40_000.0, np.pi, 0.0], [4_000.0, 0.1, np.pi]
    far, near = level.at(np.array([far_behind, head_on])).argmax(axis=1)
    assert mdp.ADVISORIES[far] == "COC"
    assert mdp.ADVISORIES[near] in {"SL", "SR"}


def test_mean_and_range_are_over_all_slices() -> None:
    slices = [np.array([1.0, 2.0, 3.0]), np.array([-4.0, 0.0, 1.0])]
    assert table.mean_and_range(slices) == (0.5, 7.0)


def test_table_at_grid_points_is_the_table(rng: np.random.Generator) -> None:
    random_table = ScoreTable(rng.normal(size=(5, *mdp.Grid().shape)))
    states, scores = random_table.grid_points()
    assert states.shape == (53_792, 3)
    np.testing.assert_allclose(random_table.at(states), scores, rtol=0, atol=1e-9)


def test_table_interpolates_every_axis_linearly_and_clamps() -> None:
    grid = mdp.Grid()
    psi, rho, theta = grid.states()
    linear = ScoreTable(np.stack([rho / 1000 + 2 * theta - 3 * psi]), grid)
    states = np.array([[137.0, 0.3, -1.1], [44_444.0, -3.0, 3.0], [99_000.0, 0.0, 0.0]])
    expected = [0.137 + 0.6 + 3.3, 44.444 - 6.0 - 9.0, 56.0]
    assert linear.at(states)[:, 0] == pytest.approx(expected)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from models.acas import mdp, table
from models.acas.table import Axes, ScoreTable
from tests.integration.models.conftest import SMALL

if TYPE_CHECKING:
    from tests.integration.models.conftest import Solution


MIRROR = [0, 2, 1, 4, 3]
"""Index of the advisory that turns the other way: COC, WR, WL, SR, SL."""


def test_scores_have_the_published_mean_and_range(solution: Solution) -> None:
    assert solution.mean == pytest.approx(table.PUBLISHED_MEAN, abs=1e-6)
    assert solution.range == pytest.approx(table.PUBLISHED_RANGE, abs=5e-6)


def test_mirrored_states_have_mirrored_scores(solution: Solution) -> None:
    mirrored = solution.level_scores[MIRROR][:, MIRROR, ::-1, :, ::-1]
    np.testing.assert_allclose(solution.level_scores, mirrored, rtol=0, atol=1e-9)


def test_mirrored_states_have_mirrored_advisories(solution: Solution) -> None:
    scores = solution.level_scores[0]
    first, second = np.sort(scores, axis=0)[[-1, -2]]
    decided = first - second > 1e-6
    advisories = scores.argmax(axis=0)
    mirrored = np.array(MIRROR)[advisories[::-1, :, ::-1]]
    assert decided.mean() > 0.95
    assert (advisories == mirrored)[decided].all()


def test_mean_and_range_are_over_all_slices() -> None:
    slices = [np.array([1.0, 2.0, 3.0]), np.array([-4.0, 0.0, 1.0])]
    assert table.mean_and_range(slices) == (0.5, 7.0)


def test_the_table_has_the_cells_of_the_published_partition() -> None:
    axes = Axes()
    assert [len(cuts) for cuts in axes.cuts] == [39, 41, 41, 12, 12]
    assert np.prod([len(cuts) - 1 for cuts in axes.cuts]) == 7_356_800
    assert axes.points == 9_440_496


def test_a_stationary_table_hardly_changes_with_another_second() -> None:
    problem = table.problem(SMALL.grid, mdp.Speeds(400, 300))
    scores, later = (table.solve_stationary(problem, sweeps) for sweeps in (200, 201))
    assert np.abs(later - scores).max() < 1e-4 < np.abs(scores).max()
    assert (later.argmax(axis=1) != scores.argmax(axis=1)).mean() < 5e-3


def test_the_first_hundred_stationary_seconds_are_the_published_slice_at_tau_0() -> None:
    problem = table.problem(SMALL.grid, mdp.Speeds(200, 300))
    values = np.zeros((5, *SMALL.grid.shape))
    for _ in range(100):
        scores = problem.sweep(values, level=True)
        values = scores.max(axis=1)
    np.testing.assert_array_equal(scores, next(table.solve(problem)))
    np.testing.assert_array_equal(scores, table.solve_stationary(problem, 100))


def test_every_pair_of_speeds_is_a_problem_of_its_own(small_tables: list[ScoreTable]) -> None:
    alone = table.solve_stationary(table.problem(SMALL.grid, mdp.Speeds(400, 600)))
    for previous, scores in enumerate(small_tables):
        np.testing.assert_array_equal(scores.scores[1, 2], alone[previous].astype(np.float32))


def test_the_five_tables_mirror_each_other(small_tables: list[ScoreTable]) -> None:
    for previous, mirrored in enumerate(MIRROR):
        scores = small_tables[mirrored].scores[:, :, MIRROR][:, :, :, ::-1, :, ::-1]
        np.testing.assert_allclose(small_tables[previous].scores, scores, rtol=0, atol=2e-6)


def test_no_alert_far_behind_and_an_alert_on_collision_course(small_tables: list[ScoreTable]) -> None:
    far_behind, head_on = [30_000.0, np.pi, 0.0, 400.0, 300.0], [4_000.0, 0.1, np.pi, 400.0, 300.0]
    far, near = small_tables[0].at(np.array([far_behind, head_on])).argmax(axis=1)
    assert mdp.ADVISORIES[far] == "COC"
    assert mdp.ADVISORIES[near] in {"SL", "SR"}


@pytest.mark.campaign
def test_a_table_goes_on_where_it_stopped(tmp_path: Path, small_folder: Path) -> None:
    solving = table.solve_all(SMALL, tmp_path)
    first = next(solving)
    solving.close()
    marks = np.load(tmp_path / "solved.npy")
    assert marks[first]
    rest = list(table.solve_all(SMALL, tmp_path))
    assert len(rest) == len(SMALL.pairs()) - marks.sum()
    np.testing.assert_array_equal(np.load(tmp_path / "scores.npy"), np.load(small_folder / "scores.npy"))


def random_table(rng: np.random.Generator) -> ScoreTable:
    return ScoreTable(rng.normal(size=SMALL.shape), SMALL)


def test_table_at_grid_points_is_the_table(rng: np.random.Generator) -> None:
    scores = random_table(rng)
    states, expected = scores.grid_points(np.arange(SMALL.points))
    assert states.shape == (8 * 13 * 13 * 2 * 3, 5)
    assert len(np.unique(states, axis=0)) == SMALL.points
    np.testing.assert_allclose(scores.at(states), expected, rtol=0, atol=1e-9)


def test_a_grid_point_has_the_scores_of_its_indices(rng: np.random.Generator) -> None:
    scores = random_table(rng)
    chosen = np.array([np.ravel_multi_index((7, 3, 5, 1, 2), (8, 13, 13, 2, 3))])
    states, found = scores.grid_points(chosen)
    theta, psi = SMALL.grid.theta_rad[3], SMALL.grid.psi_rad[5]
    assert states.tolist() == [[30_000.0, theta, psi, 400.0, 600.0]]
    assert found.tolist() == [scores.scores[1, 2, :, 5, 7, 3].tolist()]


def test_table_interpolates_every_axis_linearly_and_clamps() -> None:
    own, intruder, _, psi, rho, theta = np.meshgrid(
        SMALL.own_ft_s, SMALL.intruder_ft_s, range(5), SMALL.grid.psi_rad, SMALL.grid.rho_ft, SMALL.grid.theta_rad,
        indexing="ij",
    )  # fmt: skip
    linear = ScoreTable(rho / 1000 + 2 * theta - 3 * psi + own / 100 - intruder / 50, SMALL)
    states = np.array([[137.0, 0.3, -1.1, 250, 100], [14_444.0, -3.0, 3.0, 400, 500], [99_000.0, 0.0, 0.0, 9000, 0]])
    expected = [0.137 + 0.6 + 3.3 + 2.5 - 2.0, 14.444 - 6.0 - 9.0 + 4.0 - 10.0, 30.0 + 4.0]
    assert linear.at(states)[:, 4] == pytest.approx(expected)

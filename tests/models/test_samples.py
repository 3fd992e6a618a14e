from __future__ import annotations

import numpy as np
import pytest

from models.acas import mdp, samples
from models.acas.table import ScoreTable


@pytest.fixture
def random_table(rng: np.random.Generator) -> ScoreTable:
    return ScoreTable(rng.normal(loc=-2.0, size=(5, *mdp.Grid().shape)))


def test_state_scaling_takes_the_box_to_plus_minus_one_half() -> None:
    low, high = samples.box(mdp.Grid())
    scaling = samples.state_scaling(mdp.Grid())
    assert low.tolist() == [0.0, -np.pi, -np.pi]
    assert high.tolist() == [56_000.0, np.pi, np.pi]
    assert scaling.normalise(low).tolist() == [-0.5] * 3
    assert scaling.normalise(high).tolist() == [0.5] * 3


def test_scores_are_scaled_by_the_mean_and_range_of_their_table(random_table: ScoreTable) -> None:
    drawn = samples.grid_samples(random_table)
    assert drawn.scores.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.ptp(drawn.scores) == pytest.approx(1.0)
    scaling = samples.score_scaling(random_table)
    restored = drawn.scores * scaling.range + scaling.mean
    np.testing.assert_allclose(restored, random_table.grid_points()[1], rtol=0, atol=1e-9)


def test_advisory_of_a_sample_is_the_best_by_the_table(random_table: ScoreTable) -> None:
    drawn = samples.grid_samples(random_table)
    assert (drawn.advisories == random_table.grid_points()[1].argmax(axis=1)).all()


def test_uniform_samples_fill_the_box_and_follow_their_seed(random_table: ScoreTable) -> None:
    drawn = samples.uniform_samples(random_table, count=2000, seed=3)
    assert drawn.states.shape == (2000, 3)
    assert np.abs(drawn.states).max() <= 0.5
    assert drawn.states.std(axis=0) == pytest.approx([12**-0.5] * 3, rel=0.05)
    assert (samples.uniform_samples(random_table, count=2000, seed=3).states == drawn.states).all()
    assert (samples.uniform_samples(random_table, count=2000, seed=4).states != drawn.states).all()

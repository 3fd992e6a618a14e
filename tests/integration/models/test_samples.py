from __future__ import annotations

import numpy as np
import pytest

from models.acas import samples
from models.acas.samples import Subject
from models.acas.table import Axes, ScoreTable
from tests.integration.models.conftest import SMALL


@pytest.fixture
def subject(rng: np.random.Generator) -> Subject:
    return Subject.of(ScoreTable(rng.normal(loc=-2.0, size=SMALL.shape), SMALL))


def test_state_scaling_takes_the_box_to_plus_minus_one_half() -> None:
    low, high = samples.box(Axes())
    scaling = samples.state_scaling(Axes())
    assert low.tolist() == [0.0, -np.pi, -np.pi, 100.0, 0.0]
    assert high.tolist() == [60_000.0, np.pi, np.pi, 1200.0, 1200.0]
    assert scaling.normalise(low) == pytest.approx([-0.5, -0.5, -0.5, -0.5 + 1 / 12, -0.5])
    assert scaling.normalise(high).tolist() == [0.5] * 5


def test_equal_speeds_are_equal_inputs() -> None:
    state = np.array([0.0, 0.0, 0.0, 345.0, 345.0])
    own, intruder = samples.state_scaling(Axes()).normalise(state)[3:]
    assert own == intruder


def test_scores_are_scaled_by_the_mean_and_range_of_their_table(subject: Subject) -> None:
    scaling, scores = subject.score_scaling, subject.table.scores
    assert (scaling.mean, scaling.range) == pytest.approx((scores.mean(), np.ptp(scores)))
    drawn = subject.grid_samples(count=4000, seed=3)
    low, high = ((bound - scores.mean()) / np.ptp(scores) for bound in (scores.min(), scores.max()))
    assert low <= drawn.scores.min() < -0.3 < 0.3 < drawn.scores.max() <= high


def test_drawn_grid_points_have_the_scores_and_the_best_advisory_of_the_table(subject: Subject) -> None:
    drawn = subject.grid_samples(count=500, seed=3)
    scaling = samples.state_scaling(SMALL)
    by_table = subject.table.at(drawn.states * scaling.range + scaling.mean)
    np.testing.assert_allclose(drawn.scores, subject.score_scaling.normalise(by_table), rtol=0, atol=1e-9)
    assert (drawn.advisories == by_table.argmax(axis=1)).all()


def test_drawn_grid_points_are_all_over_the_grid_and_follow_their_seed(subject: Subject) -> None:
    drawn = subject.grid_samples(count=2000, seed=3)
    assert [len(np.unique(axis.round(9))) for axis in drawn.states.T] == [len(cuts) for cuts in SMALL.cuts]
    assert (subject.grid_samples(count=2000, seed=3).states == drawn.states).all()
    assert (subject.grid_samples(count=2000, seed=4).states != drawn.states).any()


def test_uniform_samples_fill_the_box_and_follow_their_seed(subject: Subject) -> None:
    drawn = subject.uniform_samples(count=2000, seed=3)
    low, high = (samples.state_scaling(SMALL).normalise(bound) for bound in samples.box(SMALL))
    assert drawn.states.shape == (2000, 5)
    assert (drawn.states >= low).all()
    assert (drawn.states <= high).all()
    assert drawn.states.std(axis=0) == pytest.approx((high - low) * 12**-0.5, rel=0.05)
    assert (subject.uniform_samples(count=2000, seed=3).states == drawn.states).all()
    assert (subject.uniform_samples(count=2000, seed=4).states != drawn.states).all()

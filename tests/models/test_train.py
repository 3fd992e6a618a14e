"""The trainings, on a small table; skipped where PyTorch, which only the recipe needs, is not installed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness import dense, quantizer
from models.acas import quantize, report
from models.acas.parameters import Parameters
from models.acas.samples import Subject
from models.acas.table import ScoreTable

torch = pytest.importorskip("torch", reason="PyTorch is not installed: it belongs to the recipe, not to the harness")

SMALL_TRAINING = replace(
    Parameters(),
    hidden=50,
    depth=3,
    grid_points=20_000,
    uniform_points=20_000,
    batch=256,
    float_steps=5000,
    tuning_steps=4000,
)


@pytest.fixture(scope="module")
def subject(small_tables: list[ScoreTable]) -> Subject:
    return Subject.of(small_tables[0])


def test_training_learns_the_table_and_tuning_keeps_it_through_rounding(subject: Subject) -> None:
    from models.acas import train

    batches: list[None] = []
    training = train.Training.of(subject, SMALL_TRAINING)
    layers = train.train_float(training, lambda: batches.append(None))
    assert len(batches) == SMALL_TRAINING.float_steps
    points = subject.grid_samples(5000, seed=9)
    learned = report.figures(lambda states: dense.forward(layers, quantize.INPUT.rounded(states)), points)
    assert learned.agreement > 0.8
    assert learned.r2 > 0.75

    scales = quantize.hidden_scales(layers, points.states)
    tuned = train.tune(training, layers, scales, lambda: batches.append(None))
    assert len(batches) == SMALL_TRAINING.float_steps + SMALL_TRAINING.tuning_steps
    rounded, kept = (
        report.figures(report.model_scores(_model(each, scales)), points).agreement for each in (layers, tuned)
    )
    assert kept > max(rounded, learned.agreement - 0.06)


def test_the_same_seed_gives_the_same_weights(subject: Subject) -> None:
    from models.acas import train

    training = train.Training.of(subject, replace(SMALL_TRAINING, float_steps=20))
    one, other = (train.train_float(training, lambda: None) for _ in range(2))
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left.weight, right.weight)


def test_the_rounding_in_training_is_that_of_the_model(subject: Subject) -> None:
    from models.acas import train

    network = train.Network((5, 16, 16, 5))
    points = subject.grid_samples(2000, seed=3)
    layers = network.export()
    scales = quantize.hidden_scales(layers, points.states)
    network.round_to(scales)
    trained = network(torch.from_numpy(quantize.INPUT.rounded(points.states))).detach().numpy()
    scores = report.model_scores(_model(layers, scales))(points.states)
    assert np.abs(trained - scores).max() < 2 * scales.max()
    assert np.mean(np.abs(trained - scores) < 1e-4) > 0.95


def _model(layers: tuple[dense.Dense, ...], scales: dense.Floats32) -> bytes:
    model = quantizer.to_onnx(quantize.quantize(layers, scales), "n", {}, "state", "scores", quantize.SELECT)
    return bytes(model.SerializeToString())

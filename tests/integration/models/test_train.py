"""The trainings, on a small table; skipped where PyTorch, which only the recipe needs, is not installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.model import float_network, quantizer
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


def test_training_learns_the_table_and_tuning_keeps_it_through_rounding(subject: Subject, tmp_path: Path) -> None:
    from models.acas import train

    batches: list[None] = []
    training = train.Training.of(subject, SMALL_TRAINING)
    layers = train.train_float(training, lambda: batches.append(None), train.Checkpoint(tmp_path / "float"))
    assert len(batches) == SMALL_TRAINING.float_steps
    points = subject.grid_samples(5000, seed=9)
    learned = report.figures(lambda states: float_network.forward(layers, quantize.INPUT.rounded(states)), points)
    assert learned.agreement > 0.8
    assert learned.r2 > 0.75

    scales = quantize.hidden_scales(layers, points.states)
    cycle, checkpoint = SMALL_TRAINING.tuning_cycle, train.Checkpoint(tmp_path / "tuned")
    tuned = train.tune(training, layers, scales, cycle, lambda: batches.append(None), checkpoint)
    assert len(batches) == SMALL_TRAINING.float_steps + SMALL_TRAINING.tuning_steps
    rounded, kept = (
        report.figures(report.model_scores(_model(each, scales)), points).agreement for each in (layers, tuned)
    )
    assert kept > max(rounded, learned.agreement - 0.06)


def test_an_interrupted_training_ends_in_the_same_weights(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.acas import train

    monkeypatch.setattr(train, "CHECKPOINT_STEPS", 20)
    training = train.Training.of(subject, replace(SMALL_TRAINING, float_steps=70))
    whole = train.train_float(training, lambda: None, train.Checkpoint(tmp_path / "whole"))

    batches = iter(range(50))
    with pytest.raises(StopIteration):
        train.train_float(training, lambda: next(batches), train.Checkpoint(tmp_path / "cut"))
    seen: list[None] = []
    resumed = train.train_float(training, lambda: seen.append(None), train.Checkpoint(tmp_path / "cut"))
    assert len(seen) == 70
    for left, right in zip(whole, resumed, strict=True):
        assert np.array_equal(left.weight, right.weight)
        assert np.array_equal(left.bias, right.bias)


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


def _model(layers: tuple[float_network.Dense, ...], scales: float_network.Floats32) -> bytes:
    model = quantizer.to_onnx(quantize.quantize(layers, scales), "n", {}, "state", "scores", quantize.SELECT)
    return bytes(model.SerializeToString())

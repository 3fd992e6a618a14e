from __future__ import annotations

import numpy as np
import pytest

from harness.model.quantizer import Codes, LayerUse, QuantizedNetwork, agreement, layer_uses, quantize_layers
from tests.support.quantizer.networks import dense


def test_agreement_of_equal_scores_is_perfect() -> None:
    scores = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    best = scores.argmax(axis=1)
    near = agreement(scores, scores, (best, best))
    assert (near.vectors, near.r2, near.difference_max, near.selected) == (50, 1.0, 0.0, 1.0)


def test_agreement_counts_by_output_and_by_vector() -> None:
    expected = np.array([[0, 7, 1], [2, 7, 3]], np.float32)  # variances 2, 0, 2
    scores = np.array([[0, 8, 2], [2, 7, 3]], np.float32)  # unexplained 0, 1, 1
    near = agreement(expected, scores, (np.array([1, 1]), np.array([1, 2])))
    assert near.r2 == pytest.approx((1 + 0.5) / 2)  # the output that does not vary has no R2
    assert (near.difference_max, near.selected) == (1.0, 0.5)
    assert agreement(expected[:1], scores[:1], None).r2 is None
    assert agreement(expected, scores, None).selected is None


def test_layer_uses_tell_codes_met_and_ends_reached() -> None:
    layers = (dense([[1.0, 0.5]], relu=True), dense([[1.0], [2.0]]))
    source, hidden = Codes(np.float32(0.01), 100), Codes(np.float32(0.02))
    network = QuantizedNetwork(source, quantize_layers(layers, (source, hidden)))
    batches = [
        [np.array([[0], [255]], np.uint8), np.array([[0, 255], [0, 7]], np.uint8)],
        [np.array([[9], [10]], np.uint8), np.array([[0, 0], [0, 7]], np.uint8)],
    ]
    first, second, third = layer_uses(network, batches)
    assert first == LayerUse("quantize_input", 1, 1, None, pytest.approx((-1, 1.55)), 4 / 256, 2 / 4)
    scales = pytest.approx((0.5 / 127, 1 / 127))
    assert second == LayerUse("dense_1", 1, 2, scales, pytest.approx((0, 5.1)), 3 / 256, 1 / 8)
    assert third == LayerUse("dense_2", 2, 1, pytest.approx((2 / 127, 2 / 127)), None, None, None)

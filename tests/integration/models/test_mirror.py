from __future__ import annotations

import numpy as np

from harness.model import float_network, quantizer
from models.acas import mdp, quantize, report
from models.acas.mirror import MIRROR, SIGNS, mirrored
from tests.integration.models.test_quantize import random_layers


def test_every_advisory_is_the_image_of_the_one_to_the_other_side() -> None:
    names = [mdp.ADVISORIES[image] for image in MIRROR]
    assert names == ["COC", "WR", "WL", "SR", "SL"]
    assert SIGNS.tolist() == [1, -1, -1, 1, 1]


def test_the_image_of_the_image_is_the_network(rng: np.random.Generator) -> None:
    layers = random_layers(rng, (5, 8, 5))
    for one, other in zip(layers, mirrored(mirrored(layers)), strict=True):
        assert np.array_equal(one.weight, other.weight)
        assert np.array_equal(one.bias, other.bias)


def test_a_mirrored_state_has_the_scores_of_the_other_side_bit_for_bit(rng: np.random.Generator) -> None:
    layers = random_layers(rng, (5, 16, 16, 5))
    states = rng.uniform(-0.5, 0.5, size=(2000, 5)).astype(np.float32)
    states[:500] = quantize.INPUT.rounded(states[:500]) + np.float32(0.5) * quantize.INPUT.scale
    scales = quantize.hidden_scales(layers, states)
    one, other = (
        quantizer.to_onnx(quantize.quantize(each, scales), "n", {}, "state", "scores", quantize.SELECT)
        for each in (layers, mirrored(layers))
    )
    scores = report.model_scores(one.SerializeToString())(states)
    images = report.model_scores(other.SerializeToString())(states * SIGNS)
    assert np.array_equal(scores[:, MIRROR].view(np.uint32), images.view(np.uint32))
    assert len(np.unique(scores.argmax(axis=1))) > 1
    np.testing.assert_allclose(
        float_network.forward(mirrored(layers), states * SIGNS), float_network.forward(layers, states)[:, MIRROR]
    )

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness.model import float_network, parse, quantizer
from harness.model.float_network import Dense
from harness.model.onnx_runtime import sessions
from models.acas import quantize

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = np.ndarray


def random_layers(rng: np.random.Generator, widths: Sequence[int]) -> tuple[Dense, ...]:
    return tuple(
        Dense(
            rng.normal(scale=inputs**-0.5, size=(inputs, outputs)).astype(np.float32),
            rng.normal(scale=0.1, size=outputs).astype(np.float32),
            relu=index < len(widths) - 2,
        )
        for index, (inputs, outputs) in enumerate(itertools.pairwise(widths))
    )


@pytest.mark.parametrize("widths", [(5, 5), (5, 16, 5), (5, 12, 12, 4)])
def test_quantised_network_is_near_its_float_one(rng: np.random.Generator, widths: tuple[int, ...]) -> None:
    layers = random_layers(rng, widths)
    states = quantize.INPUT.rounded(rng.uniform(-0.5, 0.5, size=(500, 5)))
    integers = quantize.quantize(layers, quantize.hidden_scales(layers, states))
    model = quantizer.to_onnx(integers, "network", {}, "state", "scores", quantize.SELECT).SerializeToString()
    session = sessions.session(model, 1, x64_quant_precision=True)
    scores, advisories = session.run(["scores", "advisory"], {"state": states})
    error = np.abs(scores - float_network.forward(layers, states))
    assert 0 < error.max() < 0.05
    assert (advisories[:, 0] == scores.argmax(axis=1)).all()
    assert len(parse(model, "network").layers) == len(widths) + 1


def test_the_greatest_activation_is_the_last_code(rng: np.random.Generator) -> None:
    layers = random_layers(rng, (5, 16, 5))
    states = rng.uniform(-0.5, 0.5, size=(500, 5))
    (scale,) = quantize.hidden_scales(layers, states)
    hidden, _ = float_network.activations(layers, quantize.INPUT.rounded(states))
    assert hidden.max() == pytest.approx(255 * scale)


def test_grid_points_lie_on_codes() -> None:
    sixths, speeds = np.arange(41) / 40 - 0.5, np.arange(13) / 12 - 0.5
    for normalised in (sixths, speeds):
        np.testing.assert_allclose(quantize.INPUT.rounded(normalised), normalised, atol=1e-7)

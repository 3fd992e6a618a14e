from __future__ import annotations

from pathlib import Path

import numpy as np

from models.acas import weights
from tests.integration.models.test_quantize import random_layers


def test_layers_survive_their_file(tmp_path: Path, rng: np.random.Generator) -> None:
    layers = random_layers(rng, (5, 8, 8, 5))
    weights.save(tmp_path / "layers.npz", layers)
    restored = weights.load(tmp_path / "layers.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["layers.npz"]
    assert [layer.relu for layer in restored] == [True, True, False]
    for one, other in zip(layers, restored, strict=True):
        assert np.array_equal(one.weight, other.weight)
        assert np.array_equal(one.bias, other.bias)

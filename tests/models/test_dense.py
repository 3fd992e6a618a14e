from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from models.acas import dense
from models.acas.dense import Dense

if TYPE_CHECKING:
    from pathlib import Path

LAYERS = (
    Dense(np.array([[1, -1], [2, 0]], dtype=np.float32), np.array([0, 1], dtype=np.float32)),
    Dense(np.array([[1], [-3]], dtype=np.float32), np.array([0.5], dtype=np.float32)),
)


def test_relu_stands_between_the_layers_but_not_behind_the_last() -> None:
    hidden, last = dense.activations(LAYERS, np.array([[1, 1], [-1, 0]], dtype=np.float32))
    assert hidden.tolist() == [[3, 0], [0, 2]]
    assert last.tolist() == [[3.5], [-5.5]]


def test_layers_survive_their_file(tmp_path: Path) -> None:
    dense.save(tmp_path / "layers.npz", LAYERS)
    restored = dense.load(tmp_path / "layers.npz")
    assert [(a.weight.tolist(), a.bias.tolist()) for a in restored] == [
        (a.weight.tolist(), a.bias.tolist()) for a in LAYERS
    ]

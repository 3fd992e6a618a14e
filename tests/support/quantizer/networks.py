"""Float dense networks for the quantiser's tests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from harness.model.float_network import Dense, DenseNetwork


def random_layers(rng: np.random.Generator, widths: Sequence[int], relus: Sequence[bool] = ()) -> tuple[Dense, ...]:
    """A layer for every pair of `widths`; a ReLU where `relus` says so, or behind all but the last."""
    depth = len(widths) - 1
    return tuple(
        Dense(
            rng.normal(scale=(2 / inputs) ** 0.5, size=(inputs, outputs)).astype(np.float32),
            rng.normal(scale=0.1, size=outputs).astype(np.float32),
            relu=relu,
        )
        for (inputs, outputs), relu in zip(pairwise(widths), relus or [True] * (depth - 1) + [False], strict=True)
    )


def random_network(rng: np.random.Generator, widths: Sequence[int], relus: Sequence[bool] = ()) -> DenseNetwork:
    """The layers with a box that holds 0 in some inputs, and not in others."""
    low = rng.uniform(-1, 0.3, widths[0])
    box = np.array([low, low + rng.uniform(0.2, 1, widths[0])], np.float32)
    return DenseNetwork("random", random_layers(rng, widths, relus), box=box)


def dense(weight: object, bias: object = 0, *, relu: bool = False) -> Dense:
    """A layer from lists."""
    values = np.array(weight, np.float32)
    return Dense(values, np.broadcast_to(np.array(bias, np.float32), values.shape[1:]).copy(), relu)

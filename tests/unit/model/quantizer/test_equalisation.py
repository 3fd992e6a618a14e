from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.float_network import Dense, Floats32, activations, forward
from harness.model.quantizer import equalize


def uneven_layers(rng: np.random.Generator, widths: tuple[int, ...]) -> tuple[Dense, ...]:
    """Layers of which every neuron has a reach of its own, over six decades."""
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        spread = 10.0 ** rng.uniform(-3, 3, outputs)
        weight = rng.normal(size=(inputs, outputs)) * spread
        layers.append(
            Dense(weight.astype(np.float32), (rng.normal(size=outputs) * spread).astype(np.float32), relu=True)
        )
    return (*layers[:-1], replace(layers[-1], relu=False))


def vectors(rng: np.random.Generator, width: int) -> Floats32:
    return rng.uniform(-1, 1, (500, width)).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 12), min_size=2, max_size=5))
def test_the_network_stays_the_same_to_the_bit(seed: int, widths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    layers, x = uneven_layers(rng, tuple(widths)), vectors(rng, widths[0])
    equal = equalize(layers, [x[:250], x[250:]])
    assert np.array_equal(forward(equal, x), forward(layers, x))


def test_reaches_come_to_the_root_of_their_distance_from_the_greatest() -> None:
    rng = np.random.default_rng(3)
    layers, x = uneven_layers(rng, (4, 30, 3)), vectors(rng, 4)
    before, after = (next(activations(each, x)).max(axis=0) for each in (layers, equalize(layers, [x])))
    active = before > 0
    greatest = before.max()
    assert after.max() == greatest
    expected = np.sqrt(before[active] * greatest)
    assert (np.abs(np.log2(after[active] / expected)) <= 0.5 + 1e-6).all()
    assert np.array_equal(before == 0, after == 0)


def test_neurons_without_a_relu_stay_as_they_are() -> None:
    rng = np.random.default_rng(4)
    first, *rest = uneven_layers(rng, (4, 10, 10, 2))
    layers = (replace(first, relu=False), *rest)
    equal = equalize(layers, [vectors(rng, 4)])
    assert np.array_equal(equal[0].weight, first.weight)
    assert not np.array_equal(equal[1].weight, layers[1].weight)


def test_the_given_layers_are_not_changed() -> None:
    rng = np.random.default_rng(5)
    layers = uneven_layers(rng, (3, 8, 2))
    copies = [layer.weight.copy() for layer in layers]
    equalize(layers, [vectors(rng, 3)])
    for layer, copy in zip(layers, copies, strict=True):
        assert np.array_equal(layer.weight, copy)


@pytest.mark.parametrize("bias", [-1.0, 0.0])
def test_a_layer_that_is_never_active_is_left_alone(bias: float) -> None:
    dead = Dense(np.zeros((2, 3), np.float32), np.full(3, bias, np.float32), relu=True)
    last = Dense(np.ones((3, 1), np.float32), np.zeros(1, np.float32), relu=False)
    equal = equalize((dead, last), [np.ones((4, 2), np.float32)])
    assert np.array_equal(equal[1].weight, last.weight)

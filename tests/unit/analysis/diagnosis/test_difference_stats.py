from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.analysis.diagnosis import Case, map_shape, portray
from harness.core.arrays import Array
from tests.support.diagnosis.layers import codes, network, qgemm

LAYER = qgemm(network((7, 100), power_of_two=True))
INPUTS = codes(LAYER, 1000)
RIGHT = LAYER.prepare()(INPUTS)


def wrong(share: float = 0.02) -> Array:
    """Some values moved by -6 to 6 steps."""
    rng = np.random.default_rng(4)
    moved = RIGHT.astype(np.int64) + rng.integers(-6, 7, RIGHT.shape) * (rng.random(RIGHT.shape) < share)
    return np.clip(moved, 0, 255).astype(np.uint8)


def case(actual: Array, part: slice = slice(None)) -> Case:
    return Case(3, LAYER, (INPUTS[part],), RIGHT[part], actual[part], part.start or 0)


def test_the_map_counts_every_difference_in_its_place() -> None:
    actual = wrong()
    portrait = portray(case(actual), RIGHT, 1000)
    assert map_shape(1000, 100) == (120, 64)
    for column in range(120):
        vectors = [v for v in range(1000) if v * 120 // 1000 == column]
        found = portrait.cells.get(column, (0,) * 64)
        for row in range(64):
            units = [u for u in range(100) if u * 64 // 100 == row]
            assert found[row] == (actual != RIGHT)[np.ix_(vectors, units)].sum()


def test_steps_are_counted_and_the_far_ones_put_together() -> None:
    actual = wrong()
    difference = (actual.astype(int) - RIGHT.astype(int))[actual != RIGHT]
    expected = [
        (difference <= -4).sum(),
        *((difference == step).sum() for step in range(-3, 4)),
        (difference > 3).sum(),
    ]
    assert portray(case(actual), RIGHT, 1000).steps == tuple(expected)
    assert expected[0] > expected[1] > 0 == expected[4]


def test_distances_from_ties_are_those_of_the_wrong_values() -> None:
    actual = wrong()
    acc = (INPUTS.astype(int) - LAYER.a_zero_point) @ (LAYER.weights.astype(int) - LAYER.weights_zero_point)
    v = np.clip((acc + LAYER.bias).astype(np.float32) * LAYER.multiplier, -LAYER.y_zero_point, 255 - LAYER.y_zero_point)
    distance = np.abs(v - np.floor(v) - 0.5)[actual != RIGHT]
    found = portray(case(actual), RIGHT, 1000).tie_distances
    assert found[0] == (distance == 0).sum() > 0
    assert found[-2] == ((distance > 0.01) & (distance <= 0.1)).sum() > 0
    assert found[-1] == (distance > 0.1).sum()
    assert sum(found) == (actual != RIGHT).sum()


def test_an_effect_has_no_distance_of_its_own() -> None:
    actual = wrong()
    effect = Case(3, LAYER, (INPUTS,), actual, actual)
    portrait = portray(effect, RIGHT, 1000)
    assert sum(portrait.steps) == (actual != RIGHT).sum()
    assert set(portrait.tie_distances) == {0}


@pytest.mark.parametrize("cuts", [(500,), (3, 4, 700), (333, 334)])
def test_the_parts_add_up_to_the_whole(cuts: tuple[int, ...]) -> None:
    actual = wrong()
    edges = (0, *cuts, 1000)
    parts = [
        portray(case(actual, slice(start, stop)), RIGHT[start:stop], 1000) for start, stop in itertools.pairwise(edges)
    ]
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert total == portray(case(actual), RIGHT, 1000)


def test_layers_that_round_to_no_code_have_no_ties() -> None:
    layer = qgemm(network(float_output=True))
    inputs = codes(layer, 20)
    right = layer.prepare()(inputs)
    portrait = portray(Case(1, layer, (inputs,), right, right * 2), right, 20)
    assert portrait.tie_distances == ()
    assert sum(portrait.steps) == portrait.steps[0] + portrait.steps[-1] == (right != 0).sum()


def test_portraits_of_two_layers_do_not_add_up() -> None:
    one, other = (portray(Case(index, LAYER, (INPUTS,), RIGHT, wrong()), RIGHT, 1000) for index in (1, 2))
    with pytest.raises(ValueError, match="layers 1 and 2"):
        one + other

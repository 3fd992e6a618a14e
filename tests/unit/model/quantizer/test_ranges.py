from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.float_network import activations
from harness.model.quantizer import FRESH, bounds, calibrate, calibration_vectors, drawn, ranges
from tests.support.examples import examples
from tests.support.quantizer.networks import dense, random_network


def corners(box: np.ndarray) -> np.ndarray:
    return np.array(list(itertools.product(*box.T)), np.float32)


@examples(40)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 12), min_size=2, max_size=5), st.data())
def test_bounds_hold_for_corners_and_for_vectors_within(seed: int, widths: list[int], data: st.DataObject) -> None:
    widths[0] = min(widths[0], 6)
    relus = data.draw(st.lists(st.booleans(), min_size=len(widths) - 1, max_size=len(widths) - 1))
    network = random_network(np.random.default_rng(seed), widths, relus)
    box = network.box
    assert box is not None
    vectors = np.concatenate([corners(box), *drawn(box, 300, seed, FRESH)])
    for values, (low, high) in zip(activations(network.layers, vectors), bounds(network.layers, box), strict=True):
        assert low <= values.min()
        assert values.max() <= high


def test_bounds_of_one_layer_are_met_at_corners() -> None:
    network = random_network(np.random.default_rng(4), [5, 7])
    assert network.box is not None
    (values,) = activations(network.layers, corners(network.box))
    assert bounds(network.layers, network.box) == (pytest.approx((values.min(), values.max()), rel=1e-5),)


def test_bounds_behind_a_relu_start_at_zero() -> None:
    layers = (dense([[2.0, -1.0]], [0.5, 0.0], relu=True), dense([[1.0], [-3.0]]))
    box = np.array([[-1.0], [2.0]], np.float32)
    assert bounds(layers, box) == (pytest.approx((0, 4.5), abs=1e-5), pytest.approx((-3, 4.5), abs=1e-5))


def test_calibration_finds_the_extremes_of_all_batches() -> None:
    network = random_network(np.random.default_rng(5), [4, 9, 9, 3])
    assert network.box is not None
    batches = list(calibration_vectors(network.box, 2000, seed=1))
    computed = list(activations(network.layers, np.concatenate(batches)))
    expected = [pytest.approx((values.min(), values.max()), abs=1e-5) for values in computed]
    assert list(calibrate(network.layers, batches)) == expected


def test_calibration_sees_the_corners_of_a_small_box_and_no_corner_of_a_large_one() -> None:
    small = np.array([[0, -1, 2], [1, 3, 4]], np.float32)
    vectors = np.concatenate(list(calibration_vectors(small, 10, seed=1)))
    assert {tuple(vector) for vector in vectors[:8]} == set(itertools.product((0, 1), (-1, 3), (2, 4)))
    assert len(vectors) == 18
    large = np.repeat(np.array([[0], [1]], np.float32), 13, axis=1)
    assert sum(map(len, calibration_vectors(large, 10, seed=1))) == 10


def test_drawn_vectors_fill_the_box_and_depend_on_seed_and_stream_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    box = np.array([[-1, 5, 0], [1, 6, 0]], np.float32)
    vectors = np.concatenate(list(drawn(box, 3000, 7, FRESH)))
    assert vectors.shape == (3000, 3)
    assert (box[0] <= vectors).all()
    assert (vectors <= box[1]).all()
    assert vectors.mean(axis=0) == pytest.approx([0, 5.5, 0], abs=0.05)
    for other in (drawn(box, 3000, 8, FRESH), drawn(box, 3000, 7, ranges.CALIBRATION)):
        assert not np.isin(np.concatenate(list(other))[:, 0], vectors[:, 0]).all()
    monkeypatch.setattr(ranges, "BATCH", 1000)
    assert np.array_equal(np.concatenate(list(drawn(box, 3000, 7, FRESH))), vectors)

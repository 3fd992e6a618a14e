"""The vectors of the windows of a convolution have what they are for: counted in every window of every vector."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators import window_vectors
from harness.operators.window import Window
from harness.operators.window_vectors import CODES, PERIOD, POINTS, WindowVectors
from tests.support.codes import count_pairs

ZERO_POINT = 7
AT_ONCE = 1000
INT8 = np.dtype(np.int8)


def window(shape: tuple[int, int], kernel: tuple[int, int], stride: int = 1, dilation: int = 1, pad: int = 0) -> Window:
    extents = [(size - 1) * dilation + 1 for size in kernel]
    output = [(shape[axis] + 2 * pad - extents[axis]) // stride + 1 for axis in (0, 1)]
    return Window(shape, kernel, (stride, stride), (dilation, dilation), (pad, pad), (output[0], output[1]))


GEOMETRIES = {
    "3 x 3": (window((8, 8), (3, 3)), 2, 1),
    "3 x 3, padding": (window((8, 6), (3, 3), pad=1), 2, 1),
    "stride": (window((9, 12), (3, 2), stride=2, pad=1), 2, 1),
    "stride of 3": (window((11, 11), (2, 2), stride=3), 3, 1),
    "stride beyond the kernel": (window((9, 9), (1, 1), stride=2), 5, 1),
    "dilation": (window((9, 9), (2, 3), dilation=2, pad=1), 1, 1),
    "groups": (window((6, 6), (2, 2)), 6, 3),
    "a sequence": (window((1, 30), (1, 5), stride=2), 2, 1),
    "a large kernel": (window((7, 7), (6, 6)), 1, 1),
    "more padding than image": (window((2, 3), (3, 3), pad=1), 2, 1),
}


def in_windows(vectors: WindowVectors, values: Array, places: Array) -> Array:
    """Return the values of windows, (groups, n * positions, terms of a sum): `places` as Window.sources gives them."""
    given = places.reshape(vectors.groups, vectors.channels // vectors.groups, *places.shape[1:])
    terms = given.swapaxes(1, 2).reshape(vectors.groups, places.shape[1], -1)
    return values[:, terms].swapaxes(0, 1).reshape(vectors.groups, -1, terms.shape[2])


@pytest.mark.parametrize("name", GEOMETRIES)
def test_each_input_of_a_sum_is_alone_with_each_code(name: str) -> None:
    geometry, channels, groups = GEOMETRIES[name]
    vectors = WindowVectors(geometry, channels, groups)
    values = np.concatenate(list(vectors.lone_codes(ZERO_POINT, INT8, AT_ONCE)))
    assert values.shape == (vectors.lone_vectors, vectors.size)
    assert values.dtype == INT8
    padded = np.hstack([values, np.full((len(values), 1), ZERO_POINT, INT8)])  # where a window is outside
    places = geometry.sources(channels)
    sums = in_windows(vectors, padded, places)
    others = sums != ZERO_POINT
    assert others.sum(axis=2).max() == 1
    is_whole = np.tile((places >= 0).all(axis=(0, 2)), len(values))
    if is_whole.any():
        sums, others = sums[:, is_whole], others[:, is_whole]
    for each in range(groups):
        found = {(int(t), int(sums[each, row, t])) for row, t in zip(*np.nonzero(others[each]), strict=True)}
        seen = np.flatnonzero((places[: channels // groups] >= 0).any(axis=1).reshape(-1))
        assert found == set(itertools.product(seen.tolist(), {*range(-128, 128)} - {ZERO_POINT}))


@pytest.mark.parametrize("name", [name for name in GEOMETRIES if name != "more padding than image"])
def test_any_two_inputs_of_a_sum_have_every_pair_of_codes(name: str) -> None:
    geometry, channels, groups = GEOMETRIES[name]
    vectors = WindowVectors(geometry, channels, groups)
    values = np.concatenate(list(vectors.pairs(np.dtype(np.uint8), AT_ONCE)))
    assert values.shape == (vectors.pair_vectors, vectors.size)
    assert vectors.pair_vectors < 65536 * 1.2
    places = geometry.sources(channels)
    whole = (places >= 0).all(axis=(0, 2))
    for sums in in_windows(vectors, values, places[:, whole]):
        for first, second in itertools.combinations(np.ascontiguousarray(sums.T), 2):
            assert count_pairs(first, second) == CODES**2


def test_many_windows_need_few_vectors() -> None:
    assert WindowVectors(window((18, 18), (3, 3)), 4, 1).pair_vectors == -(-PERIOD // 16**2) + 1
    assert WindowVectors(window((10, 10), (3, 3)), 64, 1).lone_vectors == -(-64 * CODES // 4)


@pytest.mark.parametrize(("channels", "kernel"), [(40, 3), (260, 1), (512, 3)])
def test_more_than_257_inputs_of_a_sum_have_every_pair_of_codes(channels: int, kernel: int) -> None:
    """Any two have different points in some arrangement, and there a sample of them has every pair."""
    vectors = WindowVectors(window((8, 8), (kernel, kernel)), channels, 1)
    points = np.stack([vectors._points(each) for each in vectors._arrangements])
    assert len(points) in (2, 3)
    equal = np.ones((points.shape[1],) * 2, np.bool_)
    for each in points:
        equal &= each[:, None] == each
    assert equal.sum() == points.shape[1]
    if channels > 300:
        return
    values = np.concatenate(list(vectors.pairs(np.dtype(np.uint8), AT_ONCE)))
    [sums] = in_windows(vectors, values, vectors.window.sources(channels))
    alike = np.argwhere(points[0][:, None] == points[0])
    alike = alike[alike[:, 0] < alike[:, 1]]
    for first, second in np.random.default_rng(0).permutation(alike)[:20]:
        assert count_pairs(sums[:, first], sums[:, second]) == CODES**2


@pytest.mark.parametrize("geometry", [window((1, 700), (1, 300)), window((2, 3), (3, 3), pad=1)])
def test_a_window_that_is_too_wide_or_nowhere_whole_has_no_vectors_of_pairs(geometry: Window) -> None:
    vectors = WindowVectors(geometry, 1, 1)
    assert vectors.pair_vectors == 0
    assert list(vectors.pairs(np.dtype(np.uint8), AT_ONCE)) == []


def test_the_sequence_has_every_pair_at_distances_that_are_no_multiple_of_257() -> None:
    sequence = window_vectors._sequence()
    assert len(sequence) == PERIOD
    for distance in (*range(1, POINTS), 258, 300, 1000, 32768, PERIOD - 1):
        assert count_pairs(sequence, np.roll(sequence, -distance)) == PERIOD
    for distance in (POINTS, 5 * POINTS):
        assert count_pairs(sequence, np.roll(sequence, -distance)) == CODES

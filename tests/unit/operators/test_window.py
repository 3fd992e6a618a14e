"""Windows of convolutions: the alignments on which a proof relies, and what it asks of their sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import helper

from harness.core.arrays import Array
from harness.operators.contraction_proof import obligations, single_codes
from harness.operators.obligations import Extent, Outputs, Pairs, Scaled
from harness.operators.qlinear_conv import QLinearConv
from harness.operators.window import Window
from tests.support.codes import layer_of


def windows() -> list[Window]:
    found = []
    for shape, kernel, stride, dilation, before in itertools.product(
        [(5, 7), (1, 9)], [(1, 3), (3, 2)], [(1, 1), (2, 1)], [(1, 1), (1, 2)], [(0, 0), (1, 2)]
    ):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        output = tuple((shape[i] + 2 * before[i] - reach[i]) // stride[i] + 1 for i in (0, 1))
        if min(output) > 0:
            found.append(Window(shape, kernel, stride, dilation, before, (output[0], output[1])))
    return found


@pytest.mark.parametrize("window", windows())
def test_every_whole_window_has_its_values_in_order_in_some_alignment(window: Window) -> None:
    [places] = window.sources(1)
    whole = [row for row in places if row.min() >= 0]
    in_order = np.arange(window.size)
    assert all((window.alignments()[:, row] == in_order).all(axis=1).any() for row in whole)


def convolution(size: int, kernel: int, pads: int, group: int = 1) -> QLinearConv:
    codes = np.zeros((1, 2, size, size), np.uint8)
    constants = {
        "sx": np.float32(0.1),
        "zx": np.uint8(3),
        "w": np.random.default_rng(1).integers(-127, 128, (2, 2 // group, kernel, kernel)).astype(np.int8),
        "sw": np.float32(0.01),
        "zw": np.int8(0),
        "sy": np.float32(0.3),
        "zy": np.uint8(9),
    }
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    node = helper.make_node("QLinearConv", names, ["y"], name="n", pads=[pads] * 4, group=group)
    layer = layer_of(node, constants, {"x": codes})
    assert isinstance(layer, QLinearConv)
    return layer


def pairs_of(layer: QLinearConv) -> Outputs | Pairs:
    of_pairs = Extent(all_floats=False, random_vectors=0)
    [found] = [each.shown for each in obligations(layer, of_pairs) if "depend on another" in each.statement]
    assert isinstance(found, Outputs | Pairs)
    return found


def patches(layer: QLinearConv, vectors: Array) -> Array:
    """The windows inside the image of the first group, (n, K)."""
    marked = np.concatenate([vectors.astype(np.int64)])
    _, rows = next(layer.patches(marked, -1))
    return rows[(rows >= 0).all(axis=1)]


@pytest.mark.slow
@pytest.mark.parametrize("group", [1, 2])
def test_any_two_inputs_of_a_sum_take_every_pair_of_codes(group: int) -> None:
    layer = convolution(6, 2, 1, group)
    shown = pairs_of(layer)
    assert isinstance(shown, Outputs)
    rows = np.concatenate([patches(layer, part) for part in shown.inputs()])
    for first, second in itertools.combinations(range(rows.shape[1]), 2):
        assert len(np.unique(rows[:, first] * 256 + rows[:, second])) == 65_536


def test_without_a_window_inside_the_image_any_two_inputs_of_the_image_take_every_pair() -> None:
    """A kernel of 3 over 2 by 2 values has no sum with all terms: nothing of it may be left untried."""
    assert isinstance(pairs_of(convolution(2, 3, 1)), Pairs)


def test_each_sum_has_one_input_away_from_the_zero_point() -> None:
    layer = convolution(5, 2, 1)
    vectors, sums = map(np.concatenate, zip(*single_codes(layer).cases(), strict=True))
    assert np.array_equal(sums, layer.accumulate()(vectors))
    assert len(vectors) == 256 * 8
    rows = np.concatenate([rows for _, rows in layer.patches(vectors, layer.a_zero_point)])
    away = rows != layer.a_zero_point
    assert (away.sum(axis=1) <= 1).all()
    for term in range(8):
        assert len(np.unique(rows[:, term])) == 256


def single_codes_of(layer: QLinearConv, *, every_position: bool) -> Outputs | Scaled:
    extent = Extent(all_floats=False, every_position=every_position)
    [found] = [each for each in obligations(layer, extent) if "every weight" in each.statement]
    assert isinstance(found.shown, Outputs | Scaled)
    if isinstance(found.shown, Outputs):
        assert found.cases == layer.size * sum(map(len, found.shown.inputs()))
    return found.shown


@pytest.mark.parametrize("group", [1, 2])
def test_each_term_alone_takes_every_code_at_one_position(group: int) -> None:
    layer = convolution(6, 2, 1, group)
    shown = single_codes_of(layer, every_position=False)
    assert isinstance(shown, Outputs)
    vectors = list(shown.inputs())
    rows = np.concatenate([patches(layer, part) for part in vectors])
    alone = rows[(rows != layer.a_zero_point).sum(axis=1) <= 1]
    for term in range(rows.shape[1]):
        assert len(np.unique(alone[:, term])) == 256
    assert sum(map(len, vectors)) < 256 * rows.shape[1]


def test_each_term_alone_takes_every_code_at_every_position() -> None:
    assert isinstance(single_codes_of(convolution(6, 2, 1), every_position=True), Scaled)

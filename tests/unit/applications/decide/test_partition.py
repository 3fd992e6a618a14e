"""Intervals in physical units, the codes that they reach, and regions of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import onnx
import pytest

from harness import model
from harness.applications.decide import code_network
from harness.applications.decide.code_network import CodeNetwork
from harness.applications.decide.partition import Axis, Partition, nearest_float32, partition
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.network import Normalisation
from tests.support.builders import random_network


def network(inputs: int = 1) -> CodeNetwork:
    """A network whose scale is a power of two, so that a cut lies half way between two codes where a test wants it."""
    random = np.random.default_rng(1)
    built: onnx.ModelProto = random_network(random, (inputs, 3, 2), argmax=True, float_output=True, power_of_two=True)
    return code_network.of(model.parse(built.SerializeToString(), "net"))


def boxes(cuts: Sequence[float], *, wraps: bool = False) -> tuple[Partition, float]:
    """Intervals whose cuts are in codes of the network, and its scale."""
    net = network()
    scale = float(net.quantiser.constants()["scale"])
    axis = Axis("x", "", tuple(Fraction(cut) * Fraction(scale) for cut in cuts), wraps)
    return partition([axis], net, None), scale


def test_codes_of_an_interval_are_those_of_its_ends_and_all_between() -> None:
    found, _ = boxes([0, 5, 9.25, 9.4, 12.75])
    [codes] = found.codes
    assert codes.first.tolist() == [0, 5, 9, 9]
    assert codes.last.tolist() == [5, 9, 9, 13]
    assert (codes.low, codes.high, found.code_vectors) == (0, 13, 14)


def test_a_code_counts_for_every_interval_that_reaches_it() -> None:
    found, _ = boxes([0, 5, 9.25, 9.4, 12.75])
    [codes] = found.codes
    assert codes.members == ((0,), (0, 1), (1,), (1, 2, 3), (3,))
    assert codes.segment[:14].tolist() == [0] * 5 + [1] + [2] * 3 + [3] + [4] * 4


def test_half_way_between_two_codes_the_even_one_is_reached() -> None:
    found, _ = boxes([0.5, 2.5, 3.5])
    assert found.codes[0].first.tolist() == [0, 2]
    assert found.codes[0].last.tolist() == [2, 4]


def test_clamped_codes_absorb_what_is_beyond_them() -> None:
    found, _ = boxes([-300, 3, 254, 400])
    assert found.codes[0].first.tolist() == [0, 3, 254]
    assert found.codes[0].last.tolist() == [3, 254, 255]


def test_regions_are_united_by_interval() -> None:
    found, _ = boxes([0, 5, 9.25, 9.4, 12.75])
    regions = np.array([1, 2, 4, 8, 16], np.uint8)
    assert found.by_box(regions, range(1)).tolist() == [3, 14, 8, 24]


def test_the_ends_of_an_axis_that_wraps_count_for_both() -> None:
    found, _ = boxes([0, 5, 10, 15], wraps=True)
    regions = np.array([1 << place for place in range(len(found.codes[0].members))], np.uint8)
    first, _, last = found.by_box(regions, range(1)).tolist()
    assert first & 1, "its own code"
    assert first & regions[-1], "the code of the other end"
    assert last & 1
    assert last & regions[-1]
    assert [(low.tolist(), high.tolist()) for low, high in found.code_boxes([0])] == [([0], [5]), ([15], [15])]


def test_inputs_of_witnesses_lie_in_their_box_and_have_their_code() -> None:
    net = network()
    found, scale = boxes([0, 5, 9.25, 9.4, 12.75])
    numbers = np.array([[0], [1], [2], [3], [3]])
    codes = np.array([[5], [5], [9], [9], [13]], np.uint8)
    inputs = found.inputs(numbers, codes, net)
    np.testing.assert_array_equal(net.codes(inputs), codes)
    cuts = np.array([0, 5, 9.25, 9.4, 12.75]) * scale
    assert (inputs[:, 0] >= cuts[numbers[:, 0]] - 1e-7).all()
    assert (inputs[:, 0] <= cuts[numbers[:, 0] + 1] + 1e-7).all()
    with pytest.raises(RequestError, match="no value"):
        found.inputs(np.array([[2]]), np.array([[5]], np.uint8), net)


@pytest.mark.slow
def test_every_code_of_every_interval_has_an_input() -> None:
    net = code_network.of(model.load(ROOT / "models" / "acas_coc.onnx"))
    full = model.load(ROOT / "models" / "acas_coc.onnx")
    assert full.normalisation is not None
    cuts = ((0, 125, 250, 60000), (-math.pi, 0, math.pi), (-math.pi, math.pi), (100, 1200), (0, 600, 1200))
    axes = [
        Axis(name, unit, tuple(map(Fraction, each)))
        for name, unit, each in zip(full.normalisation.names, full.normalisation.units, cuts, strict=True)
    ]
    found = partition(axes, net, full.normalisation)
    assert [(codes.low, codes.high) for codes in found.codes] == [(0, 240)] * 3 + [(20, 240), (0, 240)]
    assert found.code_vectors == 241**4 * 221
    for axis, codes in enumerate(found.codes):
        for interval in range(found.shape[axis]):
            for code in range(int(codes.first[interval]), int(codes.last[interval]) + 1):
                found.input_of(axis, interval, code, net)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Fraction(1, 3), np.float32(1 / 3)),
        (Fraction(2**24 + 1), np.float32(2**24)),
        (Fraction(2**24 + 3), np.float32(2**24 + 4)),
        (Fraction(1) + Fraction(1, 2**24) + Fraction(1, 2**80), np.float32(1 + 2**-23)),  # not by way of a double
        (Fraction(1, 2**149), np.float32(2**-149)),
        (Fraction(-1, 7), np.float32(-1 / 7)),
    ],
)
def test_rational_numbers_become_the_nearest_float32(value: Fraction, expected: np.float32) -> None:
    assert nearest_float32(value).tobytes() == expected.tobytes()


def test_a_number_beyond_float32_is_refused() -> None:
    for value in (Fraction(10) ** 39, Fraction(10) ** 400):
        with pytest.raises(RequestError, match="no float32"):
            nearest_float32(value)


def test_other_inputs_and_a_negative_range_are_refused() -> None:
    net, cuts = network(2), (Fraction(0), Fraction(1))
    with pytest.raises(RequestError, match="has the inputs 2 axes"):
        partition([Axis("x", "", cuts)], net, None)
    named = Normalisation(("a", "b"), ("", ""), (0, 0), (1, 1))
    with pytest.raises(RequestError, match="has the inputs a, b"):
        partition([Axis("b", "", cuts), Axis("a", "", cuts)], net, named)
    negative = Normalisation(("a", "b"), ("", ""), (0, 0), (1, -1))
    with pytest.raises(RequestError, match="negative"):
        partition([Axis("a", "", cuts), Axis("b", "", cuts)], net, negative)

"""Blame and effect."""

from __future__ import annotations

import dataclasses

import numpy as np

from harness.analysis.diagnosis import cases
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.reference import SpecificationReference
from tests.support.diagnosis.layers import network

NET = network((5, 8, 8, 8, 4), seed=7)
VECTORS = np.random.default_rng(2).uniform(*NET.box, (300, 5)).astype(np.float32)
RIGHT = SpecificationReference(NET).activations(VECTORS)


def with_wrong_bias(*indices: int) -> Network:
    """The network as a board computes it whose biases of these layers are 0."""
    layers = [
        dataclasses.replace(layer, bias=np.zeros_like(layer.bias))
        if isinstance(layer, QGemm) and index in indices
        else layer
        for index, layer in enumerate(NET.layers)
    ]
    return dataclasses.replace(NET, layers=tuple(layers))


def dumped(*indices: int) -> dict[int, Array]:
    return dict(enumerate(SpecificationReference(with_wrong_bias(*indices)).activations(VECTORS)))


def test_nothing_differs() -> None:
    assert list(cases(NET, VECTORS, RIGHT, dict(enumerate(RIGHT)))) == []
    assert list(cases(NET, VECTORS, RIGHT, {})) == []


def test_effects_are_not_blamed() -> None:
    found = list(cases(NET, VECTORS, RIGHT, dumped(2), start=40, block=10))
    assert [case.index for case in found] == [2, 3, 4]
    assert [case.own > 0 for case in found] == [True, False, False]
    assert all((case.start, case.block) == (40, 10) for case in found)
    assert found[0].expected is RIGHT[2]
    assert np.array_equal(found[0].inputs[0], RIGHT[1])
    assert (found[1].actual != RIGHT[3]).any(), "it differs, but not by its own fault"


def test_every_layer_that_is_wrong_itself_is_blamed_for_its_part_alone() -> None:
    found = {case.index: case for case in cases(NET, VECTORS, RIGHT, dumped(1, 3))}
    assert [index for index, case in found.items() if case.own] == [1, 3]
    wrong = SpecificationReference(with_wrong_bias(1)).activations(VECTORS)
    assert np.array_equal(found[3].expected, wrong[3])
    assert found[3].own == (wrong[3] != dumped(1, 3)[3]).sum()


def test_what_was_not_fetched_equals_the_reference() -> None:
    """Layer 2 turns wrong inputs into the right outputs by accident: that is a fault of its own."""
    dumps = {1: dumped(1)[1]}
    found = list(cases(NET, VECTORS, RIGHT, dumps))
    assert [case.index for case in found] == [1, 2]
    assert found[1].actual is RIGHT[2]
    assert found[1].own == (dumped(1)[2] != RIGHT[2]).sum() > 0


def test_a_sum_is_not_blamed_for_terms_that_are_not_finite() -> None:
    """No reference says what their sum is, nor which score is the largest."""
    net = network((4, 3), seed=3, residual=2, argmax=True)
    vectors = np.random.default_rng(2).uniform(*net.box, (40, 4)).astype(np.float32)
    right = SpecificationReference(net).activations(vectors)
    terms = right[1].copy()
    terms[:10] = np.float32([np.inf, np.nan, -3e38])
    total = terms + right[2]
    advisory = np.where(np.isnan(total).any(axis=1, keepdims=True), 0, total.argmax(axis=1, keepdims=True))
    found = list(cases(net, vectors, right, {1: terms, 3: total, 4: advisory}))
    assert [(case.layer.operator, case.own) for case in found] == [("QGemm", 30), ("Add", 0), ("ArgMax", 0)]

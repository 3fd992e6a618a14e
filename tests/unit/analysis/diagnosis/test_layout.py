"""Right values in the wrong place are recognised, and a few that fit by chance prove nothing."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.operators.add import Add
from harness.operators.tensor import FLOAT32, Tensor
from tests.support.diagnosis.layers import causes, codes, found, network, qgemm

LAYER = qgemm(network((7, 10)))
INPUTS = codes(LAYER, 250)
RIGHT = LAYER.prepare()(INPUTS)
BLOCK = 40
STALE = "it reads what belongs to the vector one block {}: a missing barrier, a stale buffer"


def stale(values: Array, *, first: Array) -> Array:
    """Every vector's output is that of the vector one block before it; the first block's is `first`."""
    return np.concatenate([np.repeat(first, BLOCK, axis=0), values[:-BLOCK]])


def test_a_missing_barrier_is_named_whether_the_race_is_always_lost_or_sometimes() -> None:
    of_zeros = LAYER.prepare()(np.zeros((1, 7), np.uint8))
    always = stale(RIGHT, first=of_zeros)
    sometimes = np.where(np.random.default_rng(1).random((250, 1)) < 0.3, always, RIGHT)
    for actual in (always, sometimes):
        assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == [STALE.format("earlier")]


def test_vectors_that_are_overwritten_while_they_are_read_do_not_hide_a_missing_barrier() -> None:
    """Each column of two vectors has seen another mixture of the vector and the one before it."""
    actual = stale(RIGHT, first=LAYER.prepare()(np.zeros((1, 7), np.uint8)))
    for vector, cuts in ((100, range(10)), (200, range(3, 13))):
        for column, cut in enumerate(cuts):
            mixed = np.concatenate([INPUTS[vector, :cut], INPUTS[vector - BLOCK, cut:]])
            actual[vector, column] = LAYER.prepare()(mixed[None])[0, column]
    assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == [STALE.format("earlier")]
    actual[100, 4] ^= 0x5A
    assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == []


@pytest.mark.parametrize("whole", [0, 60])
def test_many_torn_vectors_are_no_evidence(whole: int) -> None:
    actual = RIGHT.copy()
    actual[250 - whole :] = RIGHT[250 - whole - BLOCK : 250 - BLOCK]
    for vector in range(BLOCK, 180, 5):
        mixed = np.concatenate([INPUTS[vector, :3], INPUTS[vector - BLOCK, 3:]])
        actual[vector] = LAYER.prepare()(mixed[None])[0]
    assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == []


def test_a_buffer_that_is_overwritten_too_early_is_named() -> None:
    actual = np.concatenate([RIGHT[BLOCK:], RIGHT[-BLOCK:]])
    assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == [STALE.format("later")]


def test_another_distance_than_the_block_is_no_stale_buffer() -> None:
    actual = np.roll(RIGHT, BLOCK - 1, axis=0)
    assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == []


def test_of_two_sources_the_stale_one_is_named() -> None:
    left, right, y = (Tensor(name, (4,), FLOAT32) for name in ("left", "right", "y"))
    layer = Add("sum", "sum", "Add", (left, right), y, None)
    a, b = np.random.default_rng(6).normal(0, 1, (2, 250, 4)).astype(np.float32)
    actual = a + np.concatenate([np.zeros((BLOCK, 4), np.float32), b[:-BLOCK]])
    assert causes(found(layer, (a, b), actual, block=BLOCK)) == [STALE.format("earlier") + ", of right"]


def test_a_few_values_that_fit_by_chance_name_nothing() -> None:
    """One value of one vector of a layer of width 1 is what the vector before it has."""
    layer = qgemm(network((7, 1)))
    inputs = codes(layer, 250)
    right = layer.prepare()(inputs)
    actual = right.copy()
    vector = next(v for v in range(1, 250) if right[v] != right[v - 1])
    actual[vector] = right[vector - 1]
    diagnosis = found(layer, inputs, actual)
    assert diagnosis.differing == 1
    assert not any("stale" in cause for cause in causes(diagnosis))


@pytest.mark.parametrize(("tail", "end"), [(2, "zeros"), (1, "zeros"), (2, "always the same values")])
def test_forgotten_columns_are_named(tail: int, end: str) -> None:
    actual = RIGHT.copy()
    actual[:, -tail:] = 0 if end == "zeros" else [[17, 99]]
    assert causes(found(LAYER, INPUTS, actual))[0] == f"the last {tail} of 10 columns are not computed: {end}"


def test_a_layer_that_computes_nothing_is_named() -> None:
    assert causes(found(LAYER, INPUTS, np.zeros_like(RIGHT)))[0] == "nothing is computed: zeros"


def test_columns_that_keep_their_old_content_are_named() -> None:
    actual = RIGHT.copy()
    actual[:, -2:] = stale(RIGHT, first=np.zeros_like(RIGHT[:1]))[:, -2:]
    cause = "the last 2 of 10 columns are not computed: what was there one block earlier"
    assert causes(found(LAYER, INPUTS, actual, block=BLOCK)) == [cause]


@pytest.mark.parametrize(("shift", "name"), [(1, "right"), (-1, "left")])
def test_moved_columns_are_named_whatever_comes_in_at_the_end(shift: int, name: str) -> None:
    actual = np.roll(RIGHT, shift, axis=1)
    cause = f"the columns are moved by one to the {name}"
    assert causes(found(LAYER, INPUTS, actual)) == [cause, "the columns are in another order"]
    actual[:, 0 if shift > 0 else -1] = np.arange(250) % 256
    assert causes(found(LAYER, INPUTS, actual)) == [cause]


def test_permuted_columns_are_named() -> None:
    actual = RIGHT[:, [3, 1, 2, 0, 5, 4, 9, 7, 8, 6]]
    assert causes(found(LAYER, INPUTS, actual)) == ["the columns are in another order"]


def test_swapped_bytes_of_an_output_are_named() -> None:
    layer = qgemm(network((7, 10), float_output=True))
    inputs = codes(layer, 100)
    actual = np.frombuffer(layer.prepare()(inputs).astype(">f4").tobytes(), "<f4").reshape(100, 10)
    assert causes(found(layer, inputs, actual)) == ["the bytes of the output are in the other order"]

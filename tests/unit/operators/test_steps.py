"""Steps against brute force: the operators one input at a time, and every output of a sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.network import Network
from harness.operators import sweeps
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.sweeps import FLOATS, StepFunction, Sweep
from tests.support import builders
from tests.support.examples import examples
from tests.support.programs.board_program import parse
from tests.support.programs.chains import chain, qgemm, quantize

Array = npt.NDArray[Any]
Row = tuple[int, int, int]

SMALLEST, LARGEST = 0x00800000, 0x7F7FFFFF  # the bits of the positive normal float32 numbers


# QuantizeLinear as a function of the bits of its input.


@st.composite
def quantizations(draw: st.DrawFn) -> QuantizeLinear:
    """Any scale, half of them such as occur; any zero point."""
    dtype = draw(st.sampled_from(["uint8", "int8"]))
    limits = np.iinfo(np.dtype(dtype))
    scale = draw(st.one_of(st.floats(2.0**-13, 10, width=32), st.integers(SMALLEST, LARGEST).map(_float)))
    zero_point = draw(st.one_of(st.sampled_from([limits.min, 0, limits.max]), st.integers(limits.min, limits.max)))
    layer = chain([quantize(scale, zero_point, dtype)], (dtype, 1), 1).layers[0]
    assert isinstance(layer, QuantizeLinear)
    return layer


def _float(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def quantized(layer: QuantizeLinear, bits: Array) -> Array:
    """The codes by the formula, in float32."""
    codes = np.iinfo(layer.dtype)
    with np.errstate(all="ignore"):
        v = bits.astype(np.uint32).view(np.float32) / layer.scale
    v = np.where(v > codes.min - layer.zero_point, v, np.float32(codes.min - layer.zero_point))  # NaN too
    v = np.where(v < codes.max - layer.zero_point, v, np.float32(codes.max - layer.zero_point))
    return (np.rint(v) + layer.zero_point).astype(layer.dtype)


SPECIAL_BITS = [0, 1, SMALLEST - 1, SMALLEST, LARGEST, LARGEST + 1, LARGEST + 2, 0x7FC00000, 0x7FFFFFFF]
SPECIAL_BITS += [bits + (1 << 31) for bits in SPECIAL_BITS]


@pytest.mark.slow
@examples(60)
@given(quantizations(), st.integers(0, 2**32 - 1))
def test_the_staircase_of_floats_is_quantize_linear(layer: QuantizeLinear, seed: int) -> None:
    stairs = layer.step_function()
    drawn = np.random.default_rng(seed).integers(0, FLOATS, 500)
    edges = (stairs.starts[:, None] + np.arange(-2, 3)).reshape(-1)
    bits = np.concatenate([SPECIAL_BITS, drawn, edges[(edges >= 0) & (edges < FLOATS)]])
    right = quantized(layer, bits)
    assert [stairs.at(value) for value in bits.tolist()] == right.tolist()
    inputs = bits.astype(np.uint32).view(np.float32)[:, None]
    assert np.array_equal(layer.prepare()(inputs)[:, 0], right)


@examples(60)
@given(quantizations())
def test_the_staircase_of_floats_starts_at_0_and_has_no_idle_step(layer: QuantizeLinear) -> None:
    stairs = layer.step_function()
    assert stairs.starts[0] == 0
    assert (np.diff(stairs.starts) > 0).all()
    assert (stairs.codes[1:] != stairs.codes[:-1]).all()
    assert stairs.codes.dtype == layer.dtype
    assert stairs.starts[-1] < FLOATS


# The requantisation as a function of the accumulator.


def requantized(layer: QGemm, accumulators: Array, column: int) -> Array:
    """The codes by the formula, in float32."""
    codes = np.iinfo(layer.dtype)
    v = accumulators.astype(np.float32) * layer.multiplier[column]
    return np.clip(np.rint(v).astype(np.int64) + layer.y_zero_point, codes.min, codes.max).astype(layer.dtype)


@examples(15)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]),
    st.booleans(),
    st.booleans(),
)
def test_the_staircases_of_accumulators_are_the_requantisation(
    seed: int, kinds: tuple[str, str], per_column: bool, power_of_two: bool
) -> None:
    """At every accumulator there is."""
    rng, (activations, weights) = np.random.default_rng(seed), kinds
    model = builders.random_network(
        rng,
        (3, 2),
        activations=activations,
        weights=weights,
        per_column=per_column,
        power_of_two=power_of_two,
        zero_points=True,
    )
    layer = parse(model).layers[1]
    assert isinstance(layer, QGemm)
    bounds = zip(layer.step_functions(), *layer.accumulator_bounds(), strict=True)
    for column, (stairs, low, high) in enumerate(bounds):
        accumulators = np.arange(low, high + 1)
        found = stairs.codes[np.searchsorted(stairs.starts, accumulators, side="right") - 1]
        assert np.array_equal(found, requantized(layer, accumulators, column))
        assert stairs.starts[0] == low
        assert (stairs.codes[1:] != stairs.codes[:-1]).all()


@pytest.mark.parametrize("bias", [2**31 - 2 - 255 * 127, -(2**31) + 255 * 128])
def test_the_staircases_reach_the_ends_of_int32(bias: int) -> None:
    layer = _layer(np.array([[127, -128, 0]], np.int8), np.array([bias, bias, bias]), scale=2.0**-24)
    sweep, stairs = layer.sweep(), layer.step_functions()
    for column, (start, count) in enumerate(zip(sweep.start.tolist(), sweep.count.tolist(), strict=True)):
        edges = start + np.array([0, min(1, count - 1), count // 2, count - 1])
        found = [stairs[column].at(value) for value in edges.tolist()]
        assert found == requantized(layer, edges, column).tolist()
    rows = sweeps.expected(stairs, sweep)
    assert rows[:3, 1].tolist() == [0, 0, 0]
    assert (rows[:, 1] < sweep.count[rows[:, 0]]).all()


def _layer(weights: Array, bias: Array, scale: float) -> QGemm:
    nodes = [quantize(1, 0, "uint8"), qgemm(weights, bias, np.full(1, scale), (1.0, 128))]
    layer = chain(nodes, ("uint8", weights.shape[1]), len(weights)).layers[1]
    assert isinstance(layer, QGemm)
    return layer


# Sweeps: what they pass, and what their steps are.


@given(st.integers(1, 300_000))
@examples(100)
def test_a_float_sweep_passes_every_float_once(columns: int) -> None:
    sweep = sweeps.float_sweep(columns)
    assert len(sweep.start) == len(sweep.count) == columns
    assert (sweep.start[0], (sweep.start + sweep.count)[-1], sweep.cases) == (0, FLOATS, FLOATS)
    assert np.array_equal(sweep.start[1:], (sweep.start + sweep.count)[:-1])
    assert (sweep.count >= 0).all()
    assert sweep.vectors * columns < FLOATS + columns


def test_an_accumulator_sweep_passes_each_column_between_its_bounds() -> None:
    layer = _layer(np.array([[2, -3, 0, 1], [1, 0, 0, -1]], np.int8), np.array([10, 20, 30, 40]), scale=1e-3)
    sweep = layer.sweep()
    low, high = [10, 20 - 765, 30, 40 - 255], [10 + 765, 20, 30, 40 + 255]
    assert sweep.start.tolist() == low
    assert (sweep.start + sweep.count - 1).tolist() == high
    assert (sweep.vectors, sweep.cases) == (766, 766 + 766 + 1 + 511)


def test_the_values_of_a_sweep_wrap_around() -> None:
    sweep = Sweep(np.array([-2, 2**31 - 1, 2**32 - 1]), np.array([2, 4, 1]))
    assert sweep.values().tolist() == [
        [2**32 - 2, 2**31 - 1, 2**32 - 1],
        [2**32 - 1, 2**31, 0],
        [0, 2**31 + 1, 1],
        [1, 2**31 + 2, 2],
    ]
    assert sweep.values(1).tolist() == [[2**32 - 2, 2**31 - 1, 2**32 - 1]]
    assert sweep.values().dtype == np.uint32


def test_the_first_vectors_of_a_sweep_are_a_shorter_sweep() -> None:
    sweep = Sweep(np.array([5, 6, 7]), np.array([0, 3, 9]))
    assert (sweep.first(4).start.tolist(), sweep.first(4).count.tolist()) == ([5, 6, 7], [0, 3, 4])
    assert [sweep.first(vectors).cases for vectors in (0, 3, 9, 99)] == [0, 6, 12, 12]


@st.composite
def swept(draw: st.DrawFn) -> tuple[list[StepFunction], Sweep]:
    """Staircases over -40 to 39, and a sweep with a column for each, some of which have nothing to pass."""
    columns = draw(st.integers(1, 4))
    count = draw(st.lists(st.integers(0, 30), min_size=columns, max_size=columns).filter(any))
    start = draw(st.lists(st.integers(-40, 9), min_size=columns, max_size=columns))
    return [draw(staircases()) for _ in range(columns)], Sweep(np.array(start), np.array(count))


@st.composite
def staircases(draw: st.DrawFn) -> StepFunction:
    """No two steps have the same code one after the other."""
    starts = sorted({-40, *draw(st.lists(st.integers(-39, 39), max_size=12))})
    codes = [draw(st.integers(-128, 127))]
    for _ in starts[1:]:
        codes.append(draw(st.integers(-128, 127).filter(lambda code: code != codes[-1])))
    return StepFunction(np.array(starts), np.array(codes, np.int8))


def outputs_of(stairs: list[StepFunction], sweep: Sweep) -> Array:
    """Every output of a sweep, a shorter column running on: (vectors, N)."""
    columns = [
        [max(pair for pair in zip(each.starts, each.codes, strict=True) if pair[0] <= start + vector)[1]
         for vector in range(sweep.vectors)]
        for each, start in zip(stairs, sweep.start.tolist(), strict=True)
    ]  # fmt: skip
    return np.array(columns, np.int8).T


def rows_of(outputs: Array, count: Array) -> list[Row]:
    """Column, vector and output of the first vector, and of every change before the column's end."""
    codes = outputs.view(np.uint8).tolist()
    return [
        (column, vector, code)
        for vector, row in enumerate(codes)
        for column, code in enumerate(row)
        if vector < count[column] and (vector == 0 or code != codes[vector - 1][column])
    ]


def as_rows(found: Array) -> list[Row]:
    assert found.dtype == np.uint32
    return [(column, vector, code) for column, vector, code in found.tolist()]


@pytest.mark.slow
@given(swept())
def test_the_expected_steps_tell_every_output(case: tuple[list[StepFunction], Sweep]) -> None:
    stairs, sweep = case
    outputs = outputs_of(stairs, sweep)
    right = rows_of(outputs, sweep.count)
    assert as_rows(sweeps.expected(stairs, sweep)) == right
    assert as_rows(sweep.within(sweeps.of_outputs(outputs))) == right
    assert as_rows(sweeps.of_outputs(outputs)) == rows_of(outputs, np.full(outputs.shape[1], len(outputs)))


@pytest.mark.slow
@given(swept(), st.integers(0, 2**32 - 1))
def test_each_code_of_a_staircase(case: tuple[list[StepFunction], Sweep], seed: int) -> None:
    stairs, sweep = case
    outputs = outputs_of(stairs, sweep)
    vector = np.random.default_rng(seed).integers(sweep.vectors)
    for column, each in enumerate(stairs):
        assert each.at(int(sweep.start[column]) + int(vector)) == outputs[vector, column]


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_the_first_difference_of_steps_is_that_of_the_outputs(
    columns: int, vectors: int, changes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    one = rng.integers(0, 3, (vectors, columns)).astype(np.uint8)
    other = one.copy()
    for _ in range(changes):
        other[rng.integers(vectors), rng.integers(columns)] = rng.integers(0, 3)
    different = np.argwhere(one != other)
    right = (int(different[0][1]), int(different[0][0])) if len(different) else None
    assert sweeps.first_difference(sweeps.of_outputs(one), sweeps.of_outputs(other)) == right
    assert sweeps.first_difference(sweeps.of_outputs(other), sweeps.of_outputs(one)) == right


def test_steps_that_are_missing_at_the_end_are_a_difference() -> None:
    wanted = np.array([[0, 0, 5], [1, 0, 7], [1, 9, 8]], np.uint32)
    assert sweeps.first_difference(wanted, wanted[:2]) == (1, 9)
    assert sweeps.first_difference(wanted[:0], wanted) == (0, 0)
    assert sweeps.first_difference(wanted, wanted) is None


def test_a_network_of_one_column_and_one_input() -> None:
    net: Network = parse(builders.random_network(np.random.default_rng(1), (1, 1)))
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    sweep = layer.sweep()
    assert sweep.cases == sweep.vectors == 1 + 255 * abs(int(layer.weights[0, 0]))
    assert sweeps.expected(layer.step_functions(), sweep)[0, :2].tolist() == [0, 0]

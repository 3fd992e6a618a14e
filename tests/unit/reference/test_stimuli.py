from __future__ import annotations

import hashlib
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from harness.core.errors import RequestError
from harness.model import parse
from harness.model.network import Network
from harness.operators import exact
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import BLOCK, PATTERN, SPECIAL_PERIOD, VectorKind, stimuli, tie_bank, uniform
from harness.reference.vector_files import from_file
from tests.support.builders import make_model, random_network
from tests.support.examples import examples

Array = npt.NDArray[Any]


def make(seed: int, widths: tuple[int, ...] = (5, 50, 50, 5), **options: Any) -> Network:
    model = random_network(np.random.default_rng(seed), widths, **options)
    return parse(model.SerializeToString(), "test")


ORDINARY = make(1, (5, 50, 50, 50, 50, 50, 50, 50, 50, 5))
POWERS = make(2, power_of_two=True)


def rows_of(kind: VectorKind, vectors: Array) -> Array:
    return vectors[[index for index in range(len(vectors)) if PATTERN[index % len(PATTERN)] is kind]]


# Determinism.


@pytest.fixture(scope="module")
def whole() -> Array:
    return stimuli(POWERS, 3 * BLOCK - 5, seed=7).chunk(0, 3 * BLOCK - 5)


@examples(25)
@given(st.integers(0, 3 * BLOCK), st.integers(0, 3 * BLOCK))
def test_any_slice_is_made_again_identically(whole: Array, one: int, other: int) -> None:
    start, stop = sorted((one, other))
    chunk = stimuli(POWERS, 3 * BLOCK - 5, seed=7).chunk(start, stop)
    assert chunk.dtype == np.float32
    assert chunk.flags.c_contiguous
    assert chunk.tobytes() == whole[start:stop].tobytes()


def test_first_vectors_are_the_same_for_every_count(whole: Array) -> None:
    assert np.array_equal(stimuli(POWERS, 100, seed=7).chunk(0, 100), whole[:100])


def test_few_vectors_take_no_memory_for_a_whole_block() -> None:
    source = stimuli(ORDINARY, 5, seed=1)
    source.chunk(0, 5)  # the bank of ties is searched once
    tracemalloc.start()
    vectors = source.chunk(0, 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < BLOCK * vectors.nbytes // 10


def test_another_seed_gives_other_vectors(whole: Array) -> None:
    other = stimuli(POWERS, 1000, seed=8).chunk(0, 1000)
    assert (rows_of(VectorKind.UNIFORM, other) != rows_of(VectorKind.UNIFORM, whole[:1000])).mean() > 0.99


def test_the_largest_seeds_are_told_apart() -> None:
    first, *others = (stimuli(POWERS, 10, seed).chunk(0, 10) for seed in (2**64 - 1, 2**64 - 2, 2**63, 0))
    assert not any(np.array_equal(first, other) for other in others)


def test_vectors_of_a_seed_never_change() -> None:
    """A recorded seed must give the recorded run: a change here is a change of every old run."""
    content = stimuli(make(3, (2, 3)), 640, seed=5).chunk(0, 640).tobytes()
    assert hashlib.sha256(content).hexdigest() == "8063503ee6e5adacb1b4136040735c81b7d1d92654a1b4f3c21c506fbc1526f1"


# The kinds.


def test_all_vectors_lie_in_the_box(whole: Array) -> None:
    low, high = POWERS.box
    assert (whole >= low).all()
    assert (whole <= high).all()


def test_uniform_vectors_fill_the_box(whole: Array) -> None:
    low, high = POWERS.box
    position = (rows_of(VectorKind.UNIFORM, whole) - low) / (high - low)
    assert np.abs(np.histogram(position, 10, (0, 1))[0] / position.size - 0.1).max() < 0.01


def test_vectors_without_other_kinds_are_uniform_over_the_box() -> None:
    width = POWERS.vector.size
    high = np.geomspace(1, 1e6, width)
    box = np.array([np.zeros(width), high], np.float32)
    network = replace(POWERS, box=box)
    found = uniform(network, 7, 1000)
    assert (found.shape, found.dtype) == ((1000, width), np.float32)
    assert ((box[0] <= found) & (found <= box[1])).all()
    np.testing.assert_allclose(found.mean(axis=0) / high, np.full(width, 0.5), atol=0.1)
    assert (uniform(network, 7, 1000) == found).all()
    assert (uniform(network, 8, 1000) != found).any()


def test_corners_are_at_the_bounds(whole: Array) -> None:
    low, high = POWERS.box
    corners = rows_of(VectorKind.CORNER, whole)
    assert np.isclose((corners == low).mean(), 0.4, atol=0.03)
    assert np.isclose((corners == high).mean(), 0.4, atol=0.03)
    assert {tuple(row) for row in (corners == high)[((corners == low) | (corners == high)).all(axis=1)]} >= {
        (False,) * 5,
        (True,) * 5,
        (True, False, True, False, True),
    }


@pytest.mark.parametrize("parsed", [ORDINARY, POWERS], ids=["ordinary", "powers of two"])
def test_boundaries_meet_both_sides_of_every_code(parsed: Network) -> None:
    layer = parsed.layers[0]
    assert isinstance(layer, QuantizeLinear)
    vectors = rows_of(VectorKind.BOUNDARY, stimuli(parsed, 4 * BLOCK, seed=1).chunk(0, 4 * BLOCK))
    key = exact.ordered(vectors)
    steps = layer.thresholds()
    assert set(key.ravel().tolist()) == set(steps.tolist()) | set((steps - 1).tolist())


@pytest.mark.parametrize("parsed", [ORDINARY, POWERS], ids=["ordinary", "powers of two"])
def test_input_ties_are_exactly_half_way(parsed: Network) -> None:
    layer = parsed.layers[0]
    assert isinstance(layer, QuantizeLinear)
    quotient = rows_of(VectorKind.INPUT_TIE, stimuli(parsed, BLOCK, seed=1).chunk(0, BLOCK)) / layer.scale
    assert (quotient - np.floor(quotient) == 0.5).all()
    assert len(np.unique(quotient)) > 200


def meets_tie(parsed: Network, vectors: Array) -> Array:
    """Whether each vector has a product half way between two codes in some layer, by plain float32 arithmetic."""
    activations = SpecificationReference(parsed).activations(vectors)
    met = np.zeros(len(vectors), bool)
    for layer, a in zip(parsed.layers[1:], activations, strict=False):
        assert isinstance(layer, QGemm)
        acc = layer.bias + (a.astype(np.int64) - layer.a_zero_point) @ (layer.weights - layer.weights_zero_point)
        product = acc.astype(np.float32) * layer.multiplier
        code = product + layer.y_zero_point
        info = np.iinfo(layer.dtype)
        met |= ((product - np.floor(product) == 0.5) & (code > info.min) & (code < info.max)).any(axis=1)
    return met


@pytest.mark.parametrize(("parsed", "least"), [(ORDINARY, 5), (POWERS, 5000)], ids=["ordinary", "powers of two"])
def test_bank_holds_only_vectors_that_meet_a_tie_and_they_are_placed(parsed: Network, least: int) -> None:
    bank = tie_bank(parsed)
    assert len(bank) >= least
    assert meets_tie(parsed, bank).all()
    placed = rows_of(VectorKind.ACCUMULATOR_TIE, stimuli(parsed, 2 * BLOCK, seed=1).chunk(0, 2 * BLOCK))
    count = min(len(bank), len(placed))
    assert np.array_equal(placed[:count], bank[:count])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "least"), [({}, 2), ({"power_of_two": True}, 400)], ids=["ordinary", "powers of two"]
)
def test_bank_of_a_residual_network_meets_ties_where_its_sums_are_quantised(options: Any, least: int) -> None:
    parsed = make(4, (5, 50, 50, 50, 5), residual=2, **options)
    bank = tie_bank(parsed)
    activations = dict(
        zip(
            (layer.output.name for layer in parsed.layers),
            SpecificationReference(parsed).activations(bank),
            strict=True,
        )
    )
    met = np.zeros(len(bank), bool)
    for layer in parsed.layers[1:]:
        if isinstance(layer, QuantizeLinear):
            v = activations[layer.sources[0]] / layer.scale
            met |= ((v - np.floor(v) == 0.5) & (v > 0) & (v < 255)).any(axis=1)
    assert len(bank) >= least
    assert met.all()


def test_ties_decide_between_rounding_rules() -> None:
    """The bank of an ordinary network holds a vector that rounding half away from zero gets wrong."""
    bank = tie_bank(ORDINARY)
    differing = 0
    activations = SpecificationReference(ORDINARY).activations(bank)
    for layer, a, codes in zip(ORDINARY.layers[1:], activations, activations[1:], strict=False):
        assert isinstance(layer, QGemm)
        product = (layer.bias + a.astype(np.int64) @ layer.weights.astype(np.int64)).astype(
            np.float32
        ) * layer.multiplier
        away = np.clip(np.copysign(np.floor(np.abs(product) + np.float32(0.5)), product), 0, 255)
        differing += int((away != codes).sum())
    assert differing > 0


def test_special_vectors_come_only_when_asked_for() -> None:
    plain = stimuli(POWERS, BLOCK, seed=1).chunk(0, BLOCK)
    special = stimuli(POWERS, BLOCK, seed=1, special=True).chunk(0, BLOCK)
    replaced = np.arange(BLOCK) % SPECIAL_PERIOD == 0
    assert np.isfinite(plain).all()
    assert plain[~replaced].tobytes() == special[~replaced].tobytes()
    assert ((plain[replaced] != special[replaced]).sum(axis=1) == 1).all()
    assert {"nan", "inf", "-inf", "-0.0", "1e-45"} <= {str(value) for value in special[replaced].ravel()}


@pytest.mark.parametrize("count", [1, 64, 5000])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("parsed", [ORDINARY, POWERS], ids=["ordinary", "powers of two"])
def test_description_counts_every_vector_once(parsed: Network, count: int, special: bool) -> None:
    described = stimuli(parsed, count, seed=1, special=special).describe()
    assert sum(described.values()) == count
    kinds = [PATTERN[index % len(PATTERN)] for index in range(count)]
    assert described.get(VectorKind.SPECIAL.value, 0) == (-(-count // SPECIAL_PERIOD) if special else 0)
    assert described.get(VectorKind.BOUNDARY.value, 0) == kinds.count(VectorKind.BOUNDARY)
    ties = min(kinds.count(VectorKind.ACCUMULATOR_TIE), len(tie_bank(parsed)))
    assert described.get(VectorKind.ACCUMULATOR_TIE.value, 0) == ties


def test_box_without_codes_boundaries_gets_uniform_vectors() -> None:
    model = random_network(np.random.default_rng(0), [3, 4])
    for entry in model.metadata_props:
        entry.value = "[0.25, 0.25, 0.25]"
    parsed = parse(model.SerializeToString(), "point")
    assert (stimuli(parsed, 100, seed=1).chunk(0, 100) == np.float32(0.25)).all()


@pytest.mark.parametrize(("count", "seed"), [(0, 1), (5, -1), (5, 2**64)])
def test_impossible_request_is_refused(count: int, seed: int) -> None:
    with pytest.raises(RequestError, match=r"0 vectors|seed"):
        stimuli(POWERS, count, seed)


# Networks of which another layer than QuantizeLinear reads the input.


def selecting() -> Network:
    """ArgMax of the input alone: without boundaries, ties and codes."""
    node = helper.make_node("ArgMax", ["x"], ["y"], name="best", axis=1)
    return parse(make_model([node], {}, {"y": ("int64", 1)}, width=5).SerializeToString(), "selecting")


def test_vectors_of_such_a_network_are_finite_and_have_no_grid() -> None:
    made = stimuli(selecting(), BLOCK, seed=1, special=True)
    vectors = made.chunk(0, BLOCK)
    assert np.isfinite(vectors).all()
    assert {"-0.0", "1e-45", "3.4028235e+38"} <= {str(value) for value in vectors[::SPECIAL_PERIOD].ravel()}
    described = made.describe()
    assert sum(described.values()) == BLOCK
    assert described[VectorKind.FINITE_SPECIAL.value] == BLOCK // SPECIAL_PERIOD
    assert not {VectorKind.SPECIAL.value, VectorKind.BOUNDARY.value, VectorKind.INPUT_TIE.value} & described.keys()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_file_with_nan_or_infinities_is_refused_for_such_a_network(tmp_path: Path, value: float) -> None:
    vectors = np.zeros((BLOCK + 9, 5), np.float32)
    np.save(tmp_path / "v.npy", vectors)
    assert from_file(tmp_path / "v.npy", selecting()).count == BLOCK + 9
    vectors[BLOCK + 3, 2] = value
    np.save(tmp_path / "v.npy", vectors)
    with pytest.raises(
        RequestError, match=rf"input 2 of vector {BLOCK + 3} is .*, and layer 'best' \(ArgMax\) reads"
    ) as caught:
        from_file(tmp_path / "v.npy", selecting())
    assert caught.value.hint.startswith("give finite numbers")


# Files.


def test_file_gives_its_vectors_nan_included(tmp_path: Path) -> None:
    vectors = np.arange(50, dtype=np.float32).reshape(10, 5)
    vectors[3, 2] = np.nan
    np.save(tmp_path / "v.npy", vectors)
    read = from_file(tmp_path / "v.npy", POWERS)
    assert (read.count, read.width, read.origin) == (10, 5, str(tmp_path / "v.npy"))
    assert read.chunk(2, 7).tobytes() == vectors[2:7].tobytes()
    assert read.describe() == {"from file": 10}


def test_file_in_fortran_order_is_read_in_c_order(tmp_path: Path) -> None:
    vectors = np.asfortranarray(np.arange(50, dtype=np.float32).reshape(10, 5))
    np.save(tmp_path / "v.npy", vectors)
    assert from_file(tmp_path / "v.npy", POWERS).chunk(0, 3).tobytes() == vectors[:3].tobytes(order="C")


@pytest.mark.parametrize("shape", [(4, 5, 1), (4, 1, 5, 1), (1, 5), (1, 1, 5)])
def test_an_array_of_any_fitting_shape_is_read_in_c_order(tmp_path: Path, shape: tuple[int, ...]) -> None:
    vectors = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    for array in (vectors, np.asfortranarray(vectors)):
        np.save(tmp_path / "v.npy", array)
        read = from_file(tmp_path / "v.npy", POWERS)
        assert read.chunk(0, shape[0]).tolist() == vectors.reshape(shape[0], 5).tolist()


FILES: dict[str, tuple[Any, str]] = {
    "float64": (np.zeros((4, 5)), "<f8, not float32"),
    "big endian": (np.zeros((4, 5), ">f4"), ">f4, not float32"),
    "too narrow": (np.zeros((4, 3), np.float32), r"shape \(4, 3\)"),
    "rank 1": (np.zeros(5, np.float32), r"shape \(5,\)"),
    "transposed image": (np.zeros((5, 4, 1), np.float32), r"shape \(5, 4, 1\)"),
    "rank 0": (np.zeros((), np.float32), r"shape \(\)"),
    "empty": (np.zeros((0, 5), np.float32), r"shape \(0, 5\)"),
    "pickled": (np.array([[None] * 5]), "not a complete .npy file"),
}


@pytest.mark.parametrize("case", FILES)
def test_wrong_file_is_refused(tmp_path: Path, case: str) -> None:
    content, message = FILES[case]
    np.save(tmp_path / "v.npy", content)
    with pytest.raises(RequestError, match=message) as caught:
        from_file(tmp_path / "v.npy", POWERS)
    assert caught.value.hint


@pytest.mark.parametrize("size", [0, 3, 60, 130])
def test_truncated_file_is_refused(tmp_path: Path, size: int) -> None:
    np.save(tmp_path / "whole.npy", np.zeros((4, 5), np.float32))
    (tmp_path / "v.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:size])
    with pytest.raises(RequestError, match=r"not a complete \.npy file"):
        from_file(tmp_path / "v.npy", POWERS)


def test_archive_and_missing_file_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", a=np.zeros((4, 5), np.float32))
    with pytest.raises(RequestError, match=r"it has the arrays a\.npy, expected x"):
        from_file(tmp_path / "v.npz", POWERS)
    with pytest.raises(RequestError, match="No such file"):
        from_file(tmp_path / "missing.npy", POWERS)


def test_integers_behind_a_clip_reach_every_result_and_one_step_more() -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.INT64, ["N", 6]) for name in "xy")
    clip = helper.make_node("Clip", ["x", "low", "high"], ["y"])
    ends = [numpy_helper.from_array(np.array(end), name) for name, end in (("low", -3), ("high", 2))]
    graph = helper.make_graph([clip], "clip", [x], [y], ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = parse(model.SerializeToString(), "clip")
    assert np.unique(stimuli(network, 500, seed=1).chunk(0, 500)).tolist() == list(range(-4, 4))

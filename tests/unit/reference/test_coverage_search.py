from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

from harness import model as networks
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.network import Network
from harness.operators.counters import Quantity
from harness.reference import coverage_search
from harness.reference.coverage import Coverage, reachable_codes, total
from harness.reference.coverage_search import SEARCHED, SEEDED, Covering, Search
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import random_stream, stimuli
from tests.support.builders import make_model, random_network
from tests.support.programs.convolutions import random_convolutions

pytestmark = pytest.mark.slow

Array = npt.NDArray[Any]


def parse(widths: tuple[int, ...], seed: int = 1, **options: Any) -> Network:
    return networks.parse(random_network(np.random.default_rng(seed), widths, **options).SerializeToString(), "test")


DEEP = parse((5, 30, 30, 30, 30, 30, 30, 5))


def search(parsed: Network, share: float, *, limit: int = 100_000, seed: int = 1) -> Covering:
    searching = Search(parsed, limit, seed, share)
    met = sum(searching.blocks())
    found = searching.result()
    assert met == met_by(parsed, found.chunk(0, found.count))[0]
    return found


def met_by(parsed: Network, vectors: Array) -> tuple[int, int]:
    """How many codes vectors meet, of how many."""
    counted = Coverage(parsed)
    counted.add(vectors, SpecificationReference(parsed).activations(vectors))
    codes = total(counted.result())[Quantity.CODES]
    return codes.met, codes.reachable


def codes_of(parsed: Network, vectors: Array) -> list[set[tuple[int, int]]]:
    """The (column, code) that each vector meets, columns counted over all layers that round."""
    activations = SpecificationReference(parsed).activations(vectors)
    rounded = [
        values for layer, values in zip(parsed.layers, activations, strict=True) if reachable_codes(layer) is not None
    ]
    return [set(enumerate(row)) for row in np.hstack(rounded).tolist()]


@pytest.fixture(scope="module")
def deep() -> Covering:
    return search(DEEP, 1.0)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_vectors_and_another_seed_others(deep: Covering) -> None:
    few = SEEDED + 300
    again, other = search(DEEP, 1.0, limit=few), search(DEEP, 1.0, limit=few, seed=2)
    assert again.count == other.count == few < deep.count
    assert again.chunk(0, few).tobytes() == deep.chunk(0, few).tobytes()
    assert not np.isin(other.chunk(SEEDED, other.count), deep.chunk(SEEDED, deep.count)).all(axis=1).any()


@pytest.mark.slow
def test_the_first_vectors_are_the_plain_seeded_ones(deep: Covering) -> None:
    plain = stimuli(DEEP, SEEDED, seed=1)
    assert deep.chunk(0, SEEDED).tobytes() == plain.chunk(0, SEEDED).tobytes()
    assert deep.describe() == plain.describe() | {SEARCHED: deep.count - SEEDED}


@pytest.mark.slow
def test_every_searched_vector_is_the_first_to_meet_a_code(deep: Covering) -> None:
    vectors = deep.chunk(0, deep.count)
    assert len(vectors) > SEEDED + 500
    met: set[tuple[int, int]] = set().union(*codes_of(DEEP, vectors[:SEEDED]))
    for codes in codes_of(DEEP, vectors[SEEDED:]):
        assert codes - met
        met |= codes


@pytest.mark.slow
def test_all_vectors_lie_in_the_box(deep: Covering) -> None:
    vectors = deep.chunk(0, deep.count)
    assert vectors.dtype == np.float32
    assert (vectors >= DEEP.box[0]).all()
    assert (vectors <= DEEP.box[1]).all()


@pytest.mark.slow
def test_the_search_meets_far_more_codes_than_as_many_seeded_vectors() -> None:
    parsed = networks.load(ROOT / "models" / "acas_coc.onnx")
    found, plain = search(parsed, 1.0, limit=12_000), stimuli(parsed, 12_000, seed=1)
    searched, seeded = (met_by(parsed, vectors.chunk(0, 12_000))[0] for vectors in (found, plain))
    assert searched > 1.1 * seeded


@pytest.mark.parametrize("share", [0.01, 0.3, 0.37])
def test_it_ends_with_the_vector_by_which_the_share_is_met(share: float) -> None:
    found = search(DEEP, share)
    met, reachable = met_by(DEEP, found.chunk(0, found.count))
    before, _ = met_by(DEEP, found.chunk(0, found.count - 1))
    assert before < share * reachable <= met
    assert (found.count > SEEDED) == (share == 0.37)
    assert found.origin == (
        f"seed 1, until {100 * share:.4g} % of the reachable codes are met: {met:,} of {reachable:,} are; "
        "the share is met"
    )


@pytest.mark.parametrize("limit", [1, 100, SEEDED, SEEDED + 77])
def test_it_never_makes_more_vectors_than_are_allowed(limit: int) -> None:
    found = search(DEEP, 1.0, limit=limit)
    assert found.count == limit == sum(found.describe().values())
    assert found.origin.endswith("no more vectors were allowed")


def test_it_ends_when_nothing_new_is_found(deep: Covering) -> None:
    met, reachable = met_by(DEEP, deep.chunk(0, deep.count))
    assert met < reachable
    assert deep.origin.endswith(
        f"{met:,} of {reachable:,} are; {coverage_search.PATIENCE:,} candidates in a row met no new code"
    )


@pytest.mark.slow
def test_every_block_has_random_numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = []

    def record(seed: int, block: int) -> np.random.Generator:
        streams.append((seed, block))
        return random_stream(seed, block)

    monkeypatch.setattr(coverage_search, "random_stream", record)
    search(DEEP, 1.0, seed=5)
    assert len(streams) > 8
    assert len(set(streams)) == len(streams)
    assert all(seed == 5 and block >= 1 << 63 for seed, block in streams)  # below are those of the seeded vectors


def test_it_goes_on_from_the_vectors_that_met_the_codes_next_to_missing_ones() -> None:
    parsed = parse((3, 6, 4), 2, zero_points=True)
    searching = Search(parsed, 50, 1, 1.0)
    next(searching.blocks())
    vectors = searching.result().chunk(0, 50)
    expected = next_to_missing(parsed, codes_of(parsed, vectors))
    assert searching._frontier().tolist() == expected
    assert len(expected) > 100


def next_to_missing(parsed: Network, codes: list[set[tuple[int, int]]]) -> list[int]:
    """The first vectors that met the reachable code just below a missing one, or if that is missing too just above."""
    first = {pair: index for index in reversed(range(len(codes))) for pair in codes[index]}
    tables = [table for layer in parsed.layers if (table := reachable_codes(layer)) is not None]
    expected = []
    for column, reachable in enumerate(np.vstack(tables)):
        ladder = [first.get((column, int(code))) for code in np.flatnonzero(reachable)]
        for below, here, above in zip([None, *ladder], ladder, [*ladder[1:], None], strict=False):
            if here is None:
                expected.append(above if below is None else below)
    return [index for index in expected if index is not None]


def test_it_steps_over_codes_that_no_accumulator_gives() -> None:
    """Of 1.75 * a, a from 0 to 255, many codes do not exist; the box lets the seeded vectors meet few of the others."""
    constants = {
        "scale": np.float32(2**-20),
        "one": np.float32(1),
        "zero": np.uint8(0),
        "weights": np.array([[1]], np.int8),
        "weights_zero_point": np.int8(0),
        "b_scale": np.float32(1.75),
        "bias": np.array([0], np.int32),
    }
    gemm = ["codes", "one", "zero", "weights", "b_scale", "weights_zero_point", "bias", "one", "zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"], name="quantize"),
        helper.make_node("QGemm", gemm, ["y"], name="gemm", domain="com.microsoft"),
    ]
    metadata = {"input_box_low": "[0.0]", "input_box_high": "[0.01]"}
    model = make_model(nodes, constants, {"y": ("uint8", 1)}, width=1, metadata=metadata)
    parsed = networks.parse(model.SerializeToString(), "gaps")
    met, reachable = met_by(parsed, (found := search(parsed, 1.0)).chunk(0, found.count))
    assert met == reachable == 256 + 147


def test_codes_of_images_are_those_of_their_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each channel is one column, whatever the positions; vectors in several parts give the same search."""
    images = random_convolutions(np.random.default_rng(3), 2, "uint8", "int8", 1)
    found = search(images, 0.6, limit=300)
    assert any(len(table) < layer.size for layer in images.layers if (table := reachable_codes(layer)) is not None)
    monkeypatch.setattr(coverage_search, "VALUES_AT_ONCE", 20 * sum(layer.size for layer in images.layers))
    again = search(images, 0.6, limit=300)
    assert again.origin == found.origin
    assert again.chunk(0, again.count).tobytes() == found.chunk(0, found.count).tobytes()


def test_a_network_without_codes_is_refused() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {}, {"y": ("float32", 2)}, width=2)
    with pytest.raises(RequestError, match="rounds to codes, of which"):
        Search(networks.parse(model.SerializeToString(), "floats"), 100, 1, 0.5)

"""Failing vectors shrink to what makes them fail, in few questions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.minimise import ALL_SUBSETS, Fails, Vectors, minimise
from tests.support.examples import examples


class Asked:
    """Counts the questions and the vectors."""

    def __init__(self, fails: Fails) -> None:
        self.fails = fails
        self.batches: list[int] = []

    def __call__(self, vectors: Vectors) -> npt.NDArray[np.bool_]:
        assert vectors.dtype == np.float32
        assert vectors.ndim == 2
        self.batches.append(len(vectors))
        return self.fails(vectors)


def needs(*inputs: int) -> Fails:
    """Fails as long as none of these inputs is zero."""
    return lambda vectors: (vectors[:, list(inputs)] != 0).all(axis=1)


def random_vector(width: int, seed: int = 1) -> Vectors:
    return np.random.default_rng(seed).uniform(0.1, 1, width).astype(np.float32)


def test_what_does_not_fail_is_not_minimised() -> None:
    asked = Asked(lambda vectors: np.zeros(len(vectors), np.bool_))
    assert minimise(random_vector(5), asked) is None
    assert asked.batches == [1]


@examples(30)
@given(data=st.data())
def test_up_to_twelve_inputs_are_left_at_the_fewest_that_fail(data: st.DataObject) -> None:
    """Any failure whatever: a table of the subsets that fail."""
    width = data.draw(st.integers(1, 6))
    table = np.array(data.draw(st.lists(st.booleans(), min_size=1 << width, max_size=1 << width)))
    table[-1] = True

    def fails(vectors: Vectors) -> npt.NDArray[np.bool_]:
        return table[((vectors != 0) << np.arange(width)).sum(axis=1)]

    found = minimise(random_vector(width), fails)
    assert found is not None
    fewest = min(subset.bit_count() for subset in np.flatnonzero(table).tolist())
    assert found.inputs == fewest
    assert fails(found.vector[None])[0]
    assert found.finished


def test_all_subsets_are_one_question() -> None:
    asked = Asked(needs(2, 9))
    found = minimise(random_vector(ALL_SUBSETS), asked)
    assert found is not None
    assert np.flatnonzero(found.vector).tolist() == [2, 9]
    assert asked.batches[:2] == [1, 2**12 - 1]
    assert len(asked.batches) == found.questions == 4  # and one for each input that is left


@pytest.mark.parametrize("needed", [(700,), (3, 4, 5), tuple(range(0, 784, 40))])
def test_many_inputs_shrink_by_delta_debugging(needed: tuple[int, ...]) -> None:
    asked = Asked(needs(*needed))
    found = minimise(random_vector(784), asked, questions=1000)
    assert found is not None
    assert np.flatnonzero(found.vector).tolist() == list(needed)
    assert found.finished


def test_more_than_twelve_needed_inputs_end_where_none_can_be_left_out() -> None:
    needed = tuple(range(0, 60, 4))
    found = minimise(random_vector(60), needs(*needed), questions=1000)
    assert found is not None
    assert np.flatnonzero(found.vector).tolist() == list(needed)


def test_the_values_that_are_left_become_round() -> None:
    def fails(vectors: Vectors) -> npt.NDArray[np.bool_]:
        return (np.abs(vectors[:, 1] - 0.123) < 0.0005) & (vectors[:, 3] > 0.1)

    vector = np.float32([0.5, 0.12345, -1, 0.7654321])
    found = minimise(vector, asked := Asked(fails))
    assert found is not None
    assert found.vector.tolist() == np.float32([0, 0.123, 0, 0.8]).tolist()
    assert asked.batches == [1, 15, 4, 6]  # digits that a value has already are not tried


def test_values_that_must_be_exact_stay_so() -> None:
    vector = np.float32([0.5, np.nextafter(np.float32(0.1), np.float32(1))])
    found = minimise(vector, lambda vectors: vectors[:, 1] == vector[1])
    assert found is not None
    assert found.vector.tolist() == [0, vector[1]]


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_count_as_inputs_and_are_not_rounded(special: float) -> None:
    found = minimise(np.float32([1, special, 2]), lambda vectors: ~np.isfinite(vectors).all(axis=1))
    assert found is not None
    assert np.flatnonzero(found.vector).tolist() == [1]
    assert np.array_equal(found.vector[1], np.float32(special), equal_nan=True)
    assert found.questions == 2  # alone, and all subsets


def test_questions_are_bounded_and_the_smallest_so_far_is_kept() -> None:
    everything = minimise(random_vector(200), asked := Asked(needs(*range(0, 200, 2))), questions=5)
    assert everything is not None
    assert len(asked.batches) == everything.questions == 5
    assert not everything.finished
    assert needs(*range(0, 200, 2))(everything.vector[None])[0]


def test_a_vector_that_fails_at_zero_becomes_zero() -> None:
    found = minimise(random_vector(4), lambda vectors: np.ones(len(vectors), np.bool_))
    assert found is not None
    assert found.vector.tolist() == [0, 0, 0, 0]


def test_the_same_question_gives_the_same_answer() -> None:
    """Of equally small subsets the first is taken."""
    vectors = [minimise(random_vector(6), lambda v: (v != 0).sum(axis=1) >= 2) for _ in range(2)]
    first, second = (found.vector.tolist() for found in vectors if found)
    assert first == second
    assert np.count_nonzero(first) == 2

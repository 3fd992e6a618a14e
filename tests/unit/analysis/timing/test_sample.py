from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.timing import as_times
from harness.analysis.timing.sample import Interval, p_text


def test_takes_what_a_board_program_writes() -> None:
    times = as_times(np.array([3, 1, 2], np.uint64))
    assert times.dtype == np.int64
    assert times.tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "shape"),
        ([[1, 2]], "shape"),
        ([1.5], "integer nanoseconds"),
        ([True, False], "integer nanoseconds"),
        ([-1, 5], "between 0 and"),
        ([2**53 + 1], "between 0 and"),
    ],
)
def test_refuses_what_is_no_series_of_times(values: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        as_times(np.asarray(values))


def test_an_interval_holds_its_ends() -> None:
    interval = Interval(1.0, 2.0, 0.95, "")
    assert [value in interval for value in (0.9, 1.0, 1.5, 2.0, 2.1)] == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("p_value", "text"), [(0.5, "p-value 0.5"), (3.2e-9, "p-value 3.2e-09"), (0.0, "p-value below 1e-15")]
)
def test_no_p_value_is_said_to_be_0(p_value: float, text: str) -> None:
    assert p_text(p_value) == text

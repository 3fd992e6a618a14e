from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.errors import BoardError, RequestError, ToolError
from harness.runs.verification import Claim, ClaimState, is_valid
from harness.runs.verification.claims import (
    ContradictionError,
    UncheckedError,
    claim,
    first_difference,
    listed,
    require_equal,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("recorded", "found", "words"),
    [
        ({"a": [1, {"b": NAN}]}, {"a": [1, {"b": NAN}]}, ""),
        ({"a": 1}, {"a": 1.0}, "a is 1, recomputed as 1.0"),
        ({"a": True}, {"a": 1}, "a is true, recomputed as 1"),
        ({"a": 1}, {}, "a is 1, recomputed as null"),
        ({}, {"a": {"b": 1}}, 'a is null, recomputed as {"b": 1}'),
        ({"a": [1, 2]}, {"a": [1]}, "a[1] is 2, recomputed as null"),
        ({"a": -0.0}, {"a": 0.0}, "a is -0.0, recomputed as 0.0"),
        ([], {}, " is [], recomputed as {}"),
    ],
)
def test_the_first_difference_is_named_by_its_place(recorded: Any, found: Any, words: str) -> None:
    assert first_difference(recorded, found) == words


@pytest.mark.parametrize(
    ("recorded", "found", "words"),
    [
        ([{"a": 0.25}], [{"a": 0.25 + 1e-11}], ""),
        ([{"a": 0.0}], [{"a": 1e-17}], ""),
        ([{"a": 0.25}], [{"a": 0.250001}], "[0].a is 0.25, recomputed as 0.250001"),
        ([{"a": 1.0}], [{"a": 1}], "[0].a is 1.0, recomputed as 1"),
        ({"a": 10**9}, {"a": 10**9 + 1}, "a is 1000000000, recomputed as 1000000001"),
        ({"a": 1.0}, {"a": "NaN"}, 'a is 1.0, recomputed as "NaN"'),
        ({"a": True}, {"a": 1.0}, "a is true, recomputed as 1.0"),
    ],
)
def test_fractions_may_be_as_another_processor_rounds_them(recorded: Any, found: Any, words: str) -> None:
    assert first_difference(recorded, found, close=1e-6) == words
    assert first_difference(recorded, found)


@pytest.mark.parametrize("recorded", ["NaN", NAN])
def test_a_record_may_name_a_number_that_json_has_not(recorded: Any) -> None:
    require_equal("chunk 0,", {"actual": recorded}, {"actual": NAN})
    with pytest.raises(ContradictionError, match='actual is "NaN", recomputed as "-Infinity"'):
        require_equal("chunk 0,", {"actual": recorded}, {"actual": -np.inf})


@pytest.mark.parametrize(
    ("raised", "state"),
    [
        (ContradictionError("x"), ClaimState.WRONG),
        (RequestError("x"), ClaimState.WRONG),
        (BoardError("x"), ClaimState.WRONG),
        (UncheckedError("x"), ClaimState.UNCHECKED),
        (ToolError("x"), ClaimState.UNCHECKED),
        (KeyError("x"), ClaimState.UNCHECKED),
        (RecursionError("x"), ClaimState.UNCHECKED),
        (MemoryError("x"), ClaimState.UNCHECKED),
    ],
)
def test_what_a_check_raises_decides(raised: Exception, state: ClaimState) -> None:
    def check() -> str:
        raise raised

    assert claim("files", check).state is state


@pytest.mark.parametrize(("raised", "stand"), [(UncheckedError("x"), True), (TypeError("x"), None)])
def test_a_form_that_stops_a_check_does_not_pass_it(raised: Exception, stand: bool | None) -> None:
    def check() -> str:
        raise raised

    assert is_valid([claim("vectors", check, needed=False)]) is stand


def test_a_bug_is_no_verdict() -> None:
    def check() -> str:
        raise AssertionError

    with pytest.raises(AssertionError):
        claim("files", check)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([(ClaimState.OK, True), (ClaimState.UNCHECKED, False)], True),
        ([(ClaimState.OK, True), (ClaimState.UNCHECKED, True)], None),
        ([(ClaimState.UNCHECKED, True), (ClaimState.WRONG, False)], False),
    ],
)
def test_evidence_stands_if_nothing_is_wrong_and_all_that_is_needed_was_checked(
    states: list[tuple[ClaimState, bool]], expected: bool | None
) -> None:
    assert is_valid([Claim("x", state, "", needed) for state, needed in states]) is expected


def test_of_many_names_the_first_are_shown() -> None:
    assert listed(["b", "a"]) == "a, b"
    assert listed("edcba") == "a, b, c and 2 more"

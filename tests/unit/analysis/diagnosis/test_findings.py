from __future__ import annotations

import dataclasses

import pytest

from harness.analysis.compare import Difference
from harness.analysis.diagnosis import Diagnosis, Hypothesis, Observation, common, merge

EARLY, LATE = Difference(3, 0, 1, 2), Difference(70, 1, 4, 5)
TIES = Observation(
    values=900, differing=10, ties=10, differing_ties=10, away=10, toward=0, up=6, down=4, largest_step=1
)


def hypothesis(cause: str, explained: int, contradicted: int, **others: object) -> Hypothesis:
    return Hypothesis(cause, "right", explained, contradicted, **others)  # type: ignore[arg-type]


def diagnosis(*hypotheses: Hypothesis, seen: Observation = TIES, layer: int = 2, total: int = 10) -> Diagnosis:
    return Diagnosis(layer, "inputs", total, seen, hypotheses)


A = diagnosis(hypothesis("a", 10, 0, example=EARLY), hypothesis("b", 4, 3), hypothesis("c", 0, 9))
B = diagnosis(hypothesis("a", 9, 1, example=LATE), hypothesis("b", 10, 0, example=LATE), hypothesis("c", 0, 0))


def test_findings_of_one_layer_add_up() -> None:
    both = A + B
    assert both.hypotheses == (
        hypothesis("a", 19, 1, example=EARLY),
        hypothesis("b", 14, 3, example=LATE),
        hypothesis("c", 0, 9),
    )
    assert (both.total, both.differing) == (20, 20)
    assert both.complete == ()
    assert both.text.endswith("no known cause explains all of them; nearest: a (19 of 20 explained, 1 contradicted)")


def test_different_layers_and_hypotheses_do_not_add_up() -> None:
    with pytest.raises(ValueError, match="layers 2 and 5"):
        A + dataclasses.replace(B, layer=5)
    with pytest.raises(ValueError, match="'a' and 'b' are two hypotheses"):
        hypothesis("a", 1, 0) + hypothesis("b", 1, 0)


def test_findings_are_merged_by_layer_in_the_order_of_the_layers() -> None:
    later = dataclasses.replace(B, layer=5)
    assert merge([later, A, B]) == (A + B, later)
    assert merge([]) == ()


def test_hypotheses_are_ranked_by_what_contradicts_them_and_the_useless_left_out() -> None:
    assert [h.cause for h in A.ranked] == ["a"]
    assert [h.cause for h in B.ranked] == ["b", "a"]


def test_what_is_believed_stands_before_what_might_fit_by_chance() -> None:
    found = diagnosis(hypothesis("by chance", 10, 0, least=16), hypothesis("sure", 10, 0))
    assert [h.cause for h in found.ranked] == ["sure", "by chance"]


def test_what_fits_by_chance_needs_evidence() -> None:
    few = diagnosis(hypothesis("by chance", 10, 0, least=16), hypothesis("nearly", 9, 1))
    assert few.complete == ()
    enough = few + few
    assert [h.cause for h in enough.complete] == ["by chance"]


def test_a_fallback_is_named_only_where_nothing_else_explains_everything() -> None:
    fallback, part = hypothesis("fallback", 10, 0, fallback=True), hypothesis("part", 9, 1)
    assert [h.cause for h in diagnosis(fallback, part).complete] == ["fallback"]
    assert [h.cause for h in diagnosis(fallback, part, hypothesis("sure", 10, 0)).complete] == ["sure"]


def test_a_common_cause_explains_every_layer_completely() -> None:
    sure, other, part = hypothesis("sure", 10, 0), hypothesis("other", 10, 0), hypothesis("sure", 9, 0)
    first = diagnosis(other, sure)
    assert common([first, diagnosis(sure, layer=4)]) == (sure,)
    assert common([first, diagnosis(sure, other, layer=4)]) == (other, sure)
    assert common([first, diagnosis(part, layer=4)]) == ()
    assert common([first]) == common([]) == (), "one layer has a diagnosis of its own"


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "c0; specification: right"),
        (4, "c0; or c1; or c2; or c3; specification: right"),
        (6, "c0; or c1; or c2; or 3 more that give the same here; specification: right"),
    ],
)
def test_causes_that_explain_everything_are_all_named_or_counted(count: int, named: str) -> None:
    found = diagnosis(*(hypothesis(f"c{index}", 10, 0) for index in range(count)))
    assert found.text == f"exactly the 10 inputs at a tie differ, all away from zero: {named}"


def test_what_is_right_is_said_only_where_the_causes_agree() -> None:
    found = diagnosis(hypothesis("a", 10, 0), dataclasses.replace(hypothesis("b", 10, 0), right="other"))
    assert found.text.endswith(": a; or b")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "exactly the 10 values at a tie differ, all away from zero"),
        ({"ties": 25}, "exactly 10 of the 25 values at a tie differ, all away from zero"),
        ({"differing_ties": 9}, "10 of 900 values differ, by one step, all away from zero"),
        ({"ties": 0, "differing_ties": 0, "away": 4, "largest_step": 3}, "10 of 900 values differ"),
        ({"differing_ties": 0, "away": 0, "toward": 10}, "10 of 900 values differ, by one step, all toward zero"),
        ({"differing_ties": 0, "away": 0, "up": 0, "down": 10}, "10 of 900 values differ, by one step, all down"),
    ],
)
def test_observations_in_words(changes: dict[str, int], text: str) -> None:
    assert dataclasses.replace(TIES, **changes).text("values") == text


def test_observations_add_up() -> None:
    other = Observation(
        values=100, differing=1, ties=2, differing_ties=0, away=0, toward=1, up=0, down=1, largest_step=9
    )
    assert TIES + other == Observation(
        values=1000, differing=11, ties=12, differing_ties=10, away=10, toward=1, up=6, down=5, largest_step=9
    )

"""ONNX's own tests: a tenth of the node tests, and the results of cases that are right, refused and wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from harness.reference import conformance
from harness.reference.conformance import NOT_STATED, PASS, REFUSED, WRONG, Outcome

LEAST_PASSES = 58
"""The least number of passed node tests among every tenth one."""


@pytest.mark.slow
def test_a_tenth_of_the_node_tests_is_never_wrong() -> None:
    cases = list(conformance.cases("node"))[::10]
    outcomes = [conformance.outcome(case) for case in cases]
    assert [outcome for outcome in outcomes if outcome.result == WRONG] == []
    assert Counter(outcome.result for outcome in outcomes)[PASS] >= LEAST_PASSES


@pytest.mark.slow
def test_rows_whose_number_depends_on_the_data_are_those_of_onnx() -> None:
    outcomes = [conformance.outcome(case) for case in conformance.cases("node", "test_nonmaxsuppression_*")]
    assert [outcome for outcome in outcomes if outcome.result != PASS] == []
    assert len(outcomes) > 9


@pytest.fixture(scope="module")
def case() -> conformance.Case:
    [case] = conformance.cases("pytorch-operator", "test_operator_selu")
    return case


def test_outputs_within_the_tolerance_pass(case: conformance.Case) -> None:
    assert conformance.outcome(case) == Outcome("test_operator_selu", "Selu", PASS)


def test_other_values_types_and_shapes_are_wrong(case: conformance.Case) -> None:
    [(inputs, [expected])] = case.data
    for other in (expected + np.float32(0.01), expected.astype(np.float64), expected.reshape(-1)):
        wrong = replace(case, data=[(inputs, [other])])
        assert conformance.outcome(wrong).result == WRONG


def test_an_unforeseen_error_is_wrong(case: conformance.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance.HarnessBackend, "prepare", lambda _: 1 / 0)
    outcome = conformance.outcome(case)
    assert (outcome.result, outcome.reason) == (WRONG, "ZeroDivisionError: division by zero")


def test_kinds_of_reasons_have_no_names_and_numbers() -> None:
    reason = "after these steps:\n  inlined 'f'\nmodel 'm': node 'n_1' (Slice): steps is [-1], of 'x' (2, 3)"
    outcomes = [Outcome(name, "Slice", REFUSED, reason) for name in ("one", "other")]
    assert conformance.reasons(outcomes) == [("Slice: steps is ..., of ... ...", 2)]
    assert conformance.reasons(outcomes, WRONG) == []


def test_texts_and_sequences_are_not_stated() -> None:
    results = [conformance.outcome(case).result for case in conformance.cases("simple", "test_strnorm_*")]
    assert results
    assert set(results) == {NOT_STATED}

"""Half of the faults a day, each at one of its steps, all within twelve days; `python -m tests.faults` does all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from harness import workspace
from tests.faults.campaign import IDENTICAL, attempt, undisturbed
from tests.faults.faults import FAULTS, Fault, Untried
from tests.faults.laboratory import Laboratory
from tests.faults.stage import Step

TODAY = date.fromisoformat(os.environ["PYTEST_SESSION_DAY"]).toordinal()


@pytest.fixture(scope="module")
def lab(objects: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with Laboratory(tmp_path_factory.mktemp("lab"), workspace.find(None, None).cache, objects) as lab:
        yield lab


@pytest.fixture(scope="module")
def expected(lab: Laboratory) -> str:
    return undisturbed(lab)


OF_TODAY = [
    (fault, fault.steps[(TODAY // 2 + index) % len(fault.steps)])
    for index, fault in enumerate(FAULTS)
    if (TODAY + index) % 2 == 0
]


@pytest.mark.parametrize(("fault", "step"), OF_TODAY, ids=[f"{fault.name}, {step}" for fault, step in OF_TODAY])
def test_a_fault_changes_no_verdict_and_keeps_what_is_finished(
    lab: Laboratory, expected: str, fault: Fault, step: Step
) -> None:
    try:
        cell = attempt(lab, fault, step, expected)
    except Untried as reason:
        pytest.skip(str(reason))
    assert cell.complaints == ()
    assert (cell.first.verdict == IDENTICAL) is not cell.resumed

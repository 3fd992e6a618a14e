from __future__ import annotations

from pathlib import Path

import pytest

from harness.runs.verification.claims import ContradictionError
from harness.runs.verification.folder import Evidence
from harness.runs.verification.measured import verdict
from tests.support.measurement.documents import counted

COUNTED = "5,030 instructions in each of 2,000 executions"


@pytest.mark.parametrize("vectors", ["for all 1,000 vectors", "whichever of 1,000 vectors"])
def test_the_verdict_holds_in_the_words_of_this_and_of_an_earlier_revision(tmp_path: Path, vectors: str) -> None:
    run = counted() | {"reason": f"{COUNTED}, {vectors}"}
    assert verdict(Evidence(tmp_path, run)) == f"measured: {COUNTED}, for all 1,000 vectors"


def test_other_numbers_are_a_contradiction(tmp_path: Path) -> None:
    run = counted() | {"reason": f"{COUNTED}, whichever of 2,000 vectors"}
    with pytest.raises(ContradictionError, match="for all 2,000 vectors"):
        verdict(Evidence(tmp_path, run))

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.model.onnx_runtime.hostcheck import instruction_set
from harness.runs.verification.claims import ContradictionError, UncheckedError, reworded
from harness.runs.verification.folder import Evidence
from harness.runs.verification.measured import _require_close, verdict
from tests.support.measurement.documents import counted

COUNTED = "5,030 instructions in each of 2,000 executions"


@pytest.mark.parametrize("vectors", ["for all 1,000 vectors", "whichever of 1,000 vectors"])
def test_the_verdict_holds_in_the_words_of_this_and_of_an_earlier_revision(tmp_path: Path, vectors: str) -> None:
    run = counted() | {"reason": f"{COUNTED}, {vectors}"}
    assert verdict(Evidence(tmp_path, run)) == f"measured: {COUNTED}, for all 1,000 vectors"


def test_interpolated_medians_are_left_to_their_revision() -> None:
    """A revision before wrote a float in place of the time of an execution."""
    readings = np.array([[1], [2]], np.uint64)
    for median, error in ((1, ContradictionError), (1.0, ContradictionError), (1.5, UncheckedError)):
        part = {"name": "all", "summary": {"median_ns": median}}
        run = {"parts": [part], "reference": {"isa": instruction_set()}}
        with pytest.raises(error, match="interpolated medians, as earlier" if error is UncheckedError else None):
            _require_close(run, readings, "part", part, {})


def test_texts_of_an_earlier_revision_are_those_of_this_one() -> None:
    assert reworded("from the begin of the first task") == "from the start of the first task"
    assert reworded("the vectors met 1 % of the codes, 2 of 3 ties behind the input") == (
        "coverage: 1 % of the codes, 2 of 3 ties behind the first layer"
    )


def test_other_numbers_are_a_contradiction(tmp_path: Path) -> None:
    run = counted() | {"reason": f"{COUNTED}, whichever of 2,000 vectors"}
    with pytest.raises(ContradictionError, match="for all 2,000 vectors"):
        verdict(Evidence(tmp_path, run))

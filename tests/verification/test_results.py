from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence import write_json
from harness.verification.claims import ContradictionError
from harness.verification.folder import Evidence
from harness.verification.results import proof

NAMES = ("quantize_input", "dense_1")


def claims(*names: str, holds: bool = True) -> list[dict[str, Any]]:
    return [
        {"layer": name, "statement": f"of {name}", "holds": holds, "counterexample": None if holds else "7 gave 8"}
        for name in names
    ]


def checked(folder: Path, document: dict[str, Any]) -> str:
    write_json(folder / "proof.json", document)
    return proof(Evidence(folder, {"layers": [{"name": name} for name in NAMES]}))


def test_a_proof_that_claims_something_of_every_layer_holds(tmp_path: Path) -> None:
    found = checked(tmp_path, {"holds": True, "claims": [*claims(*NAMES), *claims("dense_1")]})
    assert found.startswith("3 claims")


def test_a_proof_that_fails_may_have_been_abandoned(tmp_path: Path) -> None:
    assert checked(tmp_path, {"holds": False, "claims": claims("dense_1", holds=False)}).startswith("1 claims")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"holds": True, "claims": []}, "claims nothing of dense_1, quantize_input"),
        ({"holds": True, "claims": claims("dense_1")}, "claims nothing of quantize_input"),
        ({"holds": True, "claims": [*claims(*NAMES), *claims("dense_1", holds=False)]}, "its claims fail for dense_1"),
        (
            {"holds": True, "claims": [*claims("quantize_input"), claims("dense_1")[0] | {"counterexample": "7"}]},
            "a claim holds and has a counterexample: of dense_1",
        ),
    ],
)
def test_a_proof_that_proves_less_than_it_says_is_found(tmp_path: Path, document: dict[str, Any], words: str) -> None:
    with pytest.raises(ContradictionError, match=words):
        checked(tmp_path, document)

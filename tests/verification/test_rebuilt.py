"""Which past of this checkout a bundle may be built from."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.verification.claims import UncheckedError
from harness.verification.folder import Evidence
from harness.verification.rebuilt import _there


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        (None, "outside a checkout"),
        ("0123456789ab-dirty", "nobody kept"),
        ("--output=pwned", "names no revision"),
        ("HEAD", "names no revision"),
        ("main; touch pwned", "names no revision"),
        (["a"], "names no revision"),
        ("0123456789ab", "not in the history"),
    ],
)
def test_only_a_revision_that_this_checkout_comes_from_is_built(revision: object, words: str, tmp_path: Path) -> None:
    evidence = Evidence(tmp_path, {"harness": {"revision": revision}, "board": {"name": "host"}})
    with pytest.raises(UncheckedError, match=words):
        _there(evidence, tmp_path / "boards.yaml", tmp_path)
    assert not list(tmp_path.iterdir())

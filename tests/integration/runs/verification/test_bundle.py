"""Which past of this checkout a bundle may be built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.core import installation
from harness.runs.verification import revisions
from harness.runs.verification.bundle import _there
from harness.runs.verification.claims import UncheckedError
from harness.runs.verification.folder import Evidence


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        (None, "outside a checkout"),
        ("0123456789ab-dirty", "it cannot be verified"),
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


def git(folder: Path, *arguments: str) -> str:
    known = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    done = subprocess.run(["git", "-C", str(folder), *known, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of another history, whose program is slow."""
    folder = tmp_path / "checkout"
    (folder / "harness").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "harness" / "__init__.py").write_text("import time\ntime.sleep(60)\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "without kernels")
    monkeypatch.setattr(installation, "ROOT", folder)
    return folder


def evidence_of(revision: str, folder: Path) -> Evidence:
    return Evidence(folder, {"harness": {"revision": revision}, "board": {"name": "host"}})


def test_a_revision_without_all_of_the_sources_is_not_built(checkout: Path, tmp_path: Path) -> None:
    evidence = evidence_of(git(checkout, "rev-parse", "HEAD"), tmp_path)
    with pytest.raises(UncheckedError, match="does not give the sources"):
        _there(evidence, tmp_path / "boards.yaml", tmp_path)


def test_a_build_that_takes_for_ever_is_given_up(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "kernels").mkdir()
    (checkout / "kernels" / "none.h").touch()
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "with kernels")
    monkeypatch.setattr(revisions, "TIMEOUT_S", 0.5)
    with pytest.raises(UncheckedError, match=r"did not make it within 0\.5 s"):
        _there(evidence_of(git(checkout, "rev-parse", "HEAD"), tmp_path), tmp_path / "boards.yaml", tmp_path)

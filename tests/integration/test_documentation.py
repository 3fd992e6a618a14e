"""The pages of docs/: their age."""

from __future__ import annotations

import re
import subprocess

import pytest

from harness.core.installation import ROOT

DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
MOST_COMMITS = 500
DESCRIBED = {
    "conformance": ("harness/operators", "harness/model", "harness/reference"),
    "faults": ("harness/execution", "harness/boards", "harness/runs/chunks.py", "tests/campaigns/faults"),
    "forgeries": ("harness/runs/verification", "tests/campaigns/forgeries"),
    "misra": ("kernels/c", "harness/targets/c", "tests/campaigns/misra"),
    "mutation": ("kernels", "harness/analysis/proof", "harness/analysis/diagnosis", "tests/campaigns/mutation"),
    "mutation-hidden": ("kernels", "harness/analysis/proof", "tests/campaigns/mutation"),
    "reproduce-acetone": ("kernels/c", "harness/targets/c", "benchmarks/tables"),
    "reproduce-tflite": ("harness/targets/litert", "harness/model/tflite", "benchmarks/tables"),
    "security": ("harness/model", "harness/boards", "harness/execution", "tests/campaigns/security"),
}
"""The paths that each page of results describes."""


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def test_the_table_has_all_pages_of_results() -> None:
    assert set(DESCRIBED) == {path.stem for path in RESULTS.glob("*.md")}
    assert not [path for paths in DESCRIBED.values() for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_page_of_results_is_not_much_older_than_what_it_describes(name: str) -> None:
    """The second paragraph states day and revision; an untracked or shallow copy has no history to count."""
    paragraph = (RESULTS / f"{name}.md").read_text().split("\n\n")[1]
    stated = re.match(r"\d{4}-\d\d-\d\d, revision ([0-9a-f]{7,40})", paragraph)
    assert stated, f"{name}.md: expected a line with day and revision below the title"
    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("this copy of the repository has no history")
    commits = int(git("rev-list", "--count", f"{stated[1]}..HEAD", "--", *DESCRIBED[name]))
    assert commits <= MOST_COMMITS, f"{name}.md: {commits} commits since {stated[1]}; repeat what the page says to run"

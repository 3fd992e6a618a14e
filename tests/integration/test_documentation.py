"""The pages of docs/: their site, manual pages, length and age."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS
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


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="MkDocs is not installed; run: make setup-dev")
def test_the_site_has_all_pages_and_no_address_of_another_server(tmp_path: Path) -> None:
    """Strict mode refuses a link or an anchor that leads nowhere, and a page that the navigation does not have."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    built = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md") if path.stem != "README"} <= {
        path.relative_to(site / "docs") for path in (site / "docs").rglob("*.html")
    }
    for page in site.rglob("*.html"):
        assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=.https?:", page.read_text()), page
    search = (site / "search" / "main.js").read_text()
    assert '"title": "Tutorial"' in search
    assert "XMLHttpRequest" not in search


def test_each_command_has_a_manual_page(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools/documentation.py", tmp_path], check=True, capture_output=True)
    names = {path.stem for path in tmp_path.glob("*.1")}
    assert {"harness", *(f"harness-{name}" for name in COMMANDS), "harness-models-import"} <= names
    page = (tmp_path / "harness-run.1").read_text()
    assert page.startswith('.TH "HARNESS-RUN" 1')
    assert ".TP\n.B \\-\\-vectors TEXT\n" in page
    assert not re.findall(r"(?m)^[.'](?!TH|SH|PP|TP|B |nf|fi)", page)

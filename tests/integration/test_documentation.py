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
MOST_WORDS = {"README.md": 600, "docs/how-it-is-tested.md": 600}
TASKS = {str(path.relative_to(ROOT)) for path in (*DOCS.glob("*.md"), *DOCS.glob("boards/*.md"))}
MOST_WORDS |= dict.fromkeys(TASKS - MOST_WORDS.keys(), 1800)
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


@pytest.mark.parametrize("name", sorted(MOST_WORDS))
def test_a_task_page_is_short(name: str) -> None:
    """Move details for experts to docs/reference, and options to the help of each command."""
    text = re.sub(r"(?m)^\|[-:| ]+\|$|[|]", " ", (ROOT / name).read_text())
    assert len(text.split()) <= MOST_WORDS[name]


def test_the_files_that_pages_name_exist() -> None:
    """A path in backticks, such as `harness/core/text.py`; `harness/share` is a folder of the wheel."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    for page in (path for path in pages if path.parent != RESULTS):
        for name in re.findall(
            r"`((?:harness|kernels|simulators|tests|benchmarks|docs|tools)/[\w./-]+)`", page.read_text()
        ):
            places = (ROOT / name, ROOT / "tests" / name)
            assert any(place.exists() for place in places) or name.startswith("harness/share/"), f"{page}: {name}"


def test_the_index_lists_all_pages() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (DOCS / "index.md").read_text())
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"index.md"}
    assert sorted(pages) == sorted(link for link in links if not link.startswith("../"))


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
    assert "<code>--vectors N|FILE|FOLDER</code>" in (site / "docs" / "run-a-model.html").read_text()
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

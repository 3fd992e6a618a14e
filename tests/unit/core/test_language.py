"""The language of docstrings and pages: plain technical English, so that readers can search for its terms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from harness.core.installation import ROOT

# A docstring that starts with one of these describes its subject by a clause, and no verb says what the code does.
OPENINGS = {
    *("what", "who", "whom", "whose", "which", "where", "when", "why", "how", "whether", "whatever", "whoever"),
    *("of", "by", "in", "with", "for", "from", "at", "on", "to", "as", "into", "until", "before", "after", "between"),
    *("under", "over", "without", "within", "through", "that", "so"),
}
ALLOWED_SHARE = 0.02

# Phrases of translated English and metaphors.  Say resume or continue, fixed, optional, anyone, accepts, finally.
PHRASES = ("whoever", "go on", "goes on", "going on", "at will", "lets in", "for good", "its word", "put it right")


def docstrings() -> Iterator[str]:
    for path in (ROOT / "harness").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def test_docstrings_start_with_their_subject_or_a_verb() -> None:
    first = [match[0].lower() for text in docstrings() if (match := re.search(r"[A-Za-z]+", text))]
    clauses = [word for word in first if word in OPENINGS]
    assert len(clauses) <= ALLOWED_SHARE * len(first), f"{len(clauses)} of {len(first)} docstrings: {clauses}"


def test_phrases_that_readers_cannot_search_for_do_not_return() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    sources = [path for path in (ROOT / "harness").rglob("*") if path.suffix in {".py", ".jinja"}]
    pattern = re.compile(rf"\b({'|'.join(PHRASES)})\b", re.IGNORECASE)
    found = [f"{path}: {match[0]}" for path in (*pages, *sources) for match in pattern.finditer(path.read_text())]
    assert found == []


# Comments of C, C++ and CUDA.
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}
COMMENT = re.compile(r"/\*[\s*]*(\w+)|//\s*(\w+)")
CLAUSES = {"What", "Who", "Whose", "Of", "That", "By", "So", "Whether", "Where", "How"}


def first_words(text: str) -> list[str]:
    return [block or line for block, line in COMMENT.findall(text)]


@pytest.mark.parametrize("folder", ["kernels", "simulators"])
def test_no_comment_begins_with_a_relative_clause(folder: str) -> None:
    files = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    assert len(files) > 40
    refused = [f"{path}: {word}" for path in files for word in first_words(path.read_text()) if word in CLAUSES]
    assert refused == []


def test_both_forms_of_comments_are_read() -> None:
    assert first_words("/* What it is. */ int a; // How it is\n/*\n * Whether it is. */") == ["What", "How", "Whether"]

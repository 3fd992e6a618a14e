"""Comments of C, C++ and CUDA begin with a verb or a noun, as docstrings do."""

import re

import pytest

from harness.core.installation import ROOT

SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".cu", ".cuh"}
COMMENT = re.compile(r"/\*[\s*]*(\w+)|//\s*(\w+)")
REFUSED = {"What", "Who", "Whose", "Of", "That", "By", "So", "Whether", "Where", "How"}


def first_words(text: str) -> list[str]:
    return [block or line for block, line in COMMENT.findall(text)]


@pytest.mark.parametrize("folder", ["kernels", "simulators"])
def test_no_comment_begins_with_a_relative_clause(folder: str) -> None:
    files = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    assert len(files) > 40
    refused = [f"{path}: {word}" for path in files for word in first_words(path.read_text()) if word in REFUSED]
    assert refused == []


def test_both_forms_of_comments_are_read() -> None:
    assert first_words("/* What it is. */ int a; // How it is\n/*\n * Whether it is. */") == ["What", "How", "Whether"]

"""docs/reference/semantics.md is what the operators, the sources and the proof say, and it has every operator."""

from __future__ import annotations

import re

from harness import targets
from tests.support.semantics import PAGE, page


def test_the_page_is_up_to_date_and_complete() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page() == text, "write it again: python -m tests.support.semantics"
    classes = [operator for operator in targets.find("c").lowerings if operator.__module__.startswith("harness.")]
    operators = {name for operator in classes for _, name in operator.ONNX}
    assert operators == set(re.findall(r"^## (\w+)", text, re.MULTILINE))

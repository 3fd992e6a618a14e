from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper

import pytest
from rich.table import Table
from rich.text import Text

from harness.core.console import Console


def test_what_a_terminal_cannot_show_does_not_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    out = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out, encoding="ascii"))
    Console.open(as_json=False).show(Text("delay 300 µs"))
    sys.stdout.flush()
    assert out.getvalue() == b"delay 300 \\xb5s\n"


def test_names_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    out = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out, encoding="utf-8"))
    name = "net [v2] :100:"
    table = Table(title=name)
    table.add_column(name)
    table.add_row(name)
    Console.open(as_json=False).show(name, table)
    sys.stdout.flush()
    assert out.getvalue().decode().count(name) == 4


def test_a_document_is_out_before_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else a reader that is gone would be noticed when nobody can say so any more."""
    out = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out, encoding="utf-8"))
    Console.open(as_json=True).document({"value": float("nan")})
    assert out.getvalue() == b'{\n "value": "NaN"\n}\n'

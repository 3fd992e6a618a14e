from __future__ import annotations

import re
import sys
from io import BytesIO, StringIO, TextIOWrapper
from threading import Event

import pytest
from rich.console import Console as RichConsole
from rich.progress import Task, TaskID
from rich.table import Table
from rich.text import Text

from harness.core import console
from harness.core.console import Console, _Rate, _Remaining


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


@pytest.mark.parametrize(
    ("completed", "elapsed_s", "rate", "remaining"),
    [
        (0, 9.0, "-/s", ""),
        (40, 10.0, "4/s", ""),
        (1000, 10.0, "100/s", "0:00:40 left"),
        (5000, 50.0, "100/s", "0:00:00 left"),
    ],
)
def test_a_hundredth_of_the_work_is_enough_for_the_remaining_time(
    completed: int, elapsed_s: float, rate: str, remaining: str
) -> None:
    """A resumed run that had 200 of 5,200 vectors when it started."""
    task = Task(TaskID(0), "", total=5200, completed=200 + completed, _get_time=lambda: elapsed_s, fields={"done": 200})
    task.start_time = 0.0
    assert _Rate().render(task).plain == rate
    assert _Remaining().render(task).plain == remaining


def test_a_file_gets_lines_of_progress_in_place_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    out, noted = StringIO(), Event()
    monkeypatch.setattr(console, "LINE_INTERVAL_S", 0.01)
    terminal = Console(RichConsole(file=out), RichConsole(file=out), as_json=False)
    monkeypatch.setattr(Console, "note", lambda _, text: (out.write(f"{text}\n"), noted.set()))
    with terminal.progress("proving", 4000) as bar:
        assert noted.wait(10)
        bar.advance(3000)
        noted.clear()
        assert noted.wait(10)
    lines = out.getvalue().splitlines()
    assert lines[0] == "proving: 0 of 4,000 (0 %)"
    assert re.fullmatch(r"proving: 3,000 of 4,000 \(75 %\), 0:00:0\d left", lines[-1])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_progress_shows_elapsed_time_before_the_first_step_and_whole_numbers(width: int) -> None:
    out = StringIO()
    terminal = RichConsole(file=out, force_terminal=True, width=width)
    text = "counting coverage of finished chunks"
    with Console(terminal, terminal, as_json=False).progress(text, 2_000_000) as bar:
        bar.progress.refresh()
        bar.advance(1_000_000)
        bar.progress.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    assert re.search(r" 0/2000000 .*0:00:00", shown)
    assert re.search(r"1000000/2000000 .*0:00:00 0:00:0. left", shown)
    assert "…" not in shown
    assert ("━" in shown, "/s" in shown) == (width == 120, width == 120)

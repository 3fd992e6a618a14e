from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console as RichConsole

from harness.applications.nightly.progress import watch
from harness.applications.nightly.schedule import BoardJob, JobKind
from harness.core.console import Console
from harness.core.installation import ROOT
from harness.core.outcome import Ending, Outcome
from harness.runs.history.night_record import Attempt, Entry, Result

ENTRY = Entry(0, "xavier", "acas_coc", "", "run", Outcome.IDENTICAL, 60.0)
LOST = Ending(Outcome.INCONCLUSIVE, "[bold]cut[/bold] \x1b[2J", "network")
RESULT = Result(0, LOST, (Attempt(0.0, 1.0, LOST), Attempt(1.0, 2.0, LOST)))


def console(*, terminal: bool) -> Console:
    look = {"force_terminal": terminal, "width": 100, "color_system": None, "markup": False}
    return Console(*(RichConsole(file=io.StringIO(), **look) for _ in range(2)), as_json=False)  # type: ignore[arg-type]


def written(console: Console) -> str:
    return console.err.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_without_a_terminal_each_event_is_a_line(tmp_path: Path) -> None:
    made = console(terminal=False)
    with watch(made, total=60, ended=11) as watcher:
        for step, told in ((JobKind.CHECK, "no route"), (JobKind.CHECK, "healthy"), (JobKind.ATTEMPT, "identical")):
            watcher.job_started(BoardJob("xavier", step, ENTRY), tmp_path / "log", 0.0)
            watcher.job_ended(BoardJob("xavier", step, ENTRY), told)
        watcher.concluded(ENTRY, RESULT)
    ending = "inconclusive (network) after 1 retry, NOT identical as expected: [bold]cut[/bold] [2J"
    assert written(made).splitlines() == [
        "xavier: health check: no route",
        "xavier: run xavier acas_coc begins",
        f"[12/60] run xavier acas_coc: {ending}",
    ]


def test_boards_that_somebody_has_are_told_once_and_shown_as_long_as_they_are() -> None:
    ana, bo = "board xavier is locked by ana@lab1 (soldering\x1b[2J)", "board xavier is in use by bo@lab1"
    for terminal in (False, True):
        made = console(terminal=terminal)
        with watch(made, total=60, ended=11) as watcher:
            for who in (ana, ana, bo):
                watcher.awaited({"xavier": who})
            made.out.print(watcher.table())
            watcher.awaited({})
            made.out.print(watcher.table())
        told = [line for line in written(made).splitlines() if "its entries wait" in line]
        assert [line.partition("xavier: ")[2] for line in told] == [
            "board xavier is locked by ana@lab1 (soldering[2J): its entries wait",
            "board xavier is in use by bo@lab1: its entries wait",
        ]
        shown = made.out.file.getvalue()  # type: ignore[attr-defined]
        assert shown.count("xavier  waits") == 1
        assert shown.count("in use by bo@lab1") == 1


def test_who_has_a_board_is_told_again_where_an_entry_was_to_begin_not_at_each_look(tmp_path: Path) -> None:
    made, taken = console(terminal=False), {"xavier": "board xavier is in use by ana@lab2"}
    with watch(made, total=60, ended=11) as watcher:
        for step in (JobKind.CHECK, JobKind.CHECK, JobKind.ATTEMPT):
            watcher.job_started(BoardJob("xavier", step, ENTRY), tmp_path / "log", 0.0)
            watcher.awaited({})
            watcher.job_ended(BoardJob("xavier", step, ENTRY), "")
            watcher.awaited(taken)
    waits = "xavier: board xavier is in use by ana@lab2: its entries wait"
    assert written(made).splitlines() == [waits, "xavier: run xavier acas_coc begins", waits]


def test_on_a_terminal_each_busy_board_has_a_line(tmp_path: Path) -> None:
    made, log = console(terminal=True), tmp_path / "log"
    log.write_text("=== harness run\n")
    with watch(made, total=60, ended=11) as watcher:
        watcher.job_started(BoardJob("xavier", JobKind.ATTEMPT, ENTRY), log, 0.0)
        made.out.print(watcher.table())
        log.write_text("=== harness run\nresuming after [red]100\x1b[2J vectors\n")
        made.out.print(watcher.table())
        watcher.job_ended(BoardJob("xavier", JobKind.ATTEMPT, ENTRY), "identical")
        assert watcher.busy == {}
    lines = made.out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "===" not in lines[0]
    assert "run xavier acas_coc" in lines[2]
    assert "resuming after [red]100[2J vectors" in lines[2]
    assert "begins" not in written(made)


def test_the_benchmark_of_the_scheduler_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "laboratory.py"), "--boards=4", "--models=2", "--nights=2"]
    done = subprocess.run([*command, "--repetitions=0", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["simulated"]
    assert (found["entries"], found["retries"]) == (16, 2)
    assert found["boards_s"] == 2 * (4 * 5 + 8 * 600 + 5 + 300)

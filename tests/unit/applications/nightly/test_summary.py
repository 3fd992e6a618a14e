from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from harness.applications.nightly import summary
from harness.core.outcome import Ending, Outcome
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Attempt, Entry, Health, Night, Result

LOST = Ending(Outcome.INCONCLUSIVE, "no route to <host> & \x1b[31m", "network")
ENDINGS = {
    "good": Ending(Outcome.IDENTICAL, "all are"),
    "bad": Ending(Outcome.DIFFERS, "dense_3, vector 7"),
    "lost": LOST,
    "never": Ending(Outcome.NOT_RUN, "it is after 06:00"),
    "known": Ending(Outcome.DIFFERS, "as it always did"),
    "mended": Ending(Outcome.IDENTICAL, "all are"),
}


def make(folder: Path, *names: str) -> Night:
    expect = {"known": Outcome.DIFFERS, "mended": Outcome.DIFFERS}
    entries = tuple(
        Entry(number, "xavier", name, "", "run", expect.get(name, Outcome.IDENTICAL), 60.0)
        for number, name in enumerate(names)
    )
    night = record.create(folder, 1_000_000.0, "nightly.yaml", "ab", entries)
    for entry in entries:
        ending = ENDINGS[entry.model]
        attempts = () if ending.outcome is Outcome.NOT_RUN else (Attempt(0.0, 90.0, LOST), Attempt(90.0, 100.5, ending))
        record.keep_result(folder, Result(entry.number, ending, attempts, f"run{entry.number}" if attempts else ""))
    record.keep_health(folder, Health("kv260", 5.0, "no answer"))
    record.end(night.folder, 1_003_900.0)
    return record.read(night.folder)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], 0),
        (["good", "known"], 0),
        (["good", "bad"], 1),
        (["mended"], 1),
        (["lost"], 3),
        (["never", "good"], 3),
        (["lost", "bad", "never"], 1),
    ],
)
def test_the_exit_code_tells_a_wrong_verdict_from_none(tmp_path: Path, names: list[str], code: int) -> None:
    night = make(tmp_path, *names)
    assert summary.exit_code(night) == code
    assert summary.document(night)["exit_code"] == code


def shown(night: Night) -> list[str]:
    console = Console(file=io.StringIO(), width=220)
    console.print(*summary.show(night, {"xavier": "emulated"}), sep="\n", soft_wrap=True)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in text
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_surprises_come_first_the_wrong_before_the_missing(tmp_path: Path) -> None:
    lines = shown(make(tmp_path, "never", "lost", "good", "bad", "mended", "known"))
    assert lines[:4] == [
        "differs, expected identical: run xavier bad: dense_3, vector 7 (runs/run3)",
        "identical, expected differs: run xavier mended: all are (runs/run4)",
        "inconclusive (network): run xavier lost: no route to <host> & [31m (runs/run1)",
        "not run (1): it is after 06:00: run xavier never",
    ]
    assert lines[4].split() == ["board", "kind", "never", "lost", "good", "bad", "mended", "known"]
    assert "run inconclusive (network)!, 1 retry, 1m 40s" in lines[6]
    assert "run identical, 1 retry, 1m 40s" in lines[6]
    assert lines[6].split()[:2] == ["xavier", "emulated"]
    assert lines[7] == "board kv260 is quarantined: no answer"
    assert lines[8].startswith("4 NOT AS EXPECTED: 1 not run, 1 inconclusive, 2 identical, 2 differs; 5 retries; ")
    assert lines[8].endswith(", 1h 05m")


def test_a_night_without_surprises_says_so(tmp_path: Path) -> None:
    assert any(line.startswith("all as expected: 1 identical; 1 retry") for line in shown(make(tmp_path, "good")))


def test_continuous_integration_sees_failures_errors_and_what_was_skipped(tmp_path: Path) -> None:
    night = make(tmp_path, "good", "bad", "lost", "never", "known", "mended")
    [suite] = ET.fromstring(summary.junit(night))  # noqa: S314 - our own
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
    }
    cases = {str(case.get("name")).split()[-1]: case for case in suite}
    found = {
        name: [(part.tag, part.get("type")) for part in case if part.tag != "system-out"]
        for name, case in cases.items()
    }
    assert found == {
        "good": [],
        "bad": [("failure", "differs")],
        "lost": [("error", "network")],
        "never": [("skipped", None)],
        "known": [],
        "mended": [("failure", "identical")],
    }
    assert cases["good"].get("classname") == "xavier.good"
    assert cases["good"].get("time") == "100.500"
    said = cases["good"].findtext("system-out") or ""
    assert "evidence: runs/run0" in said
    assert "retries: 1\nattempt 1: inconclusive (network): no route to <host> & [31m\nattempt 2: identical" in said


def test_a_night_that_was_ended_as_it_was_tells_what_stopped_its_entries(tmp_path: Path) -> None:
    entry = Entry(0, "xavier", "m", "", "run", Outcome.IDENTICAL, 60.0)
    night = record.create(tmp_path, 1.0, "f", "ab", (entry,))
    record.keep_begun(tmp_path, record.Begun(0, (Attempt(1.0, 2.0, LOST),), 3.0, "run"))
    assert record.read(tmp_path).ending(entry).reason == "not yet"
    record.end(tmp_path, 4.0)
    assert record.read(night.folder).ending(entry) == LOST

"""A run whose traces are no paths of the plan's net differs, in every report, whatever its activations are."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from harness.boards.workspace import find
from harness.cli.run import run
from harness.core.console import Console
from harness.core.errors import BoardError
from harness.execution.program import Deployed
from harness.pipeline.run import _trace
from harness.plan import conformance
from harness.report import html, junit
from harness.runs import tracing
from harness.runs.job import Job, Request

EARLY = "random delays: network began dense_1 of execution 3 1,200 ns before prepost had ended quantize_input"
STRAYED = {
    "executions": 100,
    "events": 1500,
    "conforms": False,
    "conditions": [
        {"name": "undisturbed", "executions": 60, "violations": 0},
        {"name": "random delays", "executions": 40, "violations": 2},
    ],
    "violations": [EARLY, EARLY.replace("of execution 3", "of execution 9")],
    "waiting": [],
    "picture": None,
}


@pytest.fixture
def strayed(identical: dict[str, Any]) -> dict[str, Any]:
    return identical | {"conformance": STRAYED, "verdict": "differs"}


def test_the_page_says_so_at_the_top(strayed: dict[str, Any]) -> None:
    top, _, below = html(strayed).partition("<h2>Layers</h2>")
    assert "<strong>Differs" in top
    assert "None differs." in top
    assert "Traces show steps out of order, first random delays: network began dense_1 of execution 3" in top
    assert "violated the plan's Petri net" in below


def test_continuous_integration_sees_a_failure(strayed: dict[str, Any]) -> None:
    (suite,) = ET.fromstring(junit(strayed).encode())  # noqa: S314 - our own report
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("13", "1")
    cases = {
        case.attrib["name"]: case for case in suite.findall("testcase") if case.attrib["classname"].endswith(".trace")
    }
    assert len(cases["undisturbed"]) == 0
    failure = cases["random delays"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "2 steps in 40 executions were not in order"
    assert (failure.text or "").splitlines()[0] == EARLY


@pytest.mark.parametrize("report", [html, junit])
def test_it_is_never_shown_as_identical(strayed: dict[str, Any], report: Any) -> None:
    with pytest.raises(ValueError, match="the verdict is identical, but 0 layers differ and a trace"):
        report(strayed | {"verdict": "identical"})


def test_a_trace_that_fails_takes_no_verdict_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is wrong may trace itself wrongly too."""

    def fail(*_: object) -> None:
        raise BoardError("undisturbed.jsonl, line 2: the step ends 9 ns before it begins")

    monkeypatch.setattr(tracing, "observe", fail)
    job = cast("Job", SimpleNamespace(request=Request(board="host", model="acas_coc"), plan=None))
    board, console, notes = cast("Deployed", None), Console.open(as_json=True), list[str]()
    assert _trace(job, board, console, notes.append, already_differs=True) is None
    assert notes == ["warning: no traces: undisturbed.jsonl, line 2: the step ends 9 ns before it begins"]
    with pytest.raises(BoardError):
        _trace(job, board, console, notes.append, already_differs=False)


def test_a_run_with_such_a_trace_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def document(*_: object) -> conformance.ConformanceEntry:
        return conformance.ConformanceEntry.from_json(STRAYED)

    monkeypatch.setattr(conformance, "document", document)
    space = find(None, tmp_path / "runs")
    request = Request(board="host", model="acas_coc", vectors="100", trace=8)
    assert run(request, None, space, Console.open(as_json=False)) == 1
    (folder,) = (tmp_path / "runs").iterdir()
    document = json.loads((folder / "run.json").read_text())
    assert document["verdict"] == "differs"
    assert document["reason"].endswith(f"2 steps in traces of 100 executions were not in order, first {EARLY}")

"""The section about traces says what the run document says, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.report import page
from tests.unit.report.test_html import tables

SECTION = (
    "{% macro plural(number, word) %}{{ number | count }} {{ word }}{{ 's' if number != 1 }}{% endmacro %}"
    "{% include 'conformance.html.jinja' %}"
)


@pytest.fixture
def observed() -> dict[str, Any]:
    return {
        "executions": 1200,
        "events": 12_000,
        "conforms": True,
        "conditions": [
            {"name": "undisturbed", "executions": 1000, "violations": 0},
            {"name": "random delays", "executions": 200, "violations": 0},
        ],
        "violations": [],
        "waiting": [row("prepost", "quantize_input", 0.25), row("network", None, 0.5), row("network", "scores", 0.125)],
    }


def row(item: str, hand_over: str | None, share: float) -> dict[str, Any]:
    times = {
        "median_ns": 1500.0,
        "percentile_90_ns": 2000.0,
        "percentile_99_ns": 3000.0,
        "max_ns": 4000,
        "sum_ns": 9000,
    }
    return {"item": item, "hand_over": hand_over, "count": 1000, "share": share} | times


def section(observed: dict[str, Any], plan: dict[str, Any], *, on_hardware: bool = True) -> str:
    return (
        page.environment()
        .from_string(SECTION)
        .render(
            run={"conformance": observed, "plan": plan}, facts=SimpleNamespace(on_hardware=on_hardware), swimlanes=None
        )
    )


def test_conforming_traces(observed: dict[str, Any], identical: dict[str, Any]) -> None:
    found = section(observed, identical["plan"])
    assert "1,200 executions of a block were traced, 12,000 steps in all." in found
    assert "1,200 executions of 16 vectors were traced" in section(observed | {"vectors": 16}, identical["plan"])
    assert "Every one is a path of the plan's Petri net" in found
    assert "forbids" not in found
    assert "not times of the board's hardware" not in found
    assert "not times of the board's hardware" in section(observed, identical["plan"], on_hardware=False)


def test_violations_are_counted_and_shown(observed: dict[str, Any], identical: dict[str, Any]) -> None:
    observed["conforms"] = False
    observed["conditions"][1]["violations"] = 2
    observed["violations"] = ["random delays: <b>network</b> began early", "random delays: prepost began early"]
    found = section(observed, identical["plan"])
    assert "2 things violated the plan's Petri net." in found
    assert "is a path" not in found
    assert ">All of them<" in found
    assert (
        "<pre>random delays: &lt;b&gt;network&lt;/b&gt; began early\nrandom delays: prepost began early</pre>" in found
    )
    observed["conditions"][1]["violations"] = 30
    assert ">The first 2 of them<" in section(observed, identical["plan"])


def test_the_table_of_waiting(observed: dict[str, Any], identical: dict[str, Any]) -> None:
    _, waiting = tables(section(observed, identical["plan"]))
    assert waiting[1:4] == [
        ["prepost", "barrier quantize_input", "1,000", "1.50", "2.00", "3.00", "4.00", "9.00", "25.0 %", ""],
        ["network", "end of a tick", "1,000", "1.50", "2.00", "3.00", "4.00", "9.00", "50.0 %", ""],
        ["network", "barrier scores", "1,000", "1.50", "2.00", "3.00", "4.00", "9.00", "12.5 %", ""],
    ]
    assert waiting[4:] == [
        ["prepost", "altogether", "9.00", "25.0 %", ""],
        ["network", "altogether", "18.00", "62.5 %", ""],
    ]


def test_of_a_long_table_the_greatest_rows_are_shown(observed: dict[str, Any], identical: dict[str, Any]) -> None:
    observed["waiting"] = [row("prepost", f"layer_{index}", index / 1000) for index in range(30)]
    page = section(observed, identical["plan"])
    assert "The table shows the 20 greatest of 30." in page
    _, waiting = tables(page)
    assert [line[1] for line in waiting[1:21]] == [f"barrier layer_{index}" for index in range(29, 9, -1)]


def test_a_trace_with_gaps_has_no_table_of_waiting(observed: dict[str, Any], identical: dict[str, Any]) -> None:
    observed["waiting"] = []
    found = section(observed, identical["plan"])
    assert len(tables(found)) == 1
    assert "Waiting times of the items" not in found

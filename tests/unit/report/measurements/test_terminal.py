"""What a tired person reads: the verdict first, what it is worth, the numbers, and where more is."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console as RichConsole

from harness.core.console import Console
from harness.report.terminal import show_measurement
from tests.support.measurement import documents


def said(document: dict[str, Any], width: int = 160) -> list[str]:
    out = io.StringIO()
    console = RichConsole(file=out, width=width, highlight=False)
    show_measurement(document, Path("runs/one/report.html"), Console(console, console, as_json=False))
    return [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]


def test_verdict_first_numbers_then_the_report(sound: dict[str, Any]) -> None:
    lines = said(sound)
    assert lines[0] == f"measured: {sound['reason']}"
    assert lines[-1] == "report: runs/one/report.html"
    [row] = [line.split() for line in lines if line.strip().startswith("acas_coc ")]
    summary = sound["parts"][0]["summary"]
    assert row[1:4] == ["4,000", f"{summary['min_ns']:,}", f"{summary['median_ns']:,}"]
    assert row[-2:] == ["-", f"{summary['max_ns']:,}"]  # no p99.99 of 4,000
    assert not [line for line in lines if "MET" in line or line.startswith("caution")]


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_has_a_row_for_each_statistic(sound: dict[str, Any], width: int) -> None:
    lines = said(sound, width)
    summary = sound["parts"][0]["summary"]
    found = dict(line.rsplit(maxsplit=1) for line in lines if re.match("(n|median, ns|max, ns) ", line))
    assert found == {"n": "4,000", "median, ns": f"{summary['median_ns']:,}", "max, ns": f"{summary['max_ns']:,}"}


def test_a_pwcet_is_told_as_far_as_it_is_supported(sound: dict[str, Any]) -> None:
    found = [line for line in said(sound) if line.startswith("pWCET")]
    assert len(found) == 2
    assert all(line.endswith("exceeded with 1e-4") for line in found)
    assert not [line for line in said(sound) if line.startswith("no pWCET")]


def test_not_met_stands_below_the_verdict(counted: dict[str, Any]) -> None:
    lines = said(counted)
    assert lines[1].startswith("NOT MET: instructions were counted; item prepost ran on emulated-cpu")
    assert any(line.split()[-2:] == ["2,010", "2,010"] for line in lines)
    assert (
        "clock: instructions (perf_event): two readings always cost 51 instructions, "
        "which are subtracted from every count" in lines
    )


def test_a_count_of_launches_is_no_count_of_the_network(counted: dict[str, Any]) -> None:
    assert not [line for line in said(counted) if "--items" in line]
    counted["parts"][1]["alone"] = False
    [hint] = [line for line in said(counted) if line.startswith("hint: ")]
    assert "only the start and the wait are counted" in hint
    assert hint.endswith(f"--items {','.join('c' for _ in counted['plan']['items'])}")


def test_cautions_and_findings(disturbed: dict[str, Any]) -> None:
    disturbed["state"] |= {"throttled": ["cpu0 grew by 3"], "unseen": ["the board shows no temperatures"]}
    lines = said(disturbed)
    assert "caution: throttled: cpu0 grew by 3" in lines
    assert "unknown: the board shows no temperatures" in lines
    assert [line for line in lines if line.startswith("warm-up: The first 40 executions are")]
    assert [line for line in lines if line.startswith("outliers: ") and "periodically" in line]
    [line] = [line for line in lines if line.startswith("no pWCET of acas_coc: ")]
    methods = disturbed["parts"][0]["pwcet"].values()
    reasons = {reason for method in methods for reason in method["not_applicable"]}
    assert line.endswith(f" (and {len(reasons) - 1} more reasons)"), "as many as on the page"
    assert not [line for line in lines if line.startswith("drift")]


def test_findings_of_several_parts_fill_no_screen(layers: dict[str, Any]) -> None:
    for part in layers["parts"][:2]:
        part["series"]["drift"]["drifts"] = True
    assert "drift in first, second: see the report" in said(layers)


def test_a_regression_says_why(slower: dict[str, Any]) -> None:
    lines = said(slower)
    assert lines[0].startswith("regressed: slower than 20261121-051705_xavier_acas_coc")
    assert [
        line for line in lines if line.startswith("against 20261121-051705_xavier_acas_coc, acas_coc: median: slower")
    ]


def shift_rows(lines: list[str]) -> dict[str, list[str]]:
    """Return the cells behind the name of each statistic in the table of shifts."""
    title = next(index for index, line in enumerate(lines) if line.startswith("Shift since "))
    return {line.split()[1]: line.split()[2:] for line in lines[title + 3 : title + 6]}


def test_every_gate_is_shown_also_where_nothing_moved() -> None:
    base = documents.gumbel(4000)
    lines = said(documents.timed(base, base=base))
    assert "against 20261121-051705_xavier_acas_coc: unchanged" in lines
    rows = shift_rows(lines)
    assert list(rows) == ["median", "p99", "maximum"]
    assert rows["median"] == ["50.15", "µs", "50.15", "µs", "0", "ns", "501.5", "ns", "1.0%", "unchanged"]


def test_a_base_that_is_too_noisy_is_said_with_its_gate(noisy: dict[str, Any]) -> None:
    lines = said(noisy)
    assert lines[0].startswith("inconclusive: base too noisy")
    median = noisy["against"]["parts"][0]["shifts"][0]
    assert shift_rows(lines)["median"][-2:] == [f"{median['gate_ns'] / median['base_ns']:,.1%}", "inconclusive"]
    assert not [line for line in lines if line.endswith(": unchanged")]
    assert [line for line in lines if line.startswith("hint: measure the base again")]


def test_a_device_tells_its_own_times(sound: dict[str, Any]) -> None:
    numbers = {"executions": 4000, "average_ns": 12_345, "least_ns": 12_000, "greatest_ns": 20_000}
    sound["devices"] = [{"item": "network", "kind": "kernel", "name": "dense"} | numbers]
    told = "by the device of item network, kernel dense: 12.35 µs on average, 12 µs to 20 µs"
    assert told.replace("12.35", "12.34") in said(sound) or told in said(sound)

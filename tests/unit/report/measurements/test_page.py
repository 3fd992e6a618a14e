"""The page of a measurement: what it says, and what it must never do."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from harness.core.time_units import duration
from harness.report import measurement
from tests.support.measurement import documents
from tests.unit.report.test_html import HOSTILE, Page, hostile, tables

NOT_A_TIME = "nothing here is an execution time of acas_coc on xavier"


def html(document: dict[str, Any]) -> str:
    return measurement(document)["report.html"]


def prose(document: dict[str, Any]) -> str:
    page = Page(html(document))
    return " ".join(" ".join(data for path, data in page.text if not {"style", "script"} & set(path)).split())


def table(document: dict[str, Any], first: str) -> list[list[str]]:
    """The table whose first heading this is."""
    [found] = [rows for rows in tables(html(document)) if rows and rows[0] and rows[0][0] == first]
    return found


@pytest.mark.slow
def test_the_verdict_comes_first(sound: dict[str, Any]) -> None:
    page = Page(html(sound))
    assert page.within("title")[0] == "Measured: acas_coc on xavier, 2026-11-22T12:02:11Z"
    assert page.within("strong")[:2] == ["Measured", "on hardware"]
    text = prose(sound)
    assert text.index(sound["reason"]) < text.index("Quantiles are times of single executions")
    assert "4,000 executions of one vector each, in 4 processes, after 1,000 warm-up executions in each" in text
    assert (
        "These are measured execution times (MET) of xavier; the maximum is the largest observed time, not a bound."
        in text
    )
    assert "not MET" not in text


def test_an_emulated_board_is_unmissable(counted: dict[str, Any]) -> None:
    page, text = Page(html(counted)), prose(counted)
    assert page.within("strong")[:2] == ["Measured", "on an emulated board"]
    assert f"These are counts, not times: {NOT_A_TIME}" in page.within("h2")
    assert "The board xavier was emulated; no xavier hardware took part." in text
    assert "These are measured execution times" not in text
    assert table(counted, "Item")[1:] == [["prepost", "c", "emulated-cpu (qemu neoverse-n1)"]]


def test_times_of_a_stand_in_are_not_met(sound: dict[str, Any]) -> None:
    where = "host-simulation of CUDA"
    sound["plan"]["items"][0] |= {"target": "cuda:fused", "ran_on": where}
    sound["measured"]["not_met_because"] = f"item prepost ran on {where}"
    assert f"These times are not MET: {NOT_A_TIME}" in Page(html(sound)).within("h2")
    assert f"Not MET because item prepost ran on {where}." in prose(sound)
    assert "on hardware, in part by stand-ins" in prose(sound)


def test_times_of_a_program_that_computes_something_else_are_not_met(sound: dict[str, Any]) -> None:
    sound["outputs"]["differing"] = 7
    sound |= {"verdict": "differs", "reason": "7 of 4,000 outputs are not the reference's"}
    assert f"These times are not MET: {NOT_A_TIME}" in Page(html(sound)).within("h2")
    assert "Not MET because 7 outputs are not the reference's." in prose(sound)
    assert "These are measured execution times" not in prose(sound)
    assert "% Quantity: NOT MET: 7 outputs are not the reference's" in measurement(sound)["table.tex"]


def test_what_takes_away_is_said_before_the_numbers(sound: dict[str, Any]) -> None:
    assert "Limitations of these" not in prose(sound)
    sound["state"]["throttled"] = ["cpu0 grew by 3"]
    text = prose(sound)
    assert text.index("Limitations of these times Throttled: cpu0 grew by 3.") < text.index("Network Ran on")


@pytest.mark.slow
def test_the_papers_table_has_every_number(layers: dict[str, Any]) -> None:
    head, *rows = table(layers, "Layer")
    assert head[2:] == ["mean", "min", "max", "std", "median", "p99", "p99.9", "p99.99"]
    assert [row[0] for row in rows] == ["first", "second", "third"]
    for row, part in zip(rows, layers["parts"], strict=True):
        summary = part["summary"]
        assert row[3:5] == [f"{summary['min_ns']:,}", f"{summary['max_ns']:,}"]
        interval = summary["quantiles"][0]["interval"]
        assert row[7] == f"{summary['quantiles'][0]['value_ns']:,} {interval['low']:,.0f} to {interval['high']:,.0f}"
    assert rows[0][9] == "not given"
    assert "p99.99: 4000 executions give no 0.95 interval for p99.99." in prose(layers)


def test_one_part_is_open_and_of_several_the_slowest(sound: dict[str, Any], layers: dict[str, Any]) -> None:
    assert '<details class="part"' not in html(sound)
    parts = re.findall(r'<details class="part"( open)?><summary><code>(.*?)</code>', html(layers))
    assert parts == [(" open", "second"), ("", "first"), ("", "third")]


def test_what_the_series_shows_is_said(disturbed: dict[str, Any]) -> None:
    text = prose(disturbed)
    assert "The first 40 executions are" in text
    assert "beyond the 1,000 executions that were left out (p-value 0.0005)." in text
    assert (
        "(1.10%) lie far out, above 52.47 µs, and come periodically: every 100 executions, about every 6 ms (166.7 Hz)."
        in text
    )
    assert "The level stays" in text


def test_what_comes_unevenly_but_has_no_period_is_said(disturbed: dict[str, Any]) -> None:
    disturbed["parts"][0]["series"]["outliers"]["period"] = None
    assert "come periodically" not in prose(disturbed)
    assert "and are not spread evenly over the series." in prose(disturbed)


def test_a_pwcet_is_a_table_with_its_reach(sound: dict[str, Any]) -> None:
    text = prose(sound)
    assert "pWCET by block maxima." in text
    assert "pWCET by peaks over threshold." in text
    assert "No pWCET" not in text
    curve = sound["parts"][0]["pwcet"]["peaks"]["curve"]
    rows = [rows for rows in tables(html(sound)) if rows[0][0] == "Exceeded with probability"][1]
    assert len(rows) == 1 + len(curve)
    assert rows[-1][0] == "1e-9"
    assert rows[-1][1].replace(",", "") == f"{curve[-1]['time_ns']:.1f}"
    assert rows[-1][3] == curve[-1]["words"]


def test_without_a_pwcet_every_reason_stands_once(disturbed: dict[str, Any]) -> None:
    methods = disturbed["parts"][0]["pwcet"].values()
    reasons = {reason for found in methods for reason in found["not_applicable"]}
    text = prose(disturbed)
    assert f"No pWCET by block maxima, nor by peaks over threshold: {len(reasons)} reason" in text
    for reason in reasons:
        assert text.count(reason[1:]) == 1


@pytest.mark.slow
def test_the_comparison_shows_every_shift(slower: dict[str, Any]) -> None:
    found = slower["against"]["parts"][0]
    [rows] = [rows for rows in tables(html(slower)) if rows[0][1:2] == ["Verdict"]]
    assert [row[-1] for row in rows[1:]] == [shift["verdict"] for shift in found["shifts"]]
    first = found["shifts"][0]
    assert rows[1][-4:-1] == [
        f"{first['shift_ns']:+,.0f}",
        f"{first['interval']['low']:+,.0f} to {first['interval']['high']:+,.0f}",
        f"{first['gate_ns']:,.0f} ({first['gate_ns'] / first['base_ns']:.1%})",
    ]
    text = prose(slower)
    assert "Slower: acas_coc." in text
    assert "effect large: of all pairs, the new execution is slower in 100.0% more than it is faster" in text


def test_what_cannot_be_said_is_no_good_news(slower: dict[str, Any]) -> None:
    slower["against"] |= {"regressed": False, "slower": []}
    slower["verdict"] = "measured"
    slower["against"]["parts"][0]["verdict"] = "unchanged"
    assert "Nothing is slower beyond its gate." in prose(slower)
    slower["against"]["parts"][0]["verdict"] = "inconclusive"
    assert "Of acas_coc the result is not yet clear: more executions would decide it." in prose(slower)
    assert "Nothing is slower" not in prose(slower)


@pytest.mark.slow
def test_a_base_that_is_too_noisy_is_no_good_news(noisy: dict[str, Any]) -> None:
    text = prose(noisy)
    assert "Nothing is slower" not in text
    assert "Inconclusive: the base is too noisy to tell whether acas_coc became slower." in text
    assert "measure the base again on an idle board" in text
    median = noisy["against"]["parts"][0]["shifts"][0]
    [rows] = [rows for rows in tables(html(noisy)) if rows[0][1:2] == ["Verdict"]]
    assert rows[1][-2:] == [f"{median['gate_ns']:,.0f} ({median['gate_ns'] / median['base_ns']:,.1%})", "inconclusive"]


@pytest.mark.parametrize("times", [[7], [7, 9], [0] * 30, [100] * 600, list(range(25)), [1, 1, 1, 2**53]], ids=str)
def test_odd_series_have_a_page_too(times: list[int]) -> None:
    series = np.array(times, np.uint64)
    document = documents.timed(series)
    reports = measurement(document)
    Page(reports["report.html"])
    assert f"of {len(times):,} execution" in prose(document)
    assert f",{max(times)}," in reports["times.csv"]


def test_equal_counts_say_what_they_show(counted: dict[str, Any]) -> None:
    text = prose(counted)
    assert "Every part took the same number in each of 2,000 executions, for all 1,000 vectors:" in text
    assert "two readings always cost 51 instructions, which are subtracted from every count. A count says" in text
    [rows] = [rows for rows in tables(html(counted)) if rows[0][1:2] == ["Layer"]]
    assert rows[2][4:7] == ["2,010", "2,010", "1"]
    assert rows[-1] == ["", "All 3 layers", "5,030", "5,030", "", ""]


def test_a_part_that_waits_is_not_said_to_take_the_same(counted: dict[str, Any]) -> None:
    counted["parts"][1] |= {"alone": False, "distinct": 2, "max": 2100}
    assert "Every part that waits for no device took the same number" in prose(counted)
    for part in counted["parts"]:
        part["alone"] = False
    assert "Every part waits for a device, so no count says anything of the network." in prose(counted)


def test_what_a_reading_costs_is_said_as_often_as_it_is_contained(
    counted: dict[str, Any], layers: dict[str, Any]
) -> None:
    counted["parts"][0]["tasks"] = layers["parts"][0]["tasks"] = 2
    assert "which are subtracted from every count, once for each of its tasks." in prose(counted)
    assert "every time contains them, once for each of its tasks." in prose(layers)


def test_one_vector_shows_nothing_of_data(counted: dict[str, Any]) -> None:
    counted["measured"]["segment"] = 1
    assert "all were of one vector, which shows nothing of how control flow depends on data" in prose(counted)
    assert "as the static schedule promises" not in prose(counted)


def test_what_else_changed_since_the_base_is_told(slower: dict[str, Any]) -> None:
    assert "settings and environment are unchanged" in prose(slower)
    slower["against"]["changed"] = [{"topic": "compiler", "base": "gcc 12", "new": "gcc 13"}]
    assert table(slower, "What")[1:] == [["compiler", "gcc 12", "gcc 13"]]
    assert "settings and environment are unchanged" not in prose(slower)


def test_what_was_granted_and_what_was_asked_for(sound: dict[str, Any]) -> None:
    sound["measured"] |= {"memory_locked": False, "dma_latency_asked": False, "dma_latency_held": False}
    text = prose(sound)
    assert "memory not locked, although the profile asks for it; CPU DMA latency not held, nor asked for." in text


def test_counts_that_differ_name_function_and_vectors(varying: dict[str, Any]) -> None:
    varying["parts"][1]["first_max"] = 1003  # of the second segment, which has the same vectors
    [rows] = [rows for rows in tables(html(varying)) if rows[0][1:2] == ["Layer"]]
    assert [row[0] for row in rows[1:]] == ["=", "≠", "="]
    assert rows[2][2] == "dense_1_forward"
    assert rows[2][-1] == (
        "vector 0 takes the least, vector 3 the most, 2,010 is the most frequent; "
        "each vector always the same, so its control flow depends on data"
    )
    assert "1 part of 3 took different numbers of instructions." in prose(varying)


def test_the_state_of_the_board(sound: dict[str, Any]) -> None:
    sound["state"]["settings"].append(
        {"name": "turbo", "path": "boost", "wanted": "0", "before": None, "reached": None, "reason": "no such file"}
    )
    sound["state"]["unseen"] = ["the board shows no temperatures: whether it was hot is unknown"]
    rows = table(sound, "Setting")
    assert rows[1][2:] == ["schedutil", "performance", "performance", ""]
    assert rows[2][2:] == ["not recorded", "0", "not recorded", "no such file"]
    text = prose(sound)
    assert "Load: memory , reads and writes large arrays. Priority: SCHED_FIFO 80; memory locked;" in text
    assert "The board shows no temperatures: whether it was hot is unknown." in text
    segments = table(sound, "Segment")
    assert [row[4] for row in segments[1:]] == ["12", "13", "14", "15"]
    assert segments[1][7:9] == ["321", "6,100"]


def test_devices_are_shown_as_sums_of_their_drivers(sound: dict[str, Any]) -> None:
    assert "By the devices" not in prose(sound)
    numbers = {"executions": 4000, "average_ns": 12_345, "least_ns": 12_000, "greatest_ns": 20_000}
    sound["devices"] = [{"item": "network", "kind": "kernel", "name": "dense"} | numbers]
    rows = [rows for rows in tables(html(sound)) if rows[0][:2] == ["Item", "What"]]
    assert rows[0][1] == ["network", "kernel", "dense", "4,000", "12.345", "12.000", "20.000"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sound", "disturbed", "slower", "layers", "few", "counted", "varying"])
def test_the_page_is_whole_and_loads_nothing(name: str, request: pytest.FixtureRequest) -> None:
    source = html(request.getfixturevalue(name))
    page = Page(source)
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    assert page.tags.count("script") == 1
    assert not {"src", "href", "srcset", "action"} & {attribute for attribute, _ in page.attributes}
    assert not [attribute for attribute, _ in page.attributes if attribute.startswith("on")]
    assert not re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", source)
    assert "prefers-color-scheme: dark" in source
    assert len(source) < 150_000


REST = "base-uri 'none'; form-action 'none'"


def test_the_page_permits_its_own_script_alone(sound: dict[str, Any]) -> None:
    source = html(sound)
    [script] = re.findall(r"<script>(.*?)</script>", source, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [value for name, value in Page(source).attributes if name == "content" and "default-src" in str(value)]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; {REST}"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed here")
def test_a_browser_runs_the_script_and_the_pictures_zoom(layers: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html(layers), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True).stdout
    charts = re.findall(r'<svg class="chart( zoomable)?"[^>]*?( tabindex="0")?>', shown)
    assert charts == [(" zoomable", ' tabindex="0"')] * html(layers).count('<svg class="chart"')
    assert '<p class="hint" hidden' not in shown


def test_the_script_has_no_data_and_makes_no_markup(sound: dict[str, Any], slower: dict[str, Any]) -> None:
    scripts = [re.findall(r"<script>(.*?)</script>", html(one), re.DOTALL) for one in (sound, slower)]
    assert scripts[0] == scripts[1]
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|fetch|XMLHttp", scripts[0][0]
    )
    assert "prefers-reduced-motion" in scripts[0][0]


@pytest.mark.parametrize("name", ["sound", "disturbed", "slower", "layers", "counted"])
def test_every_picture_is_well_formed_and_says_what_it_shows(name: str, request: pytest.FixtureRequest) -> None:
    source = html(request.getfixturevalue(name))
    charts = re.findall(r'<svg class="chart".*?</svg>\n.*?</svg>', source, re.DOTALL)
    assert len(charts) == source.count('<svg class="chart"')
    for chart in charts:
        parsed = ET.fromstring(chart)  # noqa: S314 - our own page
        assert parsed.get("role") == "img"
        assert len(parsed.get("aria-label", "")) > 20
        numbers = [
            float(number) for path in parsed.iter("path") for number in re.findall(r"-?[\d.]+", path.get("d", ""))
        ]
        assert all(-1 <= number <= 1000 for number in numbers)
        assert not [path for path in parsed.iter("path") if "nan" in path.get("d", "") or "inf" in path.get("d", "")]


def test_every_kind_of_shape_has_a_style(
    sound: dict[str, Any], disturbed: dict[str, Any], slower: dict[str, Any]
) -> None:
    for document in (sound, disturbed, slower):
        source = html(document)
        style = source.split("</style>")[0]
        kinds = {word for kind in re.findall(r'<path class="(.*?)"', source) for word in kind.split()}
        unstyled = {kind for kind in kinds if f".{kind}" not in style}
        assert unstyled <= {"median", "series-0", "unchanged", "inconclusive", "key"}


def test_no_text_of_the_document_becomes_markup(slower: dict[str, Any]) -> None:
    kept = {"quantity", "unit", "verdict", "law_name", "scope"}

    def attack(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: entry if name in kept else attack(entry, name) for name, entry in value.items()}
        if isinstance(value, list):
            return [attack(entry, key) for entry in value]
        return hostile(value, key) if value else value

    slower["state"] |= {"told": ["turbo: no"], "throttled": ["cpu0"], "unseen": ["temperatures"], "drifted": ["x"]}
    slower["board"]["environment"]["virtual_machine"] = "kvm"
    ours = {"plan": slower["plan"], "board": slower["board"] | {"kind": "hardware"}}
    attacked = attack(slower)
    attacked["plan"], attacked["board"]["kind"] = ours["plan"], "hardware"
    harmless, found = Page(html(slower)), Page(html(attacked))
    assert found.tags == harmless.tags
    assert {name for name, _ in found.attributes} == {name for name, _ in harmless.attributes}
    assert f"acas_coc{HOSTILE}" in found.within("h1")
    assert any(f"temperatures{HOSTILE}" in text.lower() or HOSTILE in text for text in found.within("p"))


def test_marks_of_writing_direction_are_left_out(sound: dict[str, Any]) -> None:
    sound["model"]["name"] = "acas\u202ecoc"
    assert "\u202e" not in html(sound)


def graph(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "operator": "QGemm" if index else "",
            "reads": [index - 1] if index else [],
            "shape": [50],
            "dtype": "uint8",
            "low": 0,
            "high": 255,
        }
        for index, name in enumerate(("state", *names))
    ]


def test_the_network_shows_the_medians_of_its_layers(layers: dict[str, Any]) -> None:
    names = ("first", "second", "third")
    layers |= {"graph": graph(names), "launches": []}
    layers["measured"] = layers["measured"] | {"scope": "layer"}
    source = html(layers)
    wide, narrow = re.findall(r'<svg class="network".*?</svg>', source, re.DOTALL)
    for index, (name, part) in enumerate(zip(names, layers["parts"], strict=True)):
        [box] = re.findall(rf'<a href="#part-{index}">.*?</a>', wide, re.DOTALL)
        assert f">{name}</text>" in box
        assert f">{duration(part['summary']['median_ns'])}</text>" in box
        assert f'<tr id="part-{index}"><th><code>{name}</code>' in source
    assert narrow.count("<a href=") == 3
    layers["measured"] = layers["measured"] | {"scope": "network"}
    assert 'class="network"' not in html(layers)


def test_the_counts_of_layers_are_in_the_network(counted: dict[str, Any]) -> None:
    names = tuple(part["name"] for part in counted["parts"])
    counted |= {"graph": graph(names), "launches": []}
    counted["measured"] = counted["measured"] | {"scope": "layer"}
    source = html(counted)
    assert "the boxes show the least instructions" in source
    assert f">{counted['parts'][0]['min']:,}</text>" in source

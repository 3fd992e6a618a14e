"""The map of a decision as a browser shows it, and the commands that write and open its page."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.applications.decide.page import html
from tests.support.decide.finished import COC, ROBUST, SL, SR, TABLE, WL, WR, decided
from tests.support.site.browser import Browser

needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed here")

PHONE, DESK = 390, 1280
BOX, OTHER = (2, 1, 1, 0, 1), (0, 0, 0, 0, 0)


def advisories() -> np.ndarray[Any, np.dtype[np.uint8]]:
    found = np.full((4, 5, 3, 2, 3), COC, np.uint8)
    found[3] = WL | WR
    return found


def page(folder: Path, text: str = TABLE) -> Path:
    job, document, _ = decided(folder, text, {BOX: COC | SR, OTHER: SL | SR}, advisories())
    (folder / "report.html").write_text(html(job, document), encoding="utf-8")
    return folder / "report.html"


def evaluate(chromium: Browser, script: str) -> Any:
    """Return the value of a script after two more frames were drawn."""
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    expression = (
        f"(async () => {{ const value = await ({script}); await {frames}; return JSON.stringify(value ?? null) }})()"
    )
    result = chromium.call("Runtime.evaluate", expression=expression, awaitPromise=True)
    assert "exceptionDetails" not in result, result
    return json.loads(result["result"]["value"])


def shown(chromium: Browser, path: Path, width: int = DESK, *, dark: bool = False) -> None:
    seen = chromium.show(path.as_uri(), width, dark=dark, scripts=True)
    drawn = "new Promise((done) => { const timer = setInterval(() => document.querySelector('#map-box dd') && "
    evaluate(chromium, drawn + "(clearInterval(timer), done()), 5) })")
    assert (seen.width, seen.requests, seen.problems) == (width, (path.as_uri(),), ())
    assert evaluate(chromium, "document.documentElement.scrollWidth") == width


def described(chromium: Browser) -> dict[str, str]:
    entries = "[...document.querySelectorAll('#map-box dt')].map((dt) => [dt.textContent, dt.nextSibling.textContent])"
    return dict(evaluate(chromium, entries))


PIXEL = """((panel, x, y) => {
  const canvas = document.querySelector(`canvas[data-panel=${panel}]`);
  return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);
})"""
COLOUR = "getComputedStyle(document.querySelector('#map')).getPropertyValue('--%s').trim()"


def colour(chromium: Browser, name: str) -> list[int]:
    text = evaluate(chromium, COLOUR % name)
    return [int(text[place : place + 2], 16) for place in (1, 3, 5)]


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_map_fits_the_screen_and_loads_nothing(width: int, dark: bool, chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(tmp_path / "run"), width, dark=dark)
    assert evaluate(
        chromium, "[document.querySelector('#map').hidden, document.querySelector('#map-missing').hidden]"
    ) == [False, True]
    canvases = evaluate(chromium, "[...document.querySelectorAll('#map canvas')].map((each) => each.clientWidth)")
    assert len(canvases) == 3
    assert all(250 < each < width for each in canvases)


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_page_without_scripts_says_where_the_data_are(width: int, chromium: Browser, tmp_path: Path) -> None:
    path = page(tmp_path / "run")
    seen = chromium.show(path.as_uri(), width)
    assert (seen.width, seen.requests, seen.problems) == (width, (path.as_uri(),), ())
    assert "The map needs a browser with JavaScript" in seen.source
    assert '<div id="map" hidden' in seen.source


@needs_chromium
def test_a_planted_violation_is_drawn_and_described(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(tmp_path / "run"))
    first = described(chromium)
    assert (first["rho"], first["theta"]) == ("0 to 1,000 ft", "-3.142 to -1.571 rad (-180° to -90°)")
    assert (first["Decisions of the network"], first["Allowed"]) == ("SL or SR", "COC")
    assert first["Result"] == "violated by SL or SR"
    evaluate(chromium, "document.querySelector('#map-next').click()")
    found = described(chromium)
    assert (found["rho"], found["v_int"]) == ("2,000 to 3,000 ft", "10 to 20 ft/s")
    assert (found["Decisions of the network"], found["Allowed"]) == ("COC or SR", "COC or WL or WR")
    assert found["Result"] == "violated by SR"
    with np.load(tmp_path / "run" / "witnesses.npz") as witnesses:
        codes = ", ".join(map(str, witnesses["codes"][1]))
    assert found["Witness"].startswith(f"codes {codes}: rho 2875.001 ft, theta 0 rad, psi 3.129513 rad")
    assert "1 of 12 boxes of this slice" in evaluate(chromium, "document.querySelector('#map-slice').textContent")
    # The third column and the second row from below of the grid: its cell alone has the colour of a violation.
    width, height = evaluate(
        chromium, "(({clientWidth, clientHeight}) => [clientWidth, clientHeight])(document.querySelector('canvas'))"
    )
    cell_x, cell_y = (width - 54) / 3, (height - 38) / 4
    for column in range(3):
        for row in range(4):
            at = f"{round(46 + (column + 0.5) * cell_x)}, {round(height - 32 - (row + 0.5) * cell_y)}"
            expected = colour(chromium, "bad" if (column, row) == BOX[:2] else "panel")
            assert evaluate(chromium, f"{PIXEL}('violated', {at})") == expected
            if (column, row) != BOX[:2]:
                assert evaluate(chromium, f"{PIXEL}('network', {at})") == colour(chromium, "d0")
    evaluate(chromium, "document.querySelector('#map-next').click()")
    assert described(chromium) == first, "after the last violated box comes the first"


@needs_chromium
def test_a_box_is_selected_by_keys_pointer_and_sliders(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(tmp_path / "run"))
    key = "document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}))"
    evaluate(chromium, key % "ArrowRight")
    evaluate(chromium, key % "ArrowUp")
    found = described(chromium)
    assert (found["rho"], found["theta"]) == ("1,000 to 2,000 ft", "-1.571 to 0 rad (-90° to 0°)")
    assert (found["Result"], "Witness" in found) == ("safe", False)
    for _ in range(5):
        evaluate(chromium, key % "ArrowDown")
    assert described(chromium)["theta"] == "-3.142 to -1.571 rad (-180° to -90°)", "the selection stays in the slice"
    slide = "((slider) => { slider.value = 1; slider.dispatchEvent(new Event('input')) })"
    evaluate(chromium, f"{slide}(document.querySelector('input[aria-label=v_int]'))")
    assert described(chromium)["v_int"] == "10 to 20 ft/s"
    text = "document.querySelector('input[aria-label=v_int]').getAttribute('aria-valuetext')"
    assert evaluate(chromium, text) == "10 to 20 ft/s"
    visible = (
        "[...document.querySelectorAll('#map input')].filter((each) => each.offsetParent).map((each) => each.ariaLabel)"
    )
    assert evaluate(chromium, visible) == ["psi", "v_own", "v_int"]
    choose = "((select) => { select.value = 2; select.dispatchEvent(new Event('change')) })"
    evaluate(chromium, f"{choose}(document.querySelector('#map-vertical'))")
    assert evaluate(chromium, visible) == ["theta", "v_own", "v_int"]


POINT = """((panel, x, y) => {
  const canvas = document.querySelector(`canvas[data-panel=${panel}]`), frame = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: frame.left + x, clientY: frame.top + y}));
})"""


@needs_chromium
def test_left_of_the_own_aircraft_is_left_in_the_polar_view(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(tmp_path / "run"))
    choose = "((select) => { select.value = 'polar'; select.dispatchEvent(new Event('change')) })"
    evaluate(chromium, f"{choose}(document.querySelector('#map-view'))")
    middle = evaluate(chromium, "document.querySelector('canvas').clientWidth") / 2
    ring = (middle - 16) / 5
    # theta is 0 ahead, which is up, and grows to the left: its four intervals are the four quadrants.
    quadrants = {(1, 1): -180, (1, -1): -90, (-1, -1): 0, (-1, 1): 90}
    for (right, down), low in quadrants.items():
        for rho in range(3):
            away = (rho + 2.5) * ring / 2**0.5
            evaluate(chromium, f"{POINT}('network', {middle + right * away}, {middle + down * away})")
            found = described(chromium)
            assert (f"({low}° to " in found["theta"], found["rho"][:5]) == (True, f"{rho * 1000:,} to "[:5])
            assert (found["Result"] == "safe") == ((rho, low) != (0, -180))
    planted = f"{round(middle + 2.6 * ring / 2**0.5)}, {round(middle + 2.6 * ring / 2**0.5)}"
    assert evaluate(chromium, f"{PIXEL}('violated', {planted})") == colour(chromium, "bad")


@needs_chromium
def test_a_robust_map_has_no_allowed_decisions(chromium: Browser, tmp_path: Path) -> None:
    shown(chromium, page(tmp_path / "run", ROBUST))
    found = described(chromium)
    assert (found["Decisions of the network"], found["Result"]) == ("SL or SR", "violated by several decisions")
    assert "Allowed" not in found
    assert evaluate(chromium, "document.querySelectorAll('#map canvas').length") == 2


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harness", *arguments], capture_output=True, text=True, check=False)


def test_report_writes_the_page_anew_and_open_finds_it(tmp_path: Path) -> None:
    path = page(tmp_path / "20260102-000000_decide_acas_coc")
    expected = path.read_text()
    path.unlink()
    done = run("report", "last", "--json", "--runs", str(tmp_path))
    assert (done.returncode, json.loads(done.stdout)) == (0, {"report": str(path)})
    assert path.read_text() == expected
    assert json.loads(run("open", "last", "--json", "--runs", str(tmp_path)).stdout) == {"report": str(path)}
    (path.parent / "decide.json").unlink()
    refused = run("report", path.parent.name, "--runs", str(tmp_path))
    assert refused.returncode == 2
    assert f"no finished decision\nhint: continue it: harness decide --resume {path.parent}" in refused.stderr


def test_report_needs_a_site_or_a_decision(tmp_path: Path) -> None:
    refused = run("report", "--runs", str(tmp_path))
    assert (refused.returncode, "give --site or a decision" in refused.stderr) == (2, True)

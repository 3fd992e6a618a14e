"""Reports as a browser shows them, on a desk and on a phone, with and without scripts."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness import report
from tests.support.measurement import documents
from tests.support.site.browser import Browser

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed here")

PHONE, DESK = 390, 1280


@pytest.fixture
def measured() -> dict[str, Any]:
    return documents.timed(documents.gumbel(1000), documents.gumbel(1000, seed=2), names=("first", "second"))


def write(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(report.reports(document)["report.html"], encoding="utf-8")
    return path


@pytest.mark.half_of_cases
@pytest.mark.parametrize("scripts", [False, True])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["identical", "differing", "one_cause", "measured"])
def test_a_page_is_no_wider_than_the_screen(
    name: str, width: int, scripts: bool, chromium: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = write(tmp_path / "page.html", request.getfixturevalue(name))
    seen = chromium.show(page.as_uri(), width, scripts=scripts)
    assert (seen.width, seen.requests, seen.problems) == (width, (page.as_uri(),), ())


def evaluate(chromium: Browser, script: str) -> Any:
    result = chromium.call("Runtime.evaluate", expression=f"JSON.stringify(({script}) ?? null)")["result"]
    return json.loads(result["value"])


def test_all_numbers_of_the_layers_are_on_the_screen_of_a_phone(
    differing: dict[str, Any], chromium: Browser, tmp_path: Path
) -> None:
    chromium.show(write(tmp_path / "page.html", differing).as_uri(), PHONE)
    cells = evaluate(
        chromium,
        "[...document.querySelectorAll('.layers td')].map((cell) => [cell.textContent, cell.dataset.label ?? '',"
        " cell.getBoundingClientRect().left, cell.getBoundingClientRect().right])",
    )
    shown = {(label, text) for text, label, left, right in cells if text and 0 <= left < right <= PHONE}
    assert {("Differing", "31,415"), ("Its own", "12"), ("Compared", "400,000")} <= shown


OVERLAPS = """(() => {
  const texts = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return [...range.getClientRects()].filter((box) => box.width);
  };
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const found = [];
  for (const row of document.querySelectorAll('.stack tr'))
    for (const one of row.cells)
      for (const other of row.cells)
        if (one !== other && texts(one).some((a) => texts(other).some((b) => meet(a, b))))
          found.push([one.textContent, other.textContent]);
  return found;
})()"""


@pytest.mark.parametrize("name", ["identical", "differing", "measured"])
def test_the_cells_of_a_row_do_not_overlap_on_a_phone(
    name: str, chromium: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = write(tmp_path / "page.html", request.getfixturevalue(name))
    chromium.show(page.as_uri(), PHONE)
    rows = evaluate(chromium, "document.querySelectorAll('.stack tbody tr').length")
    assert (rows > 0, evaluate(chromium, OVERLAPS)) == (True, [])
    covered = (
        "[...document.querySelectorAll('.layers tr.differs th')].filter((th) => {"
        " th.scrollIntoView(); const range = document.createRange(); range.selectNodeContents(th);"
        " const box = range.getBoundingClientRect();"
        " return !th.contains(document.elementFromPoint(box.left + 1, (box.top + box.bottom) / 2)) }).length"
    )
    assert evaluate(chromium, covered) == 0


def test_a_table_is_sorted_and_filtered(differing: dict[str, Any], chromium: Browser, tmp_path: Path) -> None:
    chromium.show(write(tmp_path / "page.html", differing).as_uri(), DESK, scripts=True)
    layers = [layer["name"] for layer in differing["layers"]]
    names = "[...document.querySelectorAll('.layers.sortable tbody tr:not([hidden]) th')].map((th) => th.textContent)"
    button = "[...document.querySelectorAll('.layers.sortable thead button')].find((b) => b.textContent == 'Differing')"
    field = "document.querySelector('.layers.sortable').parentNode.previousElementSibling.querySelector('input')"
    assert evaluate(chromium, names) == layers
    evaluate(chromium, f"{button}.click()")
    assert evaluate(chromium, names)[-4:] == ["advisory", "dense_1", "dense_2", "scores"]
    evaluate(chromium, f"{button}.click()")
    assert evaluate(chromium, names)[:4] == ["scores", "dense_2", "dense_1", "advisory"]
    evaluate(chromium, f"{button}.click()")
    assert evaluate(chromium, names) == layers
    evaluate(chromium, f"({field}.value = 'qgemm ≠', {field}.dispatchEvent(new Event('input')))")
    assert evaluate(chromium, names) == ["dense_1", "dense_2", "scores"]


def test_the_picture_of_the_network_fits_the_screen(
    identical: dict[str, Any], chromium: Browser, tmp_path: Path
) -> None:
    page = write(tmp_path / "page.html", identical)
    for width in (PHONE, DESK):
        chromium.show(page.as_uri(), width)
        shown = evaluate(
            chromium,
            "[...document.querySelectorAll('.network')].map((svg) => svg.getBoundingClientRect())"
            ".filter((box) => box.width).map((box) => [box.left, box.right])",
        )
        assert len(shown) == 1
        assert 0 <= shown[0][0] < shown[0][1] <= width


def test_a_page_permits_no_other_script(identical: dict[str, Any], chromium: Browser, tmp_path: Path) -> None:
    page = write(tmp_path / "page.html", identical)
    source = page.read_text()
    page.write_text(re.sub("</body>", "<script>document.title = 'attacked'</script></body>", source))
    seen = chromium.show(page.as_uri(), DESK, scripts=True)
    assert "Content Security Policy" in "".join(seen.problems)
    assert evaluate(chromium, "document.title").startswith("Identical: acas_coc")

"""The site as a browser shows it, with scripts switched off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.report.site.conftest import HOSTILE
from tests.support.site.browser import Browser

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed here")

PHONE, DESK = 360, 1280


def pages(built: Path) -> list[Path]:
    """One of each kind; of boards all, for their names."""
    first = [built / name for name in ("index.html", "runs-1.html", "mutation.html")]
    return [*first, max(built.glob("nights/*.html")), *built.glob("boards/*.html")]


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_page_loads_nothing_complains_of_nothing_and_is_no_wider_than_the_screen(
    built: Path, chromium: Browser, width: int
) -> None:
    for path in pages(built):
        seen = chromium.show(path.as_uri(), width)
        assert (path.name, seen.requests, seen.problems) == (path.name, (path.as_uri(),), ())
        assert (path.name, seen.width) == (path.name, width)


def test_what_a_hostile_name_would_do_the_browser_would_tell(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<title>x</title>{HOSTILE}<p style='width: 900px'>x")
    seen = chromium.show(page.as_uri(), PHONE)
    assert len(seen.requests) == 2
    assert seen.width > PHONE


def test_the_essentials_are_there_without_scripts(built: Path, chromium: Browser) -> None:
    seen = chromium.show((built / "index.html").as_uri(), PHONE)
    for text in (
        "10 of 20 entries ended",
        "Newly slower:",
        ">regressed</a>",
        "no answer on port 22",
        '<svg class="chart"',
    ):
        assert text in seen.source
    assert HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in seen.source


def test_light_and_dark_look_different(built: Path, chromium: Browser) -> None:
    light, dark = (chromium.show((built / "index.html").as_uri(), DESK, dark=dark).picture for dark in (False, True))
    assert light[:4] == dark[:4] == b"\x89PNG"
    assert light != dark

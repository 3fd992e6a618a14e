"""`python -m tests.support.site` draws docs/pictures/site.png: the index of a simulated laboratory in Chromium."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.core.installation import ROOT
from harness.report import site
from tests.support.history import laboratory
from tests.support.history.laboratory import Board
from tests.support.site.browser import browser

PICTURE = ROOT / "docs" / "pictures" / "site.png"
NIGHTS = 14
BOARDS = (
    Board("lab-a1", slow=NIGHTS - 1),
    Board("lab-a2", flaky=0.3),
    Board("lab-b1", "emulated"),
    Board("lab-b2", "emulated", wrong=NIGHTS - 1),
    Board("lab-c1", sick=NIGHTS - 1),
)


def main() -> None:
    """Make the laboratory, its site, and the picture."""
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder) / "profile") as chromium:
        runs, shown = Path(folder) / "runs", Path(folder) / "site"
        laboratory.make(runs, BOARDS, NIGHTS, models=("acas_coc", "acas_wl", "acas_sl"))
        site.build(shown, site.gather(runs, NIGHTS, ROOT / "docs" / "results" / "mutation.md"))
        PICTURE.write_bytes(chromium.show((shown / "index.html").as_uri(), 1100, height=1450).picture)


if __name__ == "__main__":
    main()

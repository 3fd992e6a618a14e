"""`python -m tests.support.viewer` draws docs/pictures/view*.png: pages of `harness models view` in Chromium."""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.core.installation import ROOT
from tests.support import graphs
from tests.support.site.browser import Browser, browser

PICTURES = ROOT / "docs" / "pictures"
NODES = 2000
SELECT = (
    "const field = document.getElementById('search'); field.value = {!r}; field.dispatchEvent(new Event('input'));"
    "document.querySelector('#results button').click()"
)
FRAMES = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))"


def harness(folder: Path, *words: str) -> None:
    """Run a command with its runs in this folder."""
    command = [sys.executable, "-m", "harness", "--runs", str(folder / "runs"), *words]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def photograph(chromium: Browser, page: Path, picture: str, *scripts: str) -> None:
    """Save the picture of a page after these scripts."""
    chromium.show(page.as_uri(), 1200, scripts=True, height=780)
    for script in (*scripts, FRAMES):
        chromium.call("Runtime.evaluate", expression=script, awaitPromise=True)
    (PICTURES / picture).write_bytes(base64.b64decode(chromium.call("Page.captureScreenshot")["data"]))


def main() -> None:
    """Run a network on this machine, and draw its page and that of a large graph."""
    with tempfile.TemporaryDirectory() as name, browser(Path(name) / "profile") as chromium:
        folder = Path(name)
        board = ("--board", "host", "--model", "resnet8_int8")
        harness(folder, "run", *board, "--vectors", "100", "--run-folder", "runs/verdict")
        harness(folder, "models", "view", "resnet8_int8", "--run", "verdict", "-o", "view.html")
        photograph(chromium, folder / "view.html", "view.png", SELECT.format("block_1_add"))
        model = graphs.chain(NODES, lambda index: f"net/stage{index // 400}/block{index // 20}/node_{index}")
        (folder / "large.onnx").write_bytes(model.SerializeToString())
        harness(folder, "models", "view", "./large.onnx", "-o", "large.html")
        photograph(chromium, folder / "large.html", "view-large.png", SELECT.format("node_1234"))


if __name__ == "__main__":
    main()

"""A small laboratory whose names are hostile, and its site."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.installation import ROOT
from harness.nightly.lock import alone
from harness.report import site
from tests.support.history import laboratory
from tests.support.history.laboratory import Board

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
MUTATION = ROOT / "docs" / "results" / "mutation.md"
NIGHTS = 5
BOARDS = (
    Board("xavier", slow=4),
    Board(HOSTILE, wrong=4),
    Board("kv260", "emulated", flaky=0.5),
    Board("tda4vm", sick=3),
    Board("b" + "x" * 150),
)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The last night runs still."""
    folder = tmp_path_factory.mktemp("hostile") / "runs"
    models = ("acas_wl", "acas_sl", HOSTILE, "../../etc/passwd")
    laboratory.make(folder, BOARDS, NIGHTS, models=models, running=True)
    with alone(folder, print):
        yield folder


@pytest.fixture(scope="session")
def built(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of it; nobody changes it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    site.build(folder, site.gather(template, 30, MUTATION), refresh_s=7)
    return folder


@pytest.fixture
def runs(template: Path, tmp_path: Path) -> Path:
    """The laboratory, to be changed."""
    return shutil.copytree(template, tmp_path / "runs")

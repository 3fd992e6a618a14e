"""`harness report --site`: the laboratory's page as a folder of files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from harness.report import site
from harness.screen import Screen
from harness.workspace import ROOT, Workspace

MUTATION = ROOT / "docs" / "mutation.md"


def report(folder: Path, nights: int, workspace: Workspace, screen: Screen) -> None:
    """Write the site of the latest `nights`, or bring it up to date."""
    laboratory = site.gather(workspace.runs, nights, MUTATION)
    written = site.build(folder, laboratory)
    page = folder / "index.html"
    told = {"site": str(page), "nights": len(laboratory.nights), "runs": len(laboratory.runs)}
    screen.document(told | asdict(written))
    counts = f"{len(laboratory.nights):,} nights, {len(laboratory.runs):,} runs"
    pages = f"{written.pages:,} pages written, {written.kept:,} as they were, {written.reports:,} files of runs copied"
    screen.show(Text(f"{page}: {counts}; {pages}, {written.removed:,} removed"))

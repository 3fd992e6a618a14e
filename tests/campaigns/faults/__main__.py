"""`python -m tests.campaigns.faults`: every fault at every step; docs/results/faults.md is its result.

`python -m tests.campaigns.faults --faults "link stalled" --output some.md`: some rows of it, on a page of their own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from harness.boards import workspace
from harness.core.console import Console
from tests.campaigns import today
from tests.campaigns.faults.campaign import Cell, attempt, undisturbed
from tests.campaigns.faults.faults import FAULTS, Fault, Untried
from tests.campaigns.faults.laboratory import Laboratory
from tests.campaigns.faults.page import PAGE, page

NAMES = [fault.name for fault in FAULTS]


def main() -> int:
    """Do all that was asked for, write the page; gives 1 if something is wrong."""
    asked = _asked()
    console, faults = Console.open(as_json=False), [fault for fault in FAULTS if fault.name in asked.faults]
    cells: list[Cell] = []
    untried: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as objects,
        Laboratory(Path(folder), workspace.cache_folder(), Path(objects)) as lab,
        console.progress("faults at steps", sum(len(fault.steps) for fault in faults)) as bar,
    ):
        expected = undisturbed(lab)
        for fault in faults:
            cells += _strike(lab, fault, expected, untried, console)
            bar.advance(len(fault.steps))
    asked.output.write_text(page(cells, untried, f"{today()}."), encoding="utf-8")
    console.note(f"written: {asked.output}")
    return int(any(cell.complaints for cell in cells))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.faults", description="What does a run do when it is hit?"
    )
    parser.add_argument("--faults", nargs="+", choices=NAMES, default=NAMES, metavar="FAULT", help="some rows alone")
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes (%(default)s)")
    asked = parser.parse_args()
    if asked.output == PAGE and asked.faults != NAMES:
        parser.error(f"{PAGE} is of all faults: name another --output")
    return asked


def _strike(lab: Laboratory, fault: Fault, expected: str, untried: dict[str, str], console: Console) -> list[Cell]:
    """One fault at all its steps."""
    cells = []
    for step in fault.steps:
        try:
            cell = attempt(lab, fault, step, expected)
        except Untried as reason:
            untried[fault.name] = str(reason)
            console.note(f"{fault.name}: not tried: {reason}")
            break
        console.note(f"{fault.name}, {step}: {cell.first.verdict} {'; '.join(cell.complaints)}")
        cells.append(cell)
    return cells


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.campaigns.security`: the whole campaign, on two processors; it writes docs/results/security.md."""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.core.console import Console
from tests.campaigns import today
from tests.campaigns.security.campaign import Outcome, attack
from tests.campaigns.security.page import PAGE, page

INPUTS = {
    "model": 6000,
    "import": 4000,
    "boards.yaml": 2000,
    "nightly.yaml": 500,
    "plan.yaml": 500,
    "item.nnef": 1000,
    "run.json": 1500,
    "chunk.json": 500,
    "vectors.npy": 2000,
    "property.yaml": 2000,
    "property.vnnlib": 2000,
    "table.npz": 1000,
    "decide.json": 500,
}
PART = 500  # of one process
PROCESSES = 2


def main() -> None:
    """Attack every door, write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.security", description="What do hostile files come to?"
    )
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes (%(default)s)")
    asked = parser.parse_args()
    console = Console.open(as_json=False)
    parts = [
        (door, first, min(PART, count - first)) for door, count in INPUTS.items() for first in range(0, count, PART)
    ]
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(PROCESSES) as pool,
        console.progress("hostile inputs", sum(INPUTS.values())) as bar,
    ):
        begun = [pool.submit(attack, *part, Path(scratch, f"{part[0]}-{part[1]}")) for part in parts]
        outcomes = {door: Outcome(door) for door in INPUTS}
        for each in begun:
            found = each.result()
            outcomes[found.door] = outcomes[found.door] + found
            bar.advance(found.inputs)
    for outcome in outcomes.values():
        console.note(f"{outcome.door}: {outcome.inputs:,} inputs, {len(outcome.holes)} holes")
        for hole in outcome.holes:
            console.note(f"  {hole}")
    asked.output.write_text(page(list(outcomes.values()), f"{today()}."), encoding="utf-8")
    console.note(f"written: {asked.output}")


if __name__ == "__main__":
    main()

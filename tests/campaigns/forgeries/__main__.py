"""`python -m tests.campaigns.forgeries`: the whole campaign; docs/results/forgeries.md is its result."""

from __future__ import annotations

import argparse
import dataclasses
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.boards import workspace
from harness.core.console import Console
from tests.campaigns import today
from tests.campaigns.forgeries.bases import BASES, Bases
from tests.campaigns.forgeries.campaign import Outcome, attempt, once, verified
from tests.campaigns.forgeries.forgeries import FORGERIES
from tests.campaigns.forgeries.forgery import Forgery
from tests.campaigns.forgeries.of_limits import LIMITS
from tests.campaigns.forgeries.page import PAGE, page
from tests.support.cli.command import User
from tests.support.cli.history import History


def main() -> int:
    """Try every forgery, write the page; return 1 if one was not rejected."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns.forgeries", description="Which forged evidence is found?"
    )
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes (%(default)s)")
    asked, console = parser.parse_args(), Console.open(as_json=False)
    with tempfile.TemporaryDirectory() as scratch, once(Path(scratch, "built")):
        bases = _true_runs(Path(scratch), console)
        outcomes = _attempt_all(bases, FORGERIES, Path(scratch), console)
        limits = _attempt_all(bases, LIMITS, Path(scratch), console)
        with_key = [dataclasses.replace(forgery, needs_key=True) for forgery in LIMITS]
        keyed = _attempt_all(bases, with_key, Path(scratch), console)
    where = f"{today()}, {platform.machine()}."
    asked.output.write_text(page(outcomes, list(zip(limits, keyed, strict=True)), where), encoding="utf-8")
    console.note(f"written: {asked.output}")
    return int(not all(outcome.rejected for outcome in (*outcomes, *keyed)))


def _true_runs(folder: Path, console: Console) -> Bases:
    """Make all true runs; AssertionError for one that does not stand."""
    history = History.make(folder / "history")
    bases = Bases(User(folder, workspace.cache_folder()), history.now, history.wrong)
    with console.progress("true runs", len(BASES)) as bar:
        for name in BASES:
            seen = verified(bases, bases.folder(name))
            if seen.code != 0:
                raise AssertionError(f"the run {name} does not stand: {seen}")
            bar.advance(1)
    return bases


def _attempt_all(bases: Bases, forgeries: Sequence[Forgery], scratch: Path, console: Console) -> list[Outcome]:
    outcomes = []
    with console.progress("forgeries", len(forgeries)) as bar:
        for forgery in forgeries:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                outcomes.append(attempt(bases, forgery, Path(folder)))
            bar.advance(1)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())

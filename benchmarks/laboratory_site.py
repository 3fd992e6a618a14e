"""The index and the site of a laboratory of thousands of runs, as one waits for them.

    .venv/bin/python benchmarks/laboratory_site.py [--boards 50] [--nights 30] [--repetitions 3] [--json]

The laboratory is simulated: run folders and nights of the size of real ones.
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the laboratory of the tests

import machine

from harness.core.installation import ROOT
from harness.report import site
from harness.runs.history import index
from harness.runs.history.index import RunFilter
from harness.runs.history.run_record import Run
from tests.support.history import laboratory

MUTATION = ROOT / "docs" / "results" / "mutation.md"


@dataclass(frozen=True)
class Result:
    """Wall times of all repetitions; `target_s` is None where none was set."""

    name: str
    wall_s: tuple[float, ...]
    target_s: float | None


def timed(
    name: str,
    repetitions: int,
    action: Callable[[], object],
    target_s: float | None = None,
    *,
    before: Callable[[], object] = lambda: None,
) -> Result:
    """Do it so often; what is done `before` is not timed."""
    walls = []
    for _ in range(repetitions):
        before()
        begin_s = time.perf_counter()
        action()
        walls.append(time.perf_counter() - begin_s)
    return Result(name, tuple(walls), target_s)


def measure(runs: Path, shown: Path, nights: int, repetitions: int) -> list[Result]:
    """Return the index first, then the site from nothing, without an index too, and again when nothing has changed."""

    def rebuild() -> None:
        with index.opened(runs, rebuild=True):
            pass

    def query() -> list[Run]:
        with index.opened(runs) as found:
            return found.find(RunFilter(board="board07"), 30)

    def build() -> None:
        site.build(shown, site.gather(runs, nights, MUTATION))

    def forget() -> None:
        shutil.rmtree(shown, ignore_errors=True)
        (runs / index.FILE).unlink(missing_ok=True)

    with index.opened(runs) as opened:
        alone = timed("query of an open index", 10 * repetitions, lambda: opened.find(RunFilter(board="board07"), 30))
    return [
        timed("index from nothing", repetitions, rebuild),
        timed("query, index opened and brought up to date", 10 * repetitions, query, 0.1),
        alone,
        timed("site from nothing, index too", repetitions, build, 10.0, before=forget),
        timed("site again, nothing changed", repetitions, build),
    ]


def table(results: list[Result]) -> Table:
    """For a person."""
    found = Table("", "least", "most", "target")
    for result in results:
        target = "" if result.target_s is None else f"< {result.target_s:g} s"
        found.add_row(result.name, f"{min(result.wall_s):.3f} s", f"{max(result.wall_s):.3f} s", target)
    return found


@click.command()
@click.option("--boards", type=click.IntRange(1), default=50, show_default=True)
@click.option("--nights", type=click.IntRange(1), default=30, show_default=True)
@click.option("--repetitions", type=click.IntRange(1), default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(boards: int, nights: int, repetitions: int, as_json: bool) -> None:
    """Make the laboratory and time what is done with it."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        laboratory.make(runs, laboratory.boards(boards, nights), nights)
        results = measure(runs, Path(folder) / "site", nights, repetitions)
        count = len(list(runs.glob("*/run.json")))
    if as_json:
        print(json.dumps({"machine": machine.describe(), "runs": count, "results": [asdict(one) for one in results]}))  # noqa: T201 - the result
        return
    Console().print(f"{count:,} runs of {boards} boards and {len(laboratory.MODELS)} models in {nights} nights")
    Console().print(table(results), machine.describe())


if __name__ == "__main__":
    main()

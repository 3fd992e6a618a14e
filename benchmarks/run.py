"""Wall time and peak memory of whole `harness run` and `harness prove` commands, as a user waits for them.

.venv/bin/python benchmarks/run.py [--repetitions 3] [--million 10] [--json]
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

import click
import machine
from rich.console import Console
from rich.table import Table

HARNESS = (sys.executable, "-m", "harness")


@dataclass(frozen=True)
class Case:
    """A command whose verdict must be `identical`."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """Wall times of all repetitions, and the peak memory of the harness's own process."""

    name: str
    wall_s: tuple[float, ...]
    peak_mib: float


def cases(millions: int) -> list[Case]:
    """Return the commands of the targets."""
    host, xavier = (("--model", "acas_coc", "--board", board) for board in ("host", "xavier"))
    return [
        Case("host, 100,000 vectors", ("run", *host)),
        Case("xavier (emulated), 100,000 vectors", ("run", *xavier)),
        Case("prove, host, every float32", ("prove", *host)),
        Case("prove, xavier (emulated), thresholds", ("prove", *xavier)),
        Case(
            f"host, {millions},000,000 vectors, --fetch mismatch",
            ("run", *host, "--vectors", f"{millions}000000", "--fetch", "mismatch"),
        ),
    ]


def run_once(case: Case, runs: str) -> tuple[float, float]:
    """Seconds and MiB of one run in a folder that is thrown away."""
    begin_s = time.perf_counter()
    process = subprocess.Popen(
        [*HARNESS, "--runs", runs, *case.arguments, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise click.ClickException(f"{case.name}: wait status {status}; run it by hand")
    return time.perf_counter() - begin_s, usage.ru_maxrss / 1024


def measure(case: Case, repetitions: int, warmups: int = 1) -> Result:
    """`repetitions` runs after `warmups` that are not counted: the first builds, and fetches the guest."""
    with tempfile.TemporaryDirectory() as runs:
        for _ in range(warmups):
            run_once(case, runs)
        found = [run_once(case, runs) for _ in range(repetitions)]
    return Result(case.name, tuple(wall_s for wall_s, _ in found), max(mib for _, mib in found))


@click.command()
@click.option("--repetitions", default=3, show_default=True)
@click.option("--million", "millions", default=10, show_default=True, help="Vectors of the large run, in millions.")
@click.option("--json", "as_json", is_flag=True)
def main(repetitions: int, millions: int, as_json: bool) -> None:
    """Measure all cases and print them with the machine and the day."""
    described = machine.describe()
    *usual, large = cases(millions)
    results = [measure(case, repetitions) for case in usual] + [measure(large, 1, warmups=0)]
    if as_json:
        print(json.dumps({"machine": described, "results": [asdict(result) for result in results]}, indent=1))  # noqa: T201 - standard output is the interface
        return
    table = Table("command", "wall s", "peak MiB")
    for result in results:
        table.add_row(result.name, ", ".join(f"{wall_s:.1f}" for wall_s in result.wall_s), f"{result.peak_mib:.0f}")
    Console().print(described, table)


if __name__ == "__main__":
    main()

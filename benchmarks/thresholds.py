"""The search among thresholds of target tiovx: ns per output, one by one and 16 side by side, on this machine.

.venv/bin/python benchmarks/thresholds.py [--sums 4096] [--json]

This processor is no DSP: it has loads of several searches in flight by itself, and where it has gathers, gcc takes them
for the loads, however slow they are.  Each number is the least of the rounds.
"""  # noqa: INP001 - a script

from __future__ import annotations

import ctypes
import json
import subprocess
import tempfile
from pathlib import Path

import click
import machine
import numpy as np
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).resolve().parent
FLAGS = {"vectors of this processor": ("-O3", "-march=native"), "without vectors": ("-O3", "-fno-tree-vectorize")}
TABLES = {"one table for all": 0, "a table for each": 255}
LANES, ROUNDS, CALLS = 16, 200, 5


def library(folder: Path, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Return the compiled searches."""
    path = folder / "thresholds.so"
    include = f"-I{FOLDER.parent / 'kernels/c/integer'}"
    subprocess.run(
        ["gcc", *flags, "-shared", "-fPIC", include, str(FOLDER / "thresholds.c"), "-o", str(path)], check=True
    )
    found = ctypes.CDLL(str(path))
    found.time_of.restype = ctypes.c_double
    return found


def measured(searches: ctypes.CDLL, stride: int, count: int) -> tuple[float, float]:
    """Return ns per sum, one by one and side by side, which must find the same codes."""
    rng = np.random.default_rng(1)
    tables = np.sort(rng.integers(-(1 << 20), 1 << 20, (LANES, 255)), axis=1).astype(np.int32)
    x = rng.integers(-(1 << 20), 1 << 20, count).astype(np.int32)
    y = np.zeros((2, count), np.uint8)
    least = [np.inf, np.inf]
    for _ in range(ROUNDS):
        for both in range(2):
            arrays = (ctypes.c_void_p(each.ctypes.data) for each in (tables, x, y[both]))
            sizes = (ctypes.c_size_t(each) for each in (CALLS, count, stride))
            least[both] = min(least[both], searches.time_of(both, *sizes, *arrays) / count)
    if not np.array_equal(y[0], y[1]):
        raise SystemExit("the two searches differ")
    return least[0], least[1]


@click.command()
@click.option("--sums", default=4096, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(sums: int, *, as_json: bool) -> None:
    """Measure, and print the table."""
    rows = []
    for compiled, flags in FLAGS.items():
        with tempfile.TemporaryDirectory() as folder:
            searches = library(Path(folder), flags)
            for tables, stride in TABLES.items():
                before, after = measured(searches, stride, sums // LANES * LANES)
                rows.append({"compiled": compiled, "tables": tables, "one by one": before, "side by side": after})
    if as_json:
        click.echo(json.dumps({"machine": machine.describe(), "ns per output": rows}, indent=1))
        return
    table = Table(*rows[0], title="ns per output")
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else value for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()

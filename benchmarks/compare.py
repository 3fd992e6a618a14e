"""Throughput of `harness.analysis.compare.compare`: bytes of one array a second, for arrays of about a gigabyte.

.venv/bin/python benchmarks/compare.py [--megabytes 1000] [--json]
"""  # noqa: INP001 - a script

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import click
import machine
import numpy as np
from rich.console import Console
from rich.table import Table

from harness.analysis.compare import compare
from harness.core.arrays import Array

DTYPES = ("uint8", "float32")
WIDTH = 50
DIFFERENCES_APART = 100_000  # elements


@dataclass(frozen=True)
class Result:
    """The best of all repetitions; `differing` is what compare found."""

    dtype: str
    elements: int
    differing: int
    time_s: float
    gigabytes_per_s: float


def make_array(dtype: str, size: int) -> Array:
    """Random (vectors, WIDTH) activations of about `size` bytes; without NaN, which no model outputs."""
    rng = np.random.default_rng(1)
    shape = (size // WIDTH // np.dtype(dtype).itemsize, WIDTH)
    if dtype == "float32":
        return rng.random(shape, np.float32)
    return rng.integers(0, 256, shape, np.uint8)


def with_differences(array: Array) -> Array:
    """Return a copy in which every DIFFERENCES_APART-th element differs in its lowest bit."""
    changed = array.copy()
    bits = changed.reshape(-1).view(f"u{changed.itemsize}")
    bits[DIFFERENCES_APART - 1 :: DIFFERENCES_APART] ^= 1
    return changed


def measure(expected: Array, actual: Array, repetitions: int) -> Result:
    """Compare `repetitions` times."""
    times_s = []
    for _ in range(repetitions):
        begin_s = time.perf_counter()
        found = compare(expected, actual)
        times_s.append(time.perf_counter() - begin_s)
    best_s = min(times_s)
    return Result(str(expected.dtype), expected.size, found.differing, best_s, expected.nbytes / best_s / 1e9)


def measure_all(size: int, repetitions: int) -> list[Result]:
    """Return every type, identical and differing."""
    results = []
    for dtype in DTYPES:
        expected = make_array(dtype, size)
        results += [measure(expected, make(expected), repetitions) for make in (np.copy, with_differences)]
    return results


def table(results: list[Result]) -> Table:
    """One row a result."""
    shown = Table(title="harness.analysis.compare.compare", title_justify="left")
    for heading in ("type", "elements", "differing", "ms", "GB/s"):
        shown.add_column(heading, justify="left" if heading == "type" else "right")
    for r in results:
        shown.add_row(
            r.dtype, f"{r.elements:,}", f"{r.differing:,}", f"{r.time_s * 1e3:.0f}", f"{r.gigabytes_per_s:.2f}"
        )
    return shown


@click.command(help=(__doc__ or "").split("\n", maxsplit=1)[0])
@click.option("--megabytes", default=1000, show_default=True, type=click.IntRange(1), help="Size of one array.")
@click.option("--repetitions", default=5, show_default=True, type=click.IntRange(1), help="The best of them counts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def main(megabytes: int, repetitions: int, *, as_json: bool) -> None:
    """Measure and print the results."""
    results = measure_all(megabytes * 1_000_000, repetitions)
    where = machine.describe()
    if as_json:
        click.echo(json.dumps({"machine": where, "results": [asdict(result) for result in results]}, indent=1))
        return
    for key, value in where.items():
        click.echo(f"{key}: {value}")
    Console().print(table(results))


if __name__ == "__main__":
    main()

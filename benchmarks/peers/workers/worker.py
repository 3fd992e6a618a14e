"""The main program of a contender written in Python: commands on standard input, one line of answer each.

usage: <contender>_worker.py FOLDER [ARGUMENT...]

The protocol is that of benchmarks/README.md, Peers.  It runs in a Python that has NumPy and the peer, not the harness.
"""  # noqa: INP001 - beside the scripts that import it

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


class Contender(Protocol):
    """What is timed is `run` alone: its input is put in place before the clock starts, in the peer's favour."""

    version: str
    computes: str  # model, int8 or float

    def put(self, index: int) -> None:
        """Make the vector of this index the input of the next run."""

    def run(self) -> None:
        """One inference, by the cheapest call that the peer offers Python."""

    def output(self) -> Floats:
        """Return the outputs of the last run, float32 (width,)."""


def main(package: str, open_contender: Callable[[Path, Floats, list[str]], Contender]) -> None:
    """Serve a contender, or say that the `package` that has it is not installed."""
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    vectors = np.load(folder / "vectors.npy")
    try:
        contender = open_contender(folder, vectors, arguments)
    except ModuleNotFoundError as error:
        _answer(json.dumps({"not_installed": package, "missing": error.name}))
        return
    _answer(json.dumps({"version": contender.version, "computes": contender.computes}))
    gc.disable()
    _serve(contender, len(vectors))


def _serve(contender: Contender, vectors: int) -> None:
    start = 0
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "outputs":
            np.save(argument, _outputs(contender, vectors))
            _answer(argument)
            continue
        warmup = -(-int(argument) // 2)  # another contender had the caches and the branch predictors
        indices = [(start + i) % vectors for i in range(warmup + int(argument))]
        start = (indices[-1] + 1) % vectors
        run = {"go": contender.run, "empty": _nothing}[command]
        _answer(" ".join(map(str, _time_ns(contender.put, run, indices)[warmup:])))


def _time_ns(put: Callable[[int], None], run: Callable[[], None], indices: list[int]) -> list[int]:
    clock, times_ns = time.perf_counter_ns, []
    for index in indices:
        put(index)
        begin_ns = clock()
        run()
        times_ns.append(clock() - begin_ns)
    return times_ns


def _outputs(contender: Contender, vectors: int) -> Floats:
    rows = []
    for index in range(vectors):
        contender.put(index)
        contender.run()
        rows.append(contender.output().copy())
    return np.asarray(rows, np.float32)


def _nothing() -> None:
    """All that a call is but the inference."""


def _answer(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

"""The engine of `harness decide` compared with the enumeration of every code by ONNX Runtime and by a dense kernel.

.venv/bin/python benchmarks/decide.py [--model acas_coc] [--boxes 10] [--json]

The dense kernel is the engine without its bounds: it computes every neuron of every code vector with the same vector
instructions.  All get the same boxes, spread over the domain of the network, and one thread.
"""  # noqa: INP001 - a script

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import machine
import numpy as np
import onnxruntime

from harness import model
from harness.applications.decide import code_network, engine
from harness.applications.decide.engine import SOURCES, Engine
from harness.applications.decide.property import Rule
from harness.core.installation import ROOT

BOUNDS, NONE = (
    "memcpy(&work->hull, codes, sizeof *codes);",
    ("memset(work->hull.low, 0, sizeof work->hull.low); memset(work->hull.high, 255, sizeof work->hull.high);"),
)
SIDE = (1, 60, 60, 60, 60)
RUNTIME_CODES = 1 << 20
AT_ONCE = 20_000


def dense_library(folder: Path) -> ctypes.CDLL:
    """Return the engine compiled without the bounds of the layers before."""
    for path in SOURCES.glob("*.[ch]"):
        text = path.read_text()
        if path.name == "decide.c":
            before, after = text.split(BOUNDS)
            text = before + NONE + after
        (folder / path.name).write_text(text)
    library = folder / "dense.so"
    engine.compile_engine(folder, library)
    return engine.load(library)


def per_second(boxes: list[list[int]], decide: Callable[[list[int]], int]) -> float:
    """Return the code vectors per second of processor time."""
    began_s, done = time.thread_time(), 0
    for low in boxes:
        done += decide(low)
    return done / (time.thread_time() - began_s)


@click.command()
@click.option("--model", "name", default="acas_coc", show_default=True)
@click.option("--boxes", default=10, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(name: str, boxes: int, as_json: bool) -> None:
    """Print millions of code vectors per second of one core."""
    path = ROOT / "models" / f"{name}.onnx"
    network = model.load(path)
    codes, random = code_network.of(network), np.random.default_rng(1)
    lows = [[int(random.integers(20, 241 - side)) for side in SIDE] for _ in range(boxes)]
    segments = [np.zeros(256, np.uint16)] * len(SIDE)
    pruned = Engine(codes, Rule())
    session = onnxruntime.InferenceSession(path, _options())

    def by(chosen: Engine) -> Callable[[list[int]], int]:
        return lambda low: chosen.decide(low, SIDE, segments, (1,) * len(SIDE))[1]

    def by_runtime(_low: list[int]) -> int:
        grid = random.integers(20, 241, (RUNTIME_CODES, len(SIDE)))
        state = ((grid - 120) / 240).astype(np.float32)
        for start in range(0, len(state), AT_ONCE):
            session.run(None, {network.vector.name: state[start : start + AT_ONCE]})
        return len(state)

    with TemporaryDirectory() as folder:
        dense = Engine(codes, Rule(), library=dense_library(Path(folder)))
        found = {
            f"engine ({pruned.kernel})": per_second(lows, by(pruned)),
            "the same without bounds": per_second(lows[:3], by(dense)),
            "second kernel, one vector after the other": per_second(
                lows[:1], lambda low: len(pruned.each(np.full((200_000, len(SIDE)), low, np.uint8)))
            ),
            "ONNX Runtime, 20,000 vectors at a time": per_second(lows[:1], by_runtime),
        }
    if as_json:
        click.echo(json.dumps({"model": name, "code_vectors_per_s": found, "machine": machine.describe()}))
        return
    click.echo(f"{name}, million code vectors per second of one core; load {machine.describe()['load']}")
    for what, speed in found.items():
        click.echo(f"{what:45} {speed / 1e6:8.1f}")


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options


if __name__ == "__main__":
    main()

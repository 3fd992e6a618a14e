"""Bring sources together in the memory of the GPU: a kernel copies the values that its layer reads from their buffers.

One thread per value; a stage of the proof gives it the buffers side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.targets.cuda.code import Kernel, c_type, parameters
from harness.targets.generated import Join


@dataclass(frozen=True)
class _Runs:
    """Values of a buffer: `count` runs of `length`, the first from `source` to `target`, then at these distances."""

    target: int
    source: int
    length: int
    count: int
    target_step: int
    source_step: int


def kernel(join: Join) -> Kernel:
    """Return the kernel: it has the name of the stage, by which the proof selects it, and reads the buffers once."""
    return Kernel(
        f"{join.stage.name}_forward", (*join.writers, join.buffer), join.stage.output_width, (join.stage.name,)
    )


def text(join: Join) -> str:
    """Return the kernel in CUDA C++."""
    kind, stage = c_type(join.stage.input_dtype), join.stage
    starts = np.cumsum([0, *join.widths])
    arguments = parameters([*((f"const {kind}", name) for name in join.writers), (kind, join.buffer)])
    lines = [
        f"const size_t i = thread_of_grid(), v = i / {stage.output_width};",
        f"const unsigned n = (unsigned)(i % {stage.output_width});",
        "if (v >= vectors)",
        "    return;",
        f"{kind} *const y = part == COMPUTE ? ({kind} *)made : {join.buffer};",
    ]
    for number, (writer, width) in enumerate(zip(join.writers, join.widths, strict=True)):
        given = f"((const {kind} *)given + v * {stage.input_width} + {starts[number]})"
        lines.append(f"const {kind} *const x_{number} = part == COMPUTE ? {given} : {writer} + v * {width};")
    for number, (start, end) in enumerate(pairwise(starts)):
        inside = (join.places >= start) & (join.places < end)
        for runs in _runs(np.flatnonzero(inside), join.places[inside] - start):
            lines += _copy(runs, number)
    body = "\n".join(f"    {line}" for line in lines)
    return f"/* {join.buffer} */\nKERNEL {kernel(join).name}({arguments})\n{{\n{body}\n}}"


def _copy(runs: _Runs, buffer: int) -> Iterator[str]:
    """Yield the statements that copy value n if it is in these runs; a value before them is a large number of them."""
    yield f"if (n - {runs.target}u < {(runs.count - 1) * runs.target_step + runs.length}) {{"
    yield f"    const unsigned m = n - {runs.target}u, run = m / {runs.target_step}, at = m % {runs.target_step};"
    yield f"    if (at < {runs.length})"
    yield f"        y[i] = x_{buffer}[{runs.source} + run * {runs.source_step} + at];"
    yield "}"


def _runs(targets: npt.NDArray[np.intp], places: npt.NDArray[np.intp]) -> Iterator[_Runs]:
    """Yield the values of one buffer as runs of one length, evenly apart; several groups where they are not."""
    edges = [0, *(np.flatnonzero((np.diff(targets) != 1) | (np.diff(places) != 1)) + 1), len(targets)]
    pieces = [(int(targets[a]), int(places[a]), int(b - a)) for a, b in pairwise(edges) if b > a]
    while pieces:
        group = _evenly(pieces)
        (target, source, length), count = pieces[0], len(group)
        steps = (group[1][0] - target, group[1][1] - source) if count > 1 else (length, 0)
        yield _Runs(target, source, length, count, *steps)
        pieces = pieces[count:]


def _evenly(pieces: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int]]:
    """Return the first pieces that have one length and one distance."""
    step = np.subtract(pieces[1], pieces[0]) if len(pieces) > 1 else np.zeros(3)
    count = 1
    while count < len(pieces) and (np.subtract(pieces[count], pieces[count - 1]) == step).all() and step[2] == 0:
        count += 1
    return pieces[:count]

"""Step 5: the layers read what those before them wrote, whichever item is slow.

Runs of the whole network under delays injected into one item at a time, so that a hand-over that is missing or in the
wrong place shows as stale activations.  Blocks of different sizes leave different vectors in the buffers.

What several items computed of one layer its readers bring together.  Whole runs would not show that a column is left
out there whose activation is always the same, so these stages are asked by themselves.

An accelerator hands out less when not all activations are dumped, by ways of its own: that run is asked for, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from harness import dumps, execute
from harness.execute import Deployed
from harness.network import Array, Layer, Network
from harness.plan import Plan
from harness.probe import Probe
from harness.proof.claims import Note, Question, Side, Step
from harness.proof.rounding import differing_output
from harness.stimuli import stimuli
from harness.targets import Stage

VECTORS = 2000
"""Of each whole run under delays."""
DELAY_US = 300
BLOCKS = (1, 7, 64)


def seeded(network: Network, seed: int) -> Array:
    """The vectors of whole runs, float32 (VECTORS, K)."""
    return stimuli(network, VECTORS, seed).chunk(0, VECTORS)


def questions(
    plan: Plan, deployed: Deployed | None, vectors: Array, references: Sequence[Array], timeout_s: float, scratch: Path
) -> Iterator[Question]:
    """That the network gives the reference's activations (`references`) for `vectors`, however the items run.

    Where nothing is `deployed` the answers are the right ones.
    """
    layers = plan.network.layers
    cases = len(vectors) * sum(layer.width for layer in layers)
    upload = scratch / "composition.npy"
    dumps.write(upload, vectors)
    wanted = [dumps.sha256(values) for values in references]
    pinned = execute.options(plan)

    def run(item: str, block: int, note: Note) -> str:
        options = [*pinned, "--block", str(block), "--delay", f"{item}:{DELAY_US}"]
        found: Sequence[str] = wanted
        if deployed:
            found = execute.execute_chunk(deployed, 0, upload, len(vectors), layers, options, timeout_s).sha256
        wrong = [layer.name for layer, *pair in zip(layers, wanted, found, strict=True) if pair[0] != pair[1]]
        note(" ".join(found))
        return f"with a delay before every layer of item {item}, layer {wrong[0]} differs first" if wrong else ""

    for item in plan.items:
        for block in sorted({min(block, plan.block) for block in BLOCKS}):
            yield Question(
                Step.COMPOSITION,
                Side.BOARD,
                None,
                f"with item {item.name} slowed down the network gives the same activations, in blocks of {block}",
                f"{len(vectors):,} seeded vectors, ties among them; {DELAY_US} µs before each of the item's layers",
                cases,
                complete=False,
                answer=partial(run, item.name, block),
            )
    yield Question(
        Step.COMPOSITION,
        Side.BOARD,
        None,
        "when nobody asks for the activations before it, which need not be handed out then, the last is the same",
        f"{len(vectors):,} seeded vectors, ties among them",
        len(vectors) * layers[-1].width,
        complete=False,
        answer=partial(_last_alone, plan, deployed, upload, wanted[-1], timeout_s),
    )


def _last_alone(plan: Plan, deployed: Deployed | None, vectors: Path, wanted: str, timeout_s: float, note: Note) -> str:
    """What is wrong with the last layer's activations where they are the only ones; `wanted` is their SHA-256."""
    last = plan.network.layers[-1]
    if deployed and _sha256_alone(plan, deployed, vectors, last, timeout_s) != wanted:
        return f"layer {last.name} differs"
    note(wanted)
    return ""


def _sha256_alone(plan: Plan, deployed: Deployed, vectors: Path, last: Layer, timeout_s: float) -> str:
    out = execute.out_folder(deployed.run_folder, 0)
    there, result = deployed.run_folder / vectors.name, out / dumps.file_name(len(plan.network.layers) - 1, last)
    deployed.board.put(vectors, there)
    arguments = ["--vectors", str(there), "--out", str(out), "--dump", "last", *execute.options(plan)]
    execute.run_program(deployed, arguments, timeout_s)
    [found] = execute.hashes_of(deployed.board, [result], dumps.size(last, VECTORS))
    return found


def merging(reader: Layer, stage: Stage, probe: Probe | None) -> Question:
    """That a source of `reader` that several items compute comes together with every column in its place."""
    return Question(
        Step.COMPOSITION,
        Side.BOARD,
        reader.name,
        "the columns that several items compute are brought together, each in its place",
        "every byte of every column takes all 256 values, each in an order of its own",
        256 * stage.input_width,
        complete=True,
        answer=lambda note: differing_output(stage, every_byte(stage), lambda values: values, probe, note),
    )


def every_byte(stage: Stage) -> Array:
    """Inputs (256, N) in which each byte takes all values; no two bytes of 32,768 do so in the same order."""
    places = np.arange(stage.input_width * stage.input_dtype.itemsize)
    values = np.arange(256)[:, None] * (2 * (places // 256) + 1) + places
    inputs: Array = values.astype(np.uint8).view(stage.input_dtype)
    return inputs

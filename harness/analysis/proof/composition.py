"""Step 7: the layers read the outputs of earlier layers for every timing of items and every number of executions.

Runs of the whole network under delays injected into one item at a time, so that a hand-over that is missing or in the
wrong place shows as stale activations.  Blocks of different sizes leave different vectors in the buffers.  A delay lets
the others finish, so the same runs are repeated with items that are shifted against each other and work at the same
time, which shows memory that two of them use.

What several items computed of one layer its readers bring together.  Whole runs would not show that a column is left
out there whose activation is always the same, so these stages are asked by themselves.

An accelerator hands out less when not all activations are dumped, by ways of its own: that run is asked for, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis import compare
from harness.analysis.proof.answers import differing_output
from harness.analysis.proof.claims import FEWEST, Effort, Note, Question, Side
from harness.boards.hashes import hashes_of
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps, program
from harness.execution.probe import Probe
from harness.execution.program import Deployed
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.obligations import ProofStep, every_byte
from harness.operators.region import Region
from harness.plan import conformance
from harness.plan.plan import Plan
from harness.reference import generated
from harness.reference.generated import Passes
from harness.reference.stimuli import stimuli
from harness.targets import Stage

DELAY_US = 300
BLOCKS = (1, 7, 64)
SHIFTED_BLOCKS = (1, 8)
SEED = 2
WARMUP = 3
PRIORITY = 80
REFUSED_PRIORITY = "--fifo was refused and left out"
SHORTEST_SHIFT_NS = 1000
"""Time of a layer that is shorter than a reading of the clock."""


def seeded(network: Network, seed: int, effort: Effort) -> Array:
    """Return the vectors of whole runs, float32 (n, K): those of `effort`, or as many as whole streams have."""
    count = -(-effort.vectors // network.steps) * network.steps
    return stimuli(network, count, seed).chunk(0, count)


@dataclass(frozen=True, eq=False)
class Whole:
    """Runs of the whole network over the same vectors, whose activations are known.

    `upload` is the file of the vectors, `wanted` the SHA-256 of each layer's dump, "" for one that is not kept.  Where
    nothing is `deployed` the answers are the right ones.
    """

    plan: Plan
    deployed: Deployed | None
    upload: Path
    count: int
    wanted: Sequence[str]
    timeout_s: float

    def run(self, options: Sequence[str], note: Note) -> tuple[str, dict[str, Any]]:
        """Return the first wrong layer or the description of a fault, and the program's answer."""
        layers = self.plan.network.layers
        note(" ".join(filter(None, self.wanted)))
        if self.deployed is None:
            return "", {}
        given = [*program.options(self.plan), *options]
        kept = [bool(sha256) for sha256 in self.wanted]
        done = program.execute_chunk(
            self.deployed, 0, self.upload, self.count, layers, given, self.timeout_s, kept=kept
        )
        differing = [
            layer.name for layer, *pair in zip(layers, self.wanted, done.sha256, strict=True) if pair[0] != pair[1]
        ]
        fault = program.faultless(done.answer)
        return fault or (f"layer {differing[0]} differs first" if differing else ""), done.answer

    def last(self, options: Sequence[str]) -> str:
        """Return the SHA-256 of the last layer's dump, which alone is written."""
        if self.deployed is None:
            return self.wanted[-1]
        last = self.plan.network.layers[-1]
        out = program.out_folder(self.deployed.run_folder, 0)
        there, result = (
            self.deployed.run_folder / self.upload.name,
            out / dumps.file_name(len(self.plan.network.layers) - 1, last),
        )
        self.deployed.board.put(self.upload, there)
        arguments = ["--vectors", str(there), "--out", str(out), "--dump", "last", *program.options(self.plan)]
        program.run_program(self.deployed, [*arguments, *options], self.timeout_s)
        return hashes_of(self.deployed.board, [result], dumps.size(last, self.count))[0]

    def times_ns(self, block: int) -> Array:
        """Return the time of each layer in executions of `block` vectors, uint64 (executions, layers), ns."""
        if self.deployed is None:
            return np.zeros((1, 1), np.uint64)
        self.last(["--block", str(block), "--time", "layer"])
        path = program.out_folder(self.deployed.run_folder, 0) / "time.npy"
        shape = -(-self.count // block), len(self.plan.network.layers)
        return program.fetch_arrays(self.deployed.board, [(path, np.dtype(np.uint64), shape)])[0]

    @property
    def activations(self) -> int:
        """Return the number of activations that are compared for one vector."""
        return sum(layer.size for layer, wanted in zip(self.plan.network.layers, self.wanted, strict=True) if wanted)

    @property
    def again(self) -> tuple[Whole, tuple[str, ...], str]:
        """Runs that pass their vectors again, their options, and a text on what is compared.

        The program compares all dumps of a later pass with the first; where buffers share bytes it dumps the outputs of
        the last layer alone.
        """
        if all(self.plan.kept):
            return self, (), "all activations are compared"
        *rest, last = self.wanted
        alone = replace(self, wanted=[*("" for _ in rest), last])
        return alone, ("--dump", "last"), "the outputs of the last layer are compared"


def questions(
    plan: Plan,
    deployed: Deployed | None,
    vectors: Array,
    references: Sequence[Array],
    timeout_s: float,
    scratch: Path,
    effort: Effort,
    priority: int = PRIORITY,
) -> Iterator[Question]:
    """Check that the network computes the reference's activations (`references`) for `vectors`, in any order of items.

    Where nothing is `deployed` the answers are the right ones.  `priority` is that of measured programs, from 1 to 99.
    """
    upload = scratch / "composition.npy"
    dumps.write(upload, vectors)
    whole = Whole(plan, deployed, upload, len(vectors), _kept_sha256(plan, references), timeout_s)
    one_block = _first(whole, vectors, references, scratch / "one_block.npy", min(plan.block, len(vectors)))
    for item in plan.items:
        for block in sorted({min(block, plan.block) for block in (*BLOCKS, plan.block)}):
            yield _delayed(whole, item.name, ["--block", str(block)], f"blocks of {block}")
        largest = min(BLOCKS[-1], plan.block)
        if largest > 1:
            drawn = generated.options((), largest, SEED)
            yield _delayed(whole, item.name, drawn, f"blocks of random sizes from 1 to {largest}")
        tasks = sum(plan.items[task.item] is item for task in plan.tasks)
        yield _late(one_block, item.name, tasks, effort.late_us)
    yield _repeated(whole, min(effort.block, plan.block), effort)
    if conformance.work_together(plan):
        for block in sorted({min(block, plan.block) for block in SHIFTED_BLOCKS}):
            yield _shifted(whole, block, effort.overlapping)
    yield _last_alone(whole)
    few = -(-FEWEST // plan.network.steps) * plan.network.steps
    count = min(few, whole.count) if effort.limits else whole.count
    yield _measured(_first(whole, vectors, references, scratch / "measured.npy", count), priority)


def _first(whole: Whole, vectors: Array, references: Sequence[Array], upload: Path, count: int) -> Whole:
    """Return the run of the first `count` vectors."""
    dumps.write(upload, vectors[:count])
    wanted = _kept_sha256(whole.plan, [values[:count] for values in references])
    return replace(whole, upload=upload, count=count, wanted=wanted)


def _kept_sha256(plan: Plan, references: Sequence[Array]) -> list[str]:
    return [dumps.sha256(values) if kept else "" for values, kept in zip(references, plan.kept, strict=True)]


def _late(one_block: Whole, item: str, tasks: int, late_us: int) -> Question:
    delay_us = late_us // max(tasks, 1)

    def wrong(note: Note) -> str:
        options = ["--block", str(one_block.count), "--delay", f"{item}:{delay_us}"]
        found, _ = one_block.run(options, note)
        return f"with item {item} late by {late_us / 1e6:g} s, {found}" if found else ""

    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        None,
        f"the other items wait for item {item}, also if it is late by {late_us / 1e6:g} s",
        f"{one_block.count:,} seeded vectors in one execution; {delay_us:,} µs before each of the item's layers",
        one_block.count * one_block.activations,
        complete=False,
        answer=wrong,
    )


def _delayed(whole: Whole, item: str, options: Sequence[str], blocks: str) -> Question:
    def wrong(note: Note) -> str:
        found, _ = whole.run([*options, "--delay", f"{item}:{DELAY_US}"], note)
        return f"with a delay before every layer of item {item}, {found}" if found else ""

    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        None,
        f"with item {item} slowed down the network gives the same activations, in {blocks}",
        f"{whole.count:,} seeded vectors, ties among them; {DELAY_US} µs before each of the item's layers",
        whole.count * whole.activations,
        complete=False,
        answer=wrong,
    )


def _repeated(whole: Whole, block: int, effort: Effort) -> Question:
    found = generated.passes(whole.count, block, SEED, effort.network)
    compared, alone, text = whole.again
    window, more = generated.windows(effort.window, whole.plan.network.steps)
    options = [*alone, *generated.options((), block, SEED), "--executions", str(effort.network), *window]

    def wrong(note: Note) -> str:
        counterexample, answer = compared.run(options, note)
        _require_executions(answer, found.executions + more)
        return counterexample

    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        None,
        "every execution of the network in one process gives the same activations",
        f"{found.executions:,} executions in blocks of 1 to {block} vectors pass {whole.count:,} seeded vectors "
        f"{found.passes:,} times, then {more:,} have numbers around the powers of two from 2^16 to 2^53; {text}",
        whole.count * found.passes * compared.activations,
        complete=False,
        answer=wrong,
    )


def _shifted(whole: Whole, block: int, executions: int) -> Question:
    found = Passes.of_blocks(whole.count, block, executions)
    overlaps: list[int] = []
    compared, alone, text = whole.again

    def wrong(note: Note) -> str:
        longest_ns = max(2 * int(np.median(whole.times_ns(block), axis=0).max()), SHORTEST_SHIFT_NS)
        jitter = ["--jitter-ns", f"{longest_ns}:{SEED}"]
        options = [*alone, "--block", str(block), *jitter, "--executions", str(executions)]
        counterexample, answer = compared.run(options, note)
        _require_executions(answer, found.executions)
        overlaps.append(answer.get("overlaps", 0))
        return f"with items shifted against each other, {counterexample}" if counterexample else ""

    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        None,
        f"items that are shifted against each other do not disturb each other, in blocks of {block}",
        f"{found.executions:,} executions, {found.passes:,} times {whole.count:,} seeded vectors; before each step "
        f"every item spins for a random time, up to twice as long as the longest layer takes; {text}",
        whole.count * found.passes * compared.activations,
        complete=False,
        answer=wrong,
        observed=lambda: f"in {sum(overlaps):,} of {found.executions:,} executions two items worked at the same time",
    )


def _require_executions(answer: dict[str, Any], expected: int) -> None:
    if answer and answer.get("blocks") != expected:
        raise BoardError(f"the program reports {answer.get('blocks')!r} executions, not {expected}")


def _modes(steps: int, priority: int) -> list[list[str]]:
    """Return the options of measurements, each alone and together with all dumps, then as used, with the last dump.

    A stream of `steps` is not repeated, as each step follows the one before, and warms up with whole streams.
    """
    warmup, fifo = ["--warmup", str(-(-WARMUP // steps) * steps)], ["--fifo", str(priority)]
    repeat = ["--repeat", "3"] if steps == 1 else []
    times = [["--time", scope] for scope in ("network", "item", "layer")]
    alone = [mode for mode in (warmup, repeat, fifo, *times) if mode]
    together = [[*warmup, *repeat, *time] for time in times]
    used = [["--dump", "last", *warmup, *time, *fifo] for time in times]
    return [*alone, *together, *used]


def _measured(whole: Whole, priority: int) -> Question:
    block = min(SHIFTED_BLOCKS[-1], whole.plan.block)
    modes, refused = _modes(whole.plan.network.steps, priority), set[str]()

    def compared(mode: Sequence[str], note: Note) -> str:
        *rest, last = whole.wanted
        alone = "--dump" in mode
        asked = replace(whole, wanted=["" for _ in rest] + [last]) if alone else whole
        return asked.run([*mode, "--block", str(block)], note)[0]

    def wrong(note: Note) -> str:
        for mode in modes:
            try:
                counterexample = compared(mode, note)
            except BoardError as error:
                if "--fifo" not in mode or "--fifo" not in error.message:
                    raise
                refused.add(f"{REFUSED_PRIORITY}: {error.message}")
                at = mode.index("--fifo")
                counterexample = compared([*mode[:at], *mode[at + 2 :]], note)
            if counterexample:
                return f"with {' '.join(mode)}, {counterexample}"
        return ""

    texts = [" ".join(word for word in mode if word != str(priority)) for mode in modes]
    dumped = sum("--dump" not in mode for mode in modes)
    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        None,
        "with the options of a measurement the network gives the same activations",
        f"{whole.count:,} seeded vectors in blocks of {block}, once with each of: {'; '.join(texts)}",
        whole.count * (dumped * whole.activations + (len(modes) - dumped) * whole.plan.network.layers[-1].size),
        complete=False,
        answer=wrong,
        observed=lambda: "; ".join(sorted(refused)),
    )


def untried(observed: Iterable[str | None]) -> list[str]:
    """Return the assumption about a priority that the board refused, by what the claims observed."""
    if not any(text and text.startswith(REFUSED_PRIORITY) for text in observed):
        return []
    return ["The program computes with --fifo what it computes without: the system of the board refused this priority."]


def _last_alone(whole: Whole) -> Question:
    last = whole.plan.network.layers[-1]

    def wrong(note: Note) -> str:
        for options in ([], ["--time", "network"]):
            if whole.last(options) != whole.wanted[-1]:
                return f"layer {last.name} differs{' when times are measured' if options else ''}"
            note(whole.wanted[-1])
        return ""

    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        None,
        "when nobody asks for the activations before it, which need not be handed out then, the last is the same",
        f"{whole.count:,} seeded vectors, ties among them; once as they are, once with times measured",
        2 * whole.count * last.size,
        complete=False,
        answer=wrong,
    )


def merging(reader: Layer, stage: Stage, places: npt.NDArray[np.intp], probe: Probe | None) -> Question:
    """Ask whether a source of `reader` that is brought together has every column, from its place, in its place."""
    return Question(
        ProofStep.COMPOSITION,
        Side.BOARD,
        reader.name,
        "the columns that it reads of what items compute are brought together, each in its place",
        "every byte of every column takes all 256 values, each in an order of its own",
        256 * stage.input_width,
        complete=True,
        answer=lambda note: differing_output(
            stage, every_byte(stage.input_width, stage.input_dtype), lambda values: values[:, places], probe, note
        ),
    )


def dividing(layer: Layer, parts: Sequence[tuple[Region, Layer]]) -> Question:
    """Ask whether the specifications of the parts, for these columns, together are that of the layer."""
    vectors = 256

    def wrong(note: Note) -> str:
        rng = np.random.default_rng(SEED)
        given = [
            rng.normal(size=(vectors, tensor.size)).astype(tensor.dtype)
            if tensor.dtype == np.float32
            else every_byte(tensor.size, tensor.dtype)
            for tensor in layer.inputs
        ]
        whole = layer.prepare()(*given)
        for region, part in parts:
            needs = zip(given, layer.division.needs(region), strict=True)
            found = part.prepare()(*(values[:, need.indices(values.shape[1])] for values, need in needs))
            columns = region.indices(layer.size)
            different = np.argwhere(compare.bits(found) != compare.bits(whole[:, columns]))
            if len(different):
                vector, column = map(int, different[0])
                return f"{part.name}, vector {vector}: column {columns[column]} is {found[vector, column]}"
            note(dumps.sha256(found))
        return ""

    return Question(
        ProofStep.COMPOSITION,
        Side.REFERENCE,
        layer.name,
        "the parts that several items compute are the layer, each for the values that it reads",
        f"{vectors} vectors, in which every byte takes all 256 values, or random float32",
        vectors * layer.size,
        complete=False,
        answer=wrong,
    )

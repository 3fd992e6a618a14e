"""The processing of chunks: execute, collect, compare, diagnose, record.

A chunk is the unit of resume and bounds the memory use.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.analysis import local
from harness.analysis.compare import Comparison, compare
from harness.analysis.diagnosis import Case, cases, diagnose, portray
from harness.boards.session import Board
from harness.core.arrays import Array
from harness.execution import dumps, program
from harness.execution.program import Deployed, Executed
from harness.plan.plan import Plan
from harness.reference import Expected
from harness.reference.coverage import Coverage
from harness.runs.folder import ChunkRecord, DeployedResult
from harness.runs.job import Job

DIAGNOSED = 4  # layers per chunk
PHASES = 3  # of a chunk, for the progress bar: board, reference, comparison

Advance = Callable[[int], object]


@dataclass(frozen=True)
class Chunk:
    """Vectors `start` to `stop` of the run."""

    index: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Return the number of vectors."""
        return self.stop - self.start


@dataclass(frozen=True)
class _StartedChunk:
    """A chunk that the board and the reference work on."""

    chunk: Chunk
    vectors: Array
    executed: Future[Executed]
    expected: Future[Expected]
    counted: Future[None]


def cut(count: int, size: int) -> Iterator[Chunk]:
    """Yield the chunks of `count` vectors, `size` each; the last has the rest."""
    for index, start in enumerate(range(0, count, size)):
        yield Chunk(index, start, min(start + size, count))


def run_pipelined(job: Job, deployed: Deployed, todo: Sequence[Chunk], coverage: Coverage, advance: Advance) -> None:
    """Run chunks on the board and their references here, and collect the previous chunk at the same time.

    `advance` gets a third of a chunk's vectors when the board has ended, when the reference is computed, and when both
    are compared and recorded, because a run can have only one chunk.  BoardError or ReferenceFailed stops all chunks.
    """
    with ExitStack() as stack:
        workers = [stack.enter_context(ThreadPoolExecutor(max_workers=1)) for _ in range(3)]
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.push(partial(_end_session, deployed.board))
        started: _StartedChunk | None = None
        for chunk in [*todo, None]:
            following = _start(job, deployed, chunk, scratch, coverage, *workers) if chunk else None
            if chunk and following:
                for part in (following.executed, following.expected):
                    part.add_done_callback(partial(_advance_if_good, advance, chunk.size // PHASES))
            if started:
                _finish(job, deployed, started)
                advance(started.chunk.size - (PHASES - 1) * (started.chunk.size // PHASES))
            started = following


def _advance_if_good(advance: Advance, count: int, part: Future[Any]) -> None:
    if not part.cancelled() and part.exception() is None:
        advance(count)


def _end_session(board: Board, kind: type[BaseException] | None, *_: object) -> None:
    """Do not wait for programs that still run on the board after a failure."""
    if kind is not None:
        board.close()


def _start(
    job: Job,
    deployed: Deployed,
    chunk: Chunk,
    scratch: Path,
    coverage: Coverage,
    board: Executor,
    reference: Executor,
    counter: Executor,
) -> _StartedChunk:
    """Start a chunk on the board and in the reference; count its coverage when the reference is computed."""
    vectors, slot = job.stimuli.chunk(chunk.start, chunk.stop), chunk.index % program.SLOTS
    upload = scratch / f"vectors{slot}.npy"
    dumps.write(upload, vectors)
    options, timeout_s = program.options(job.plan), job.profile.timeout_s
    execution = partial(program.execute_chunk, deployment=job.request.floats is not None, kept=job.plan.kept)
    executed = board.submit(execution, deployed, slot, upload, chunk.size, job.network.layers, options, timeout_s)
    expected = reference.submit(job.reference.expected, vectors, chunk.start)
    counted = counter.submit(lambda: coverage.add(vectors, expected.result().activations))
    return _StartedChunk(chunk, vectors, executed, expected, counted)


def _finish(job: Job, deployed: Deployed, started: _StartedChunk) -> None:
    """Fetch the requested dumps, compare them, and write the chunk's record last."""
    chunk, executed, expected = started.chunk, started.executed.result(), started.expected.result()
    references = expected.activations
    kept = job.plan.kept
    reference_sha256 = tuple(
        dumps.sha256(values) if is_kept else "" for values, is_kept in zip(references, kept, strict=True)
    )
    suspects = [i for i, pair in enumerate(zip(reference_sha256, executed.sha256, strict=True)) if pair[0] != pair[1]]
    wanted = [layer for layer, is_kept in enumerate(kept) if is_kept] if job.fetch == "all" else suspects
    folder = job.folder.dumps("target", chunk.index)
    actual = program.collect(deployed, executed, wanted, job.network.layers, folder)
    for layer in wanted:
        name = dumps.file_name(layer, job.network.layers[layer])
        dumps.write(job.folder.dumps("reference", chunk.index) / name, references[layer])
    hashes = (reference_sha256, executed.sha256)
    record = recorded(job.plan, job.stimuli.count, chunk, started.vectors, references, actual, hashes)
    in_deployment = _in_deployment(job, deployed, executed, references[-1], chunk.start)
    record = dataclasses.replace(record, deployed=in_deployment, ratios=expected.ratios, whole=expected.whole)
    started.counted.result()
    job.folder.write_chunk(record, job.identity)


def _in_deployment(
    job: Job, deployed: Deployed, executed: Executed, expected: Array, start: int
) -> DeployedResult | None:
    """Return the result of the last layer in deployment mode; None if it was not requested."""
    alone = executed.deployed
    if alone is None:
        return None
    if alone.sha256 == dumps.sha256(expected):
        return DeployedResult(alone.sha256, Comparison(expected.size, 0, None))
    actual = program.collect_alone(deployed, alone, job.network.layers[-1], executed.vectors)
    return DeployedResult(alone.sha256, compare(expected, actual, start))


def recorded(
    plan: Plan,
    count: int,
    chunk: Chunk,
    vectors: Array,
    references: Sequence[Array],
    actual: Mapping[int, Array],
    hashes: tuple[tuple[str, ...], tuple[str, ...]],
) -> ChunkRecord:
    """Return the record of a chunk of a run of `count` vectors: a function of its inputs and outputs.

    `references` are the right outputs of all layers for `vectors`, `actual` those of the board by layer index; an
    output that was not fetched had the reference's SHA-256 on the board, or was overwritten there.  If the plan has
    bounded layers, all were fetched, and each is compared with the specification for its own inputs.
    `hashes` are those of all dumps of reference and board.
    """
    comparison, near = local.of_plan(plan), None
    if comparison:
        references, near = comparison.judge(vectors, references, actual, chunk.start)
    # The diagnosis compares the sums of items that computed channels: of rows it takes the layer as one part.
    starts = [
        tuple(task.start for task in plan.tasks_of(layer) if task.runs == 1) or (0,) for layer in range(len(references))
    ]
    # Whether a layer is wrong itself is known only if its sources are: a buffer that was overwritten says nothing.
    found = (
        list(cases(plan.network, vectors, references, actual, chunk.start, plan.block, starts, local=near is not None))
        if all(plan.kept)
        else []
    )
    to_blame = [case for case in found if case.own]
    comparisons = _compare_layers(plan, references, actual, found, chunk.start)
    return ChunkRecord(
        index=chunk.index,
        start=chunk.start,
        stop=chunk.stop,
        layers=comparisons,
        reference_sha256=hashes[0],
        target_sha256=hashes[1],
        diagnoses=tuple(diagnose(case) for case in to_blame[:DIAGNOSED]),
        portraits=tuple(
            portray(case, references[case.index], count) for case in found if comparisons[case.index].differing
        ),
        local=near,
    )


def _compare_layers(
    plan: Plan, references: Sequence[Array], actual: Mapping[int, Array], found: Sequence[Case], start: int
) -> tuple[Comparison, ...]:
    """Return every layer's result; nothing of a layer whose activations were overwritten was compared."""
    own = {case.index: case.own for case in found}
    results = (
        compare(expected, actual[layer], start)
        if layer in actual
        else Comparison(expected.size * plan.kept[layer], 0, None)
        for layer, expected in enumerate(references)
    )
    return tuple(dataclasses.replace(result, own=own.get(layer, 0)) for layer, result in enumerate(results))

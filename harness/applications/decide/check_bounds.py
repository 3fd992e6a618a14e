"""The verification of a finished decision by bounds: witnesses, random boxes, and random code vectors of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.applications.decide import again, bounded
from harness.applications.decide.bounded import POSSIBLE, REACHED, Job
from harness.applications.decide.check import Finding, Runtime, of_request, of_verdict, stored, witnesses
from harness.applications.decide.entries import BoundsDocument
from harness.applications.decide.job import DOCUMENT, Progress
from harness.applications.decide.partition import AnySets
from harness.applications.decide.property import type_of_sets
from harness.core.errors import RequestError

BATCHES = 20
"""Batches of boxes whose bounds are computed again."""
VECTORS_OF_A_BOX = 20
"""Random code vectors of a random box that ONNX Runtime computes."""


def check(path: Path, boxes: int, seed: int, progress: Progress) -> Iterator[Finding]:
    """Yield the claims of a finished decision by bounds; RequestError if the folder has none."""
    if not (path / DOCUMENT).is_file():
        raise RequestError(f"{path}: no finished decision", "start it again: a decision by bounds is not resumed")
    document, job = BoundsDocument.read(path / DOCUMENT), bounded.opened(path)
    yield of_request(document, job.request)
    possible, reached = stored(path / POSSIBLE), stored(path / REACHED)
    fits = possible.shape == reached.shape == (job.partition.boxes,)
    fits = fits and possible.dtype == reached.dtype == type_of_sets(len(job.stated.names))
    hashes = [hashlib.sha256(each.tobytes()).hexdigest() for each in (possible, reached)]
    fits = fits and hashes == [document.possible_sha256, document.reached_sha256]
    yield Finding("sets", fits, "the sets of possible and reached decisions have the stated hashes")
    if not fits:
        return
    yield Finding("reached sets", not (reached & ~possible).any(), "every decision that is reached is possible")
    counts = bounded.counts_of(job.stated, possible, reached)
    shown = f"{counts.safe:,} safe, {counts.violated:,} violated, {counts.undecided:,} undecided"
    yield Finding("counts", counts == document.counts, shown)
    yield of_verdict(document, counts)
    runtime = Runtime(job)
    yield from _witnesses(job, document, reached, runtime)
    yield from _again(job, possible, boxes, np.random.default_rng(seed), runtime, progress)


def _witnesses(job: Job, document: BoundsDocument, reached: AnySets, runtime: Runtime) -> Iterator[Finding]:
    stated, boxes, codes, inputs = witnesses(job, document)
    violated = np.flatnonzero(bounded.violated(job.stated, reached))
    numbers = job.partition.numbers(boxes)
    each = np.array_equal(np.unique(numbers), violated)
    yield Finding("witnesses", stated and each, f"{len(violated):,} violated boxes have {len(boxes):,} witnesses")
    if not each or not len(boxes):
        return
    expected = job.partition.inputs(boxes, codes, job.network)
    inside = np.array_equal(expected.view(np.uint32), inputs.view(np.uint32))
    for claim, evaluate in (("violations", runtime.by_specification), ("ONNX Runtime", runtime.of_inputs)):
        sets = np.zeros_like(reached)
        np.bitwise_or.at(sets, numbers, evaluate(inputs))
        violating = np.array_equal(np.flatnonzero(bounded.violated(job.stated, sets)), violated)
        by = "the specification of each layer" if claim == "violations" else "ONNX Runtime"
        yield Finding(claim, violating and inside, f"{by} finds the violations at inputs within the boxes")


def _again(
    job: Job, possible: AnySets, boxes: int, random: np.random.Generator, runtime: Runtime, progress: Progress
) -> Iterator[Finding]:
    step, total = bounded.boxes_of_a_batch(job.network), job.partition.boxes
    chosen = np.sort(again.strata(total, min(total, max(boxes, BATCHES * step)), random))
    missing, outside = 0, 0
    with progress("random boxes", len(chosen), 0) as bar:
        for first in range(0, len(chosen), step):
            numbers = chosen[first : first + step]
            batch = job.batch(numbers)
            missing += int(np.count_nonzero(bounded.decide(batch).possible & ~possible[numbers]))
            none = np.empty((len(batch.owner), 0, batch.low.shape[1]), np.uint8)
            vectors = bounded.sample(batch.low, batch.high, none, VECTORS_OF_A_BOX, random)
            owner = np.repeat(batch.owner, VECTORS_OF_A_BOX)
            codes = vectors.reshape(-1, vectors.shape[2])
            inputs = job.partition.inputs(job.partition.intervals(numbers[owner]), codes, job.network)
            found = runtime.of_inputs(inputs)
            outside += int(np.count_nonzero(found & ~possible[numbers[owner]]))
            bar.advance(len(numbers))
    claim = f"{len(chosen):,} of {total:,} boxes: the bounds leave no decision that the stored sets lack"
    claim += f"; {again.detection(len(chosen), total)}"
    yield Finding("bounds", not missing, f"{missing} boxes leave others" if missing else claim)
    vectors_of_all = f"random code vectors of {len(chosen):,} random boxes have possible decisions in ONNX Runtime"
    yield Finding("soundness", not outside, f"{outside} code vectors have others" if outside else vectors_of_all)

"""A decision by bounds: batches of boxes, samples that find violations, and the document.

The folder has model, property, request, witnesses and document as that of a complete decision (job.py), and

    possible.npy  the set of decisions of each box that the bounds leave, (boxes,), in C order of the intervals
    reached.npy   the set of decisions of each box that a code vector has; both uint8, or uint64 for more than 8

A box is violated if the decisions that it reaches violate the property, safe if those that are possible do not, and
undecided otherwise.  `witnesses.npz` has code vectors and inputs of violated boxes; the decisions of all witnesses of a
box together violate the property.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness import __version__
from harness.applications.decide import bounds
from harness.applications.decide import job as decision
from harness.applications.decide.code_network import CodeNetwork, Codes
from harness.applications.decide.entries import BOUNDS, FINISHED, BoundsDocument, BoundsRequestDocument, CountsEntry
from harness.applications.decide.job import REQUEST, WITNESSES, Progress, Stated
from harness.applications.decide.partition import AnySets
from harness.applications.decide.property import MOST_OF_BOUNDS, Property, type_of_sets
from harness.core.document import durable, write_json
from harness.core.installation import revision
from harness.model.network import Network

POSSIBLE, REACHED = "possible.npy", "reached.npy"
SAMPLES = 128
"""Code vectors of a box that are tried; where an axis wraps, of each product of its runs of codes."""
ELEMENTS = 1 << 21
"""The elements of the largest matrix of a batch: 16 MiB."""
BOXES_OF_A_BATCH = 4096
"""Boxes of a batch, at most."""
BOXES_OF_A_MEASUREMENT = 32


@dataclass(frozen=True, eq=False)
class Job(Stated):
    """A decision by bounds in its folder."""

    samples: int
    seed: int

    @property
    def request(self) -> BoundsRequestDocument:
        """The request."""
        return BoundsRequestDocument(**self.entries, method=BOUNDS, samples_of_a_box=self.samples, seed=self.seed)

    def batch(self, numbers: npt.NDArray[np.int64]) -> Batch:
        """Return the boxes of these numbers, in C order of the intervals, as a task."""
        allowed = self.stated.allowed
        if allowed is not None and allowed.ndim:
            allowed = allowed.reshape(-1)[numbers]
        stated = replace(self.stated, allowed=allowed, axes=(), text="")
        return Batch(self.network, stated, numbers, *self.partition.rows(numbers), self.samples, self.seed)

    def batches(self) -> Iterator[Batch]:
        """Yield all boxes."""
        step, boxes = boxes_of_a_batch(self.network), self.partition.boxes
        for first in range(0, boxes, step):
            yield self.batch(np.arange(first, min(first + step, boxes)))


@dataclass(frozen=True, eq=False)
class Batch:
    """Some boxes of a decision: row r has the codes `low[r]` to `high[r]`, (rows, inputs), of box `owner[r]`."""

    network: CodeNetwork
    stated: Property
    numbers: npt.NDArray[np.int64]
    owner: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    samples: int
    seed: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """The sets of the boxes of a batch, (boxes,) each; box `witnessed[w]`, a number, has the code vector `codes[w]`."""

    numbers: npt.NDArray[np.int64]
    possible: AnySets
    reached: AnySets
    witnessed: npt.NDArray[np.int64]
    codes: Codes
    cpu_s: float


def boxes_of_a_batch(network: CodeNetwork) -> int:
    """Return how many boxes have matrices of ELEMENTS elements in a zonotope, at least one."""
    symbols = network.inputs + sum(int(step.weights.shape[1]) for step in network.steps[:-1])
    widest = max(int(side) for step in network.steps for side in step.weights.shape)
    return max(1, min(BOXES_OF_A_BATCH, ELEMENTS // (symbols * widest)))


def decide(batch: Batch) -> Outcome:
    """Return the possible and the reached decisions of each box of a batch, with witnesses of the violated ones.

    Raises AssertionError if a code vector has a decision that the bounds exclude.
    """
    began_s, random = time.thread_time(), np.random.default_rng([batch.seed, int(batch.numbers[0])])
    network, stated, rule = batch.network, batch.stated, batch.stated.rule
    sets = bounds.interval(network, batch.low, batch.high).possible(rule)
    possible = _union(batch, np.arange(len(batch.owner)), sets)
    rows = np.flatnonzero(stated.forbidden(possible)[batch.owner])
    corners = np.empty((len(batch.owner), 0, batch.low.shape[1]), np.uint8)
    if len(rows):
        found = bounds.zonotope(network, rule, batch.low[rows], batch.high[rows])
        sets[rows] = found.possible(rule)
        possible = _union(batch, np.arange(len(batch.owner)), sets)
        corners = np.zeros((len(batch.owner), *found.corners.shape[1:]), np.uint8)
        corners[rows] = found.corners
    reached, witnessed, codes = np.zeros_like(possible), [], []
    left = stated.forbidden(possible) != 0
    for mask, count in ((left, batch.samples), (~left, 1)):
        rows = np.flatnonzero(mask[batch.owner])
        vectors = sample(batch.low[rows], batch.high[rows], corners[rows, : count - 1], count, random)
        shape = vectors.shape[:2]
        flat = vectors.reshape(-1, vectors.shape[2])
        of_vectors = bounds.interval(network, flat, flat).possible(rule).reshape(shape)
        reached |= _union(batch, rows, np.bitwise_or.reduce(of_vectors, axis=1))
        for box in np.flatnonzero(stated.forbidden(reached)) if mask is left else ():
            of_box = batch.owner[rows] == box
            each, those = vectors[of_box].reshape(-1, vectors.shape[2]), of_vectors[of_box].reshape(-1)
            for index in _witnesses(stated, int(reached[box]), int(stated.forbidden(reached)[box]), those):
                witnessed.append(batch.numbers[box])
                codes.append(each[index])
    if (reached & ~possible).any():
        wrong = int(batch.numbers[np.flatnonzero(reached & ~possible)[0]])
        raise AssertionError(f"box {wrong} reaches a decision that its bounds exclude")
    stacked = np.array(codes, np.uint8).reshape(-1, batch.low.shape[1])
    took_s = time.thread_time() - began_s
    return Outcome(batch.numbers, possible, reached, np.array(witnessed, np.int64), stacked, took_s)


def sample(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], corners: Codes, count: int, random: np.random.Generator
) -> Codes:
    """Return `count` code vectors of each row, uint8 (rows, count, inputs): centre, `corners`, others at random.

    One half of these has an end of each input, the other half any code.
    """
    centre = ((low + high) // 2)[:, None]
    others = count - 1 - corners.shape[1]
    drawn = random.random((len(low), max(others, 0), low.shape[1]), np.float32)
    at_end = drawn[:, : others // 2]
    ends = np.where(at_end < 0.5, low[:, None], high[:, None])
    spread = (high - low + 1)[:, None]
    inside = low[:, None] + np.minimum((drawn[:, others // 2 :] * spread).astype(np.int64), spread - 1)
    return np.concatenate([centre, corners, ends, inside], axis=1).astype(np.uint8)


def _union(batch: Batch, rows: npt.NDArray[np.int64], sets: AnySets) -> AnySets:
    found = np.zeros(len(batch.numbers), sets.dtype)
    np.bitwise_or.at(found, batch.owner[rows], sets)
    return found


def _witnesses(stated: Property, reached: int, forbidden: int, sets: AnySets) -> list[int]:
    """Return the vectors whose decisions together violate the property: one, or two with different decisions."""
    lowest = reached & -reached
    wanted = (forbidden,) if stated.allowed is not None else (lowest, reached & ~lowest)
    return sorted({int(np.flatnonzero(sets & sets.dtype.type(each))[0]) for each in wanted})


def planned(runs: Path, network: Network, property_file: Path) -> Job:
    """Return a decision without a folder; RequestError if model and property do not fit."""
    found = decision.read_stated(runs, network, property_file, MOST_OF_BOUNDS)
    return Job(runs, found.network, found.stated, found.partition, SAMPLES, 0)


def new(job: Job, network: Network, property_file: Path) -> Job:
    """Return a planned decision with its folder."""
    created = replace(job, path=decision.new_folder(job, network, property_file))
    write_json(created.path / REQUEST, created.request)
    return created


def opened(path: Path) -> Job:
    """Return the decision in a folder; RequestError if its files do not fit its request."""
    request = BoundsRequestDocument.read(path / REQUEST)
    found = decision.reread(path, request, MOST_OF_BOUNDS)
    job = Job(path, found.network, found.stated, found.partition, request.samples_of_a_box, request.seed)
    decision.require_same(path, request, job.request)
    return job


def seconds_of_a_box(job: Job) -> float:
    """Return the time of one core for one box, measured on boxes spread over the domain."""
    boxes = job.partition.boxes
    numbers = np.unique(np.linspace(0, boxes - 1, min(boxes, BOXES_OF_A_MEASUREMENT)).astype(np.int64))
    numbers = numbers[:: max(1, len(numbers) // boxes_of_a_batch(job.network))]
    return decide(job.batch(numbers)).cpu_s / len(numbers)


def run(job: Job, pool: Executor, at_once: int, progress: Progress) -> BoundsDocument:
    """Decide all boxes, and write sets and witnesses; `at_once` is the number of batches that wait or run."""
    began, clock, cpu_s = datetime.now(UTC), time.monotonic(), 0.0
    possible, reached = (np.zeros(job.partition.boxes, type_of_sets(len(job.stated.names))) for _ in range(2))
    witnessed, codes = [np.empty(0, np.int64)], [np.empty((0, job.network.inputs), np.uint8)]
    with progress("boxes", job.partition.boxes, 0) as bar:
        for outcome in decision.completed(pool, decide, job.batches(), at_once):
            possible[outcome.numbers], reached[outcome.numbers] = outcome.possible, outcome.reached
            witnessed.append(outcome.witnessed)
            codes.append(outcome.codes)
            cpu_s += outcome.cpu_s
            bar.advance(len(outcome.numbers))
    numbers, vectors = np.concatenate(witnessed), np.concatenate(codes)
    order = np.argsort(numbers, kind="stable")
    boxes, vectors = job.partition.intervals(numbers[order]), vectors[order]
    inputs = job.partition.inputs(boxes, vectors, job.network) if len(boxes) else np.empty(boxes.shape, np.float32)
    decision.save(job.path / POSSIBLE, possible)
    decision.save(job.path / REACHED, reached)
    with durable(job.path / WITNESSES) as file:
        np.savez_compressed(file, boxes=boxes.astype(np.uint16), codes=vectors, inputs=inputs)
    counts = counts_of(job.stated, possible, reached)
    return BoundsDocument(
        **(dict(job.request) | {"schema_number": FINISHED}),
        harness={"version": __version__, "revision": revision()},
        verdict=decision.verdict_of(counts),
        counts=counts,
        possible_sha256=hashlib.sha256(possible.tobytes()).hexdigest(),
        reached_sha256=hashlib.sha256(reached.tobytes()).hexdigest(),
        witnesses_sha256=hashlib.sha256((job.path / WITNESSES).read_bytes()).hexdigest(),
        began=began.isoformat(timespec="seconds"),
        wall_s=round(time.monotonic() - clock, 1),
        cpu_s=round(cpu_s, 1),
        machine=platform.node(),
    )


def violated(stated: Property, reached: AnySets) -> npt.NDArray[np.bool_]:
    """Return which boxes are violated by the decisions that they reach, (boxes,) each."""
    allowed = stated.allowed
    flat = replace(stated, allowed=allowed.reshape(-1) if allowed is not None and allowed.ndim else allowed)
    found: npt.NDArray[np.bool_] = flat.forbidden(reached) != 0
    return found


def counts_of(stated: Property, possible: AnySets, reached: AnySets) -> CountsEntry:
    """Return the number of boxes by result."""
    wrong, safe = violated(stated, reached), ~violated(stated, possible)
    by_decision = {
        name: int(np.count_nonzero(reached & reached.dtype.type(1 << index))) for index, name in enumerate(stated.names)
    }
    undecided = int(np.count_nonzero(~wrong & ~safe))
    return CountsEntry(
        safe=int(np.count_nonzero(safe)),
        violated=int(np.count_nonzero(wrong)),
        undecided=undecided,
        by_decision=by_decision,
    )

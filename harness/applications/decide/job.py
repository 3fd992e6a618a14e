"""A decision: its folder, the slabs that are left, the witnesses, and the document.

runs/<time>_decide_<model>/      (a decision by bounds has possible.npy and reached.npy, see bounded.py)
    request.decide.json  the request; sufficient to resume the decision
    model.onnx           the model, byte for byte
    property/            the property file and the files that it names, byte for byte
    slabs/000.npz        one finished slab: the decisions in each of its regions
    decisions.npy        the set of decisions of each box, uint8
    witnesses.npz        of each violated box: its numbers, a code vector, and a float32 input with these codes
    report.html
    decide.json          written last and atomically; a folder without it is an unfinished decision
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from harness import __version__, model
from harness.applications.decide import again, code_network, slabs
from harness.applications.decide.code_network import CodeNetwork
from harness.applications.decide.engine import Engine
from harness.applications.decide.entries import (
    BOUNDS,
    FINISHED,
    SCHEMA,
    AxisEntry,
    BoundsDocument,
    CountsEntry,
    DecisionDocument,
    ModelEntry,
    PartitionEntry,
    PropertyEntry,
    RequestDocument,
    SlabEntry,
    StatedDocument,
)
from harness.applications.decide.partition import Partition, Sets, partition
from harness.applications.decide.property import MOST_DECISIONS, Property, read
from harness.core import strict_json
from harness.core.arrays import UNREADABLE
from harness.core.console import ProgressBar
from harness.core.document import durable, write_json
from harness.core.errors import RequestError, ToolError
from harness.core.file_digest import folder_sha256
from harness.core.installation import revision
from harness.core.safe_io import load_arrays, read_document
from harness.model.network import Network
from harness.runs.folder import RunFolder

REQUEST, DOCUMENT, REPORT = "request.decide.json", "decide.json", "report.html"
DECISIONS, WITNESSES, MODEL, PROPERTY, SLABS = "decisions.npy", "witnesses.npz", "model.onnx", "property", "slabs"
SAFE, VIOLATED, UNDECIDED = "safe", "violated", "undecided"
MILLION = 1_000_000
LARGEST_OF_JSON = 2**53
MOST_BOXES = 1 << 32
"""Boxes of a decision: their sets are in memory."""
MOST_CORE_HOURS = 1000.0
"""The greatest estimate of the time of one core, in hours, for which a decision starts."""
WITNESSES_AT_ONCE = 2000
MEASURED_BOXES = 4
"""Boxes in a measurement of the speed."""
MEASURED_S = 2.0
"""A measurement of the speed ends after this time, if not before."""
BOX_OF_A_MEASUREMENT = 2_000_000
"""Code vectors in each box of a measurement of the speed of a core."""
BOX_OF_A_GPU = 200_000_000
"""Code vectors in each box of a measurement of the speed of a GPU: many blocks of threads for each multiprocessor."""

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
Finished = TypeVar("Finished", DecisionDocument, BoundsDocument)
Progress = Callable[[str, int, int], AbstractContextManager[ProgressBar]]


@dataclass(frozen=True, eq=False)
class Stated:
    """A network with its property and boxes; `path` is the folder of the decision, or of all runs before it exists."""

    path: Path
    network: CodeNetwork
    stated: Property
    partition: Partition

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of a document that state it."""
        axes = [
            AxisEntry(
                name=axis.name,
                unit=axis.unit,
                wraps=axis.wraps,
                intervals=axis.intervals,
                codes=(codes.low, codes.high),
            )
            for axis, codes in zip(self.partition.axes, self.partition.codes, strict=True)
        ]
        stated, vectors = self.stated, self.partition.code_vectors
        exact = vectors if vectors <= LARGEST_OF_JSON else None
        return {
            "schema": SCHEMA,
            "model": ModelEntry(name=self.network.name, sha256=self.network.sha256),
            "property": PropertyEntry(
                kind=stated.kind, text=stated.text, sha256=stated.sha256, decisions=stated.names, ties=stated.rule.ties
            ),
            "partition": PartitionEntry(axes=axes, boxes=self.partition.boxes, code_vectors=exact),
        }


@dataclass(frozen=True, eq=False)
class Job(Stated):
    """A decision in its folder."""

    axis: int
    width: int
    on_gpu: bool = False

    @property
    def request(self) -> RequestDocument:
        """The request."""
        return RequestDocument(**self.entries, slab_axis=self.axis, slab_codes=self.width)

    @property
    def tasks(self) -> list[slabs.Task]:
        """All slabs."""
        return slabs.tasks(self.network, self.stated.rule, self.partition, self.axis, self.width, on_gpu=self.on_gpu)

    def finished(self, task: slabs.Task) -> slabs.Result | None:
        """Return the stored result of a slab; None if there is none, or if it is damaged."""
        try:
            regions, facts = load_arrays(self._file(task), "regions", "facts")
            codes, time_s, cpu_s, *by = facts
            result = slabs.Result(
                task.first, task.last, int(codes), regions, float(time_s), float(cpu_s), *map(str, by)
            )
        except UNREADABLE:
            return None
        whole = result.code_vectors == task.code_vectors and regions.shape == task.shape and regions.dtype == np.uint8
        return result if whole else None

    def regions(self, task: slabs.Task) -> Sets | None:
        """Return the stored decisions of a slab; None if there are none."""
        result = self.finished(task)
        return None if result is None else result.regions

    def recheck_kept(self, progress: Progress) -> str:
        """Decide random slabs of those that are finished again, and return the work.

        RequestError if one has other decisions.
        """
        kept = [task for task in self.tasks if self._file(task).exists() and self.finished(task)]
        if not kept:
            return "no slab is finished"
        wrong, work = again.slabs_differ(kept, self.regions, np.random.default_rng(), progress)
        if wrong:
            raise RequestError(
                f"{self.path}: the stored decisions of slab {wrong[0]} are not those of the network",
                "start a new decision",
            )
        return work

    def keep(self, task: slabs.Task, result: slabs.Result) -> None:
        """Store the result of a slab."""
        numbers = (result.code_vectors, result.time_s, result.cpu_s)
        facts = np.array([*numbers, result.kernel, result.engine_sha256, result.machine])
        with durable(self._file(task)) as file:
            np.savez_compressed(file, regions=result.regions, facts=facts)

    def _file(self, task: slabs.Task) -> Path:
        return self.path / SLABS / f"{task.first:03d}.npz"


def read_stated(path: Path, network: Network, property_file: Path, most: int = MOST_DECISIONS) -> Stated:
    """Return the boxes of a property with at most `most` decisions of a model; RequestError if they do not fit."""
    codes = code_network.of(network)
    stated = read(property_file, codes, most)
    if (boxes := math.prod(axis.intervals for axis in stated.axes)) > MOST_BOXES:
        raise RequestError(f"{property_file}: the property has {boxes:.3g} boxes", f"state at most {MOST_BOXES:,}")
    return Stated(
        path, codes, stated, partition(stated.axes, codes, network.normalisation if stated.physical else None)
    )


def planned(runs: Path, network: Network, property_file: Path) -> Job:
    """Return a decision without a folder; RequestError if its parts do not fit, or the engine has no room."""
    found = read_stated(runs, network, property_file)
    Engine(found.network, found.stated.rule)
    axis = slabs.slab_axis(found.partition)
    width = slabs.codes_of_a_slab(found.partition, axis)
    return Job(runs, found.network, found.stated, found.partition, axis, width)


def new(job: Job, network: Network, property_file: Path) -> Job:
    """Return a planned decision with its folder."""
    created = replace(job, path=new_folder(job, network, property_file))
    (created.path / SLABS).mkdir()
    write_json(created.path / REQUEST, created.request)
    return created


def new_folder(stated: Stated, network: Network, property_file: Path) -> Path:
    """Return a new folder with copies of the model and of the files of its property."""
    folder = RunFolder.create(stated.path, "decide", network.name, datetime.now(UTC)).path
    (folder / "chunks").rmdir()
    (folder / MODEL).write_bytes(network.onnx_bytes)
    for name in stated.stated.sha256:
        (folder / PROPERTY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(property_file.parent / name, folder / PROPERTY / name)
    return folder


def resumed(path: Path) -> Job:
    """Return the unfinished decision in a folder; RequestError if it is finished, or if its files have changed."""
    if (path / DOCUMENT).exists():
        raise RequestError(f"{path}: this decision is finished", f"its report is {path / 'report.html'}")
    return opened(path)


def opened(path: Path) -> Job:
    """Return the decision in a folder, finished or not; RequestError if its files do not fit its request."""
    if not (path / REQUEST).is_file():
        raise RequestError(f"{path}: not a folder of harness decide", "name a folder under runs/")
    if is_by_bounds(path):
        raise RequestError(f"{path}: a decision by bounds is not resumed", "harness verify checks it if it is finished")
    request = RequestDocument.read(path / REQUEST)
    found = reread(path, request)
    axis, width = request.slab_axis, request.slab_codes
    if not (0 <= axis < len(found.partition.axes) and 0 < width <= slabs.most_codes(found.partition, axis)):
        raise RequestError(f"{path}: {REQUEST} states no slabs of the domain", "start a new decision")
    job = Job(path, found.network, found.stated, found.partition, axis, width)
    require_same(path, request, job.request)
    return job


def is_by_bounds(path: Path) -> bool:
    """Return whether the decision in a folder is one by bounds."""
    try:
        return bool(read_document(path / REQUEST).get("method") == BOUNDS)
    except (OSError, ValueError):
        return False


def reread(path: Path, request: StatedDocument, most: int = MOST_DECISIONS) -> Stated:
    """Return the model and the property in the folder of a decision."""
    name = next(iter(request.property.sha256), "")
    if not name or Path(name).name != name:
        raise RequestError(f"{path}: {REQUEST} states {name!r}, which is no property file", "start a new decision")
    file = path / PROPERTY / name
    found = read_stated(path, model.load(path / MODEL), file, most)
    return replace(found, network=code_network.named(found.network, request.model.name))


def require_same(path: Path, request: StatedDocument, found: StatedDocument) -> None:
    """Require that the files of a decision give its request; RequestError otherwise."""
    if strict_json.text(request.to_json()) != strict_json.text(found.to_json()):
        raise RequestError(f"{path}: model or property have changed since the request", "start a new decision")


def run(job: Job, pool: Executor, at_once: int, progress: Progress) -> DecisionDocument:
    """Decide all slabs that are left, find the witnesses, and write the document.

    `at_once` is the number of slabs that wait or run in the pool.
    """
    began, clock = datetime.now(UTC), time.monotonic()
    boxes = np.zeros(job.partition.shape, np.uint8)
    entries: list[SlabEntry] = []
    times_s = []
    for result in _results(job, pool, at_once, progress):
        slabs.add_to_boxes(boxes, job.partition, result, job.axis)
        entries.append(entry_of(result))
        times_s.append(result.cpu_s)
    entries.sort(key=lambda entry: entry.first)
    save(job.path / DECISIONS, boxes)
    with progress("witnesses", int(np.count_nonzero(job.stated.forbidden(boxes))), 0) as bar:
        _save_witnesses(job, boxes, bar)
    counted = sum(entry.code_vectors for entry in entries)
    if counted != job.partition.code_vectors or not boxes.all():
        raise AssertionError(f"{counted} code vectors were decided, the domain has {job.partition.code_vectors}")
    written_once = {
        "harness": {"version": __version__, "revision": revision()},
        "began": began.isoformat(timespec="seconds"),
        "wall_s": round(time.monotonic() - clock, 1),
    }
    return document_of(job, boxes, entries, math.fsum(times_s), written_once)


def _results(job: Job, pool: Executor, at_once: int, progress: Progress) -> Iterator[slabs.Result]:
    """Yield the results of all slabs, the stored ones first."""
    left = []
    for task in job.tasks:
        stored = job.finished(task)
        if stored is not None:
            yield stored
        else:
            left.append(task)
    total = job.partition.code_vectors // MILLION
    done = total - sum(task.code_vectors for task in left) // MILLION
    with progress("million code vectors", total, done) as bar:
        by_first = {task.first: task for task in left}
        for result in completed(pool, slabs.decide, left, at_once):
            job.keep(by_first[result.first], result)
            bar.advance(result.code_vectors // MILLION)
            yield result


def completed(
    pool: Executor, function: Callable[[Task], Outcome], tasks: Iterable[Task], at_once: int
) -> Iterator[Outcome]:
    """Yield the results of a function for tasks in the order of their ends; at most `at_once` wait or run."""
    waiting = iter(tasks)
    running = {pool.submit(function, task) for task in itertools.islice(waiting, at_once)}
    try:
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(function, task) for task in itertools.islice(waiting, len(done))}
            for future in done:
                yield future.result()
    finally:
        for future in running:
            future.cancel()


def save(path: Path, array: npt.NDArray[np.generic]) -> None:
    """Write an array completely, or not at all."""
    with durable(path) as file:
        np.save(file, array)


def _save_witnesses(job: Job, boxes: Sets, bar: ProgressBar) -> None:
    """Find, for each violated box, a code vector with a forbidden decision, and an input in the box that has it.

    Each box is searched in one slab that has such a code vector.
    """
    left = witness_sets(job.stated, boxes)
    engine = Engine(job.network, job.stated.rule)
    numbers, codes = [np.empty((0, boxes.ndim), np.int64)], [np.empty((0, boxes.ndim), np.uint8)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for task in job.tasks if left.any() else ():
            result = job.finished(task)
            if result is None:
                raise ToolError(f"{job.path}: slab {task.first} was stored and cannot be read", "use --resume")
            of_slab = np.zeros_like(boxes)
            slabs.add_to_boxes(of_slab, job.partition, result, job.axis)
            found = np.argwhere(of_slab & left).astype(np.int64)
            wanted = (of_slab & left)[tuple(found.T)]
            find = functools.partial(_find_all, engine, job, task)
            parts = [slice(start, start + WITNESSES_AT_ONCE) for start in range(0, len(found), WITNESSES_AT_ONCE)]
            for part in threads.map(find, [found[part] for part in parts], [wanted[part] for part in parts]):
                codes.append(part)
                bar.advance(len(part))
            numbers.append(found)
            left[tuple(found.T)] = 0
    all_numbers, all_codes = np.concatenate(numbers), np.concatenate(codes)
    order = np.lexsort(all_numbers.T[::-1])
    all_numbers, all_codes = all_numbers[order], all_codes[order]
    inputs = job.partition.inputs(all_numbers, all_codes, job.network)
    with durable(job.path / WITNESSES) as file:
        np.savez_compressed(file, boxes=all_numbers.astype(np.uint16), codes=all_codes, inputs=inputs)


def _find_all(
    engine: Engine, job: Job, task: slabs.Task, numbers: npt.NDArray[np.int64], wanted: Sets
) -> npt.NDArray[np.uint8]:
    """Return a code vector of the slab for each of these boxes, uint8 (n, axes)."""
    codes = np.empty(numbers.shape, np.uint8)
    for index, (box, sets) in enumerate(zip(numbers, wanted, strict=True)):
        codes[index] = _find(engine, job, task, [int(number) for number in box], int(sets))
    return codes


def _find(engine: Engine, job: Job, task: slabs.Task, box: list[int], wanted: int) -> npt.NDArray[np.uint8]:
    for low, high in job.partition.code_boxes(box):
        low[job.axis], high[job.axis] = max(low[job.axis], task.first), min(high[job.axis], task.last)
        if low[job.axis] > high[job.axis]:
            continue
        found = engine.find([*low], [*(high - low + 1)], wanted)
        if found is not None:
            return found
    raise AssertionError(f"box {box} has no decision of the set {wanted} in the slab of code {task.first}")


def witness_sets(stated: Property, boxes: Sets) -> Sets:
    """Return the decisions of which a witness is wanted: the forbidden ones; of several allowed ones all but one."""
    forbidden = stated.forbidden(boxes)
    return forbidden & (forbidden - 1) if stated.allowed is None else forbidden


def entry_of(result: slabs.Result) -> SlabEntry:
    """Return the entry of a slab."""
    return SlabEntry(
        first=result.first,
        last=result.last,
        code_vectors=result.code_vectors,
        decisions_sha256=result.sha256,
        time_s=round(result.time_s, 2),
        kernel=result.kernel,
        engine_sha256=result.engine_sha256,
        machine=result.machine,
    )


def counts_of(stated: Property, boxes: Sets) -> CountsEntry:
    """Return the number of boxes by result."""
    violated, undecided = int(np.count_nonzero(stated.forbidden(boxes))), int(np.count_nonzero(boxes == 0))
    by_decision = {name: int(np.count_nonzero(boxes & (1 << index))) for index, name in enumerate(stated.names)}
    safe = boxes.size - violated - undecided
    return CountsEntry(safe=safe, violated=violated, undecided=undecided, by_decision=by_decision)


def verdict_of(counts: CountsEntry) -> str:
    """Return the verdict that follows from the number of boxes by result."""
    return VIOLATED if counts.violated else UNDECIDED if counts.undecided else SAFE


def document_of(
    job: Job, boxes: Sets, entries: Sequence[SlabEntry], cpu_s: float, written_once: Mapping[str, Any]
) -> DecisionDocument:
    """Return the document that follows from the files of a decision, and from what is written once.

    `boxes` are the sets of all boxes, `entries` those of all slabs in order, which took `cpu_s` together.
    """
    counts, counted = counts_of(job.stated, boxes), sum(entry.code_vectors for entry in entries)
    return DecisionDocument(
        **(dict(job.request) | {"schema_number": FINISHED}),
        **written_once,
        verdict=verdict_of(counts),
        counts=counts,
        slabs=entries,
        decisions_sha256=hashlib.sha256(boxes.tobytes()).hexdigest(),
        witnesses_sha256=hashlib.sha256((job.path / WITNESSES).read_bytes()).hexdigest(),
        cpu_s=round(cpu_s, 1),
        code_vectors_per_s=round(counted / max(cpu_s, 1e-3)),
    )


def write(job: Stated, document: Finished, page: str) -> Finished:
    """Write the page and, after everything else, the document, which makes the decision finished; return it."""
    for left in job.path.rglob("*.part"):
        left.unlink()
    (job.path / REPORT).write_text(page, encoding="utf-8")
    document = document.model_copy(update={"files": folder_sha256(job.path)})
    write_json(job.path / DOCUMENT, document)
    return document


def files_of(document: Mapping[str, Any]) -> set[str]:
    """Return the names of the files in the folder of a finished decision, without the document."""
    sets = {f"{SLABS}/{slab['first']:03d}.npz" for slab in document.get("slabs", ())} | {DECISIONS}
    if document["method"] == BOUNDS:
        sets = {"possible.npy", "reached.npy"}
    stated = {f"{PROPERTY}/{name}" for name in document["property"]["sha256"]}
    return {REQUEST, MODEL, WITNESSES, REPORT} | stated | sets


def measured_speed(job: Job) -> float:
    """Return the code vectors that one core, or the GPU, decides in a second, measured on boxes of the domain.

    The measurement ends after MEASURED_BOXES, after as many code vectors as the domain has, or after MEASURED_S.
    """
    engine, random = slabs.engine_of(job.network, job.stated.rule, on_gpu=job.on_gpu), np.random.default_rng(0)
    counts, box = np.array([codes.count for codes in job.partition.codes]), BOX_OF_A_MEASUREMENT
    clock = time.thread_time
    if job.on_gpu:
        clock, box = time.monotonic, BOX_OF_A_GPU
    side = np.minimum(counts, max(1, round(box ** (1 / max(1, len(counts) - 1)))))
    side[job.axis] = 1
    done, took_s = 0, 0.0
    for _ in range(MEASURED_BOXES):
        low = [
            each.low + int(random.integers(0, room + 1))
            for each, room in zip(job.partition.codes, counts - side, strict=True)
        ]
        segments = [np.zeros(256, np.uint16)] * len(counts)
        began_s = clock()
        done += engine.decide(low, [*side], segments, (1,) * len(counts))[1]
        took_s += clock() - began_s
        if took_s > MEASURED_S or done >= job.partition.code_vectors:
            break
    return done / max(took_s, 1e-9)


def require_feasible(needed: str, core_s: float) -> None:
    """Require that a decision takes at most MOST_CORE_HOURS of one core; RequestError otherwise."""
    if core_s > MOST_CORE_HOURS * 3600:
        raise RequestError(
            f"{needed}: about {core_s / 3600:,.3g} hours of one core, the limit is {MOST_CORE_HOURS:,.0f}",
            "state fewer or smaller boxes, or use --bounds, which may leave some undecided",
        )

"""The verification of a finished decision: the certificate, the witnesses, and random slabs and boxes decided again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.applications.decide import again, dense, slabs
from harness.applications.decide.engine import Engine
from harness.applications.decide.entries import BoundsDocument, CountsEntry, DecisionDocument, StatedDocument
from harness.applications.decide.job import (
    DECISIONS,
    DOCUMENT,
    MODEL,
    WITNESSES,
    Job,
    Progress,
    Stated,
    counts_of,
    document_of,
    entry_of,
    opened,
    verdict_of,
    witness_sets,
)
from harness.applications.decide.partition import AnySets, Sets
from harness.applications.decide.property import type_of_sets
from harness.core import strict_json
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.safe_io import load_array, load_arrays
from harness.model import load
from harness.operators.arg_extremum import ArgExtremum
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference

BOXES = 100
"""Random boxes of which ONNX Runtime computes code vectors, at least."""
CODES_FROM_A_BOX = 2_000
"""Random code vectors of each of these boxes."""
WRITTEN_ONCE = ("harness", "began", "wall_s", "files")
"""Entries of a decision that follow from nothing else, and the hashes of its files, which have a claim of their own."""


@dataclass(frozen=True)
class Finding:
    """A claim of a decision, and whether it holds."""

    claim: str
    holds: bool
    finding: str


def check(path: Path, boxes: int, seed: int, progress: Progress) -> Iterator[Finding]:
    """Yield the claims of a finished decision; RequestError if the folder has none."""
    if not (path / DOCUMENT).is_file():
        raise RequestError(f"{path}: no finished decision", f"continue it: harness decide --resume {path}")
    document, job = DecisionDocument.read(path / DOCUMENT), opened(path)
    yield of_request(document, job.request)
    decisions = stored(path / DECISIONS)
    if decisions.shape != job.partition.shape or decisions.dtype != np.uint8:
        yield Finding("decisions", False, f"{DECISIONS} has no set for each box")
        return
    yield from _certificate(job, document, decisions, progress)
    counts = counts_of(job.stated, decisions)
    yield Finding("counts", counts == document.counts, f"{counts.safe:,} safe, {counts.violated:,} violated")
    yield of_verdict(document, counts)
    yield from _witnesses(job, document, decisions)
    random = np.random.default_rng(seed)
    wrong, work = again.slabs_differ(job.tasks, job.regions, random, progress)
    differ = f"{len(wrong)} slabs differ, the first is {wrong[0]}; " if wrong else ""
    yield Finding("slabs again", not wrong, differ + work)
    yield from _boxes_again(job, decisions, boxes, random, progress)


def of_request(document: StatedDocument, request: StatedDocument) -> Finding:
    """Return whether a document states the request of its folder."""
    asked, stated = request.to_json() | {"schema": document.schema_number}, document.to_json()
    same = strict_json.text({key: stated.get(key) for key in asked}) == strict_json.text(asked)
    return Finding("request", same, "decide.json states this model, property and domain")


def of_verdict(document: DecisionDocument | BoundsDocument, counts: CountsEntry) -> Finding:
    """Return whether the verdict follows from the number of boxes by result."""
    return Finding("verdict", document.verdict == verdict_of(counts), document.verdict)


def _certificate(job: Job, document: DecisionDocument, decisions: Sets, progress: Progress) -> Iterator[Finding]:
    tasks, union, wrong = job.tasks, np.zeros_like(decisions), []
    entries, times_s = [], []
    stated = {(slab.first, slab.last): slab for slab in document.slabs}
    with progress("slabs", len(tasks), 0) as bar:
        for task in tasks:
            slab, result = stated.pop((task.first, task.last), None), job.finished(task)
            if slab is None or result is None:
                wrong.append(f"slab {task.first} is missing")
            elif result.sha256 != slab.decisions_sha256 or slab.code_vectors != task.code_vectors:
                wrong.append(f"slab {task.first} has other decisions or another number of codes")
            if result is not None:
                slabs.add_to_boxes(union, job.partition, result, job.axis)
                entries.append(entry_of(result))
                times_s.append(result.cpu_s)
            bar.advance(1)
    wrong += [f"slab {first} is none of the domain" for first, _ in stated]
    yield Finding("slabs", not wrong, "; ".join(wrong[:3]) or f"{len(tasks)} slabs have the stated hashes")
    codes, total = sum(entry.code_vectors for entry in entries), job.partition.code_vectors
    yield Finding("code vectors", codes == total, f"{codes:,} decided, {total:,} in the domain")
    same = np.array_equal(union, decisions)
    hashed = hashlib.sha256(decisions.tobytes()).hexdigest() == document.decisions_sha256
    yield Finding("decisions", same and hashed, "the decisions of the boxes are those of the slabs")
    written_once = {key: getattr(document, key) for key in WRITTEN_ONCE}
    given = document_of(job, decisions, entries, math.fsum(times_s), written_once).to_json()
    other = [
        key for key, value in document.to_json().items() if strict_json.text(value) != strict_json.text(given[key])
    ]
    shown = (
        f"the files give another value of {', '.join(other)}" if other else "they follow from the files of the folder"
    )
    yield Finding("entries", not other, shown)


def _witnesses(job: Job, document: DecisionDocument, decisions: Sets) -> Iterator[Finding]:
    stated, boxes, codes, inputs = witnesses(job, document)
    wanted = witness_sets(job.stated, decisions)
    each_once = np.array_equal(np.argwhere(wanted), boxes)
    yield Finding("witnesses", stated and each_once, f"{len(boxes):,} violated boxes have a witness each")
    if not each_once or not len(boxes):
        return
    found = Engine(job.network, job.stated.rule).each(codes)
    violating = bool((found & wanted[tuple(boxes.T)]).all())
    quantised = np.array_equal(job.network.codes(inputs), codes)
    expected = job.partition.inputs(boxes, codes, job.network)
    inside = np.array_equal(expected.view(np.uint32), inputs.view(np.uint32))
    shown = "the second kernel finds the violation of each, at an input within its box"
    yield Finding("violations", violating and quantised and inside, shown)


def _boxes_again(
    job: Job, decisions: Sets, boxes: int, random: np.random.Generator, progress: Progress
) -> Iterator[Finding]:
    evaluator, runtime = again.Evaluator(job.network, job.stated.rule), Runtime(job)
    numbers, whole = again.random_boxes(job.partition, boxes, random)
    wrong, wrong_runtime, decided, compared = [], [], 0, 0
    with progress("random boxes", len(numbers), 0) as bar:
        for index, intervals in enumerate(job.partition.intervals(numbers)):
            box = tuple(map(int, intervals))
            runs = job.partition.code_boxes(box)
            volume = sum(math.prod(map(int, high - low + 1)) for low, high in runs)
            if index < whole and volume <= again.ENGINE_CODES:
                decided += 1
                if _set_of(evaluator, runs) != decisions[box]:
                    wrong.append(box)
            if index < boxes:
                codes = _sample(runs, CODES_FROM_A_BOX, random)
                sets = dense.decisions(job.stated.rule, dense.scores(job.network, codes), decisions.dtype)
                compared += len(codes)
                if not np.array_equal(runtime.decisions(codes), sets) or (sets & ~decisions[box]).any():
                    wrong_runtime.append(box)
            bar.advance(1)
    total = job.partition.boxes
    shown = f"{decided:,} of {total:,} boxes: {evaluator.work}; {again.detection(decided, total)}"
    yield Finding("boxes again", not wrong, _shown(wrong) or shown)
    shown = f"{compared:,} random code vectors of {min(boxes, total)} boxes, through the model"
    yield Finding("ONNX Runtime", not wrong_runtime, _shown(wrong_runtime) or shown)


def _set_of(evaluator: again.Evaluator, runs: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]) -> int:
    """Return the decisions of all code vectors of these runs of codes."""
    decided, axes = 0, len(runs[0][0])
    one_region = [np.zeros(256, np.uint16)] * axes, (1,) * axes
    for low, high in runs:
        decided |= int(evaluator.decide(low.tolist(), (high - low + 1).tolist(), *one_region).flat[0])
    return decided


def _sample(
    runs: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]], most: int, random: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Return random code vectors of these runs of codes, uint8 (n, axes), at most `most` and as many as there are."""
    low, high = (np.stack(ends) for ends in zip(*runs, strict=True))
    volumes = np.prod((high - low + 1).astype(np.float64), axis=1)
    count = int(min(most, volumes.sum()))
    chosen = random.choice(len(runs), count, p=volumes / volumes.sum())
    codes: npt.NDArray[np.uint8] = random.integers(low[chosen], high[chosen] + 1).astype(np.uint8)
    return codes


class Runtime:
    """The decisions of ONNX Runtime for code vectors: an input for each code goes through the whole model."""

    def __init__(self, job: Stated) -> None:
        self._job, self._model = job, load(job.path / MODEL)
        self._session = OnnxRuntimeReference(self._model, 2)

    @cached_property
    def _inputs(self) -> list[npt.NDArray[np.float32]]:
        return [_input_of_each_code(self._job, axis) for axis in range(self._job.network.inputs)]

    def decisions(self, codes: npt.NDArray[np.uint8]) -> AnySets:
        """Return the set of decisions of each code vector, (n,)."""
        vectors = np.stack([values[codes[:, axis]] for axis, values in enumerate(self._inputs)], axis=1)
        return self.of_inputs(np.ascontiguousarray(vectors, np.float32))

    def of_inputs(self, inputs: npt.NDArray[np.float32]) -> AnySets:
        """Return the set of decisions of each input, float32 (n, inputs), by ONNX Runtime."""
        return self._of(self._session.activations(inputs))

    def by_specification(self, inputs: npt.NDArray[np.float32]) -> AnySets:
        """Return the set of decisions of each input, float32 (n, inputs), by the exact specification of each layer."""
        return self._of(SpecificationReference(self._model).activations(inputs))

    def _of(self, activations: Sequence[Array]) -> AnySets:
        layers = list(zip(self._model.layers, activations, strict=True))
        scores = layers[-2 if isinstance(layers[-1][0], ArgExtremum) else -1][1]
        return dense.decisions(self._job.stated.rule, scores, type_of_sets(len(self._job.stated.names)))


def _input_of_each_code(job: Stated, axis: int) -> npt.NDArray[np.float32]:
    """Return an input with each code of an axis, float32 (256,); NaN for codes outside the domain."""
    codes, values = job.partition.codes[axis], np.full(256, np.nan, np.float32)
    for code in range(codes.low, codes.high + 1):
        inside = np.flatnonzero((codes.first <= code) & (code <= codes.last))
        values[code] = job.partition.input_of(axis, int(inside[0]), code, job.network)
    return values


def stored(path: Path, *names: str) -> Any:
    """Return a stored array, or those of these names; RequestError if the file cannot be read."""
    try:
        return load_arrays(path, *names) if names else np.array(load_array(path))
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot read {path}: {error}", "copy the folder again from its source") from error


def witnesses(job: Stated, document: DecisionDocument | BoundsDocument) -> tuple[bool, Any, Any, Any]:
    """Return whether the witnesses have the stated hash; their boxes, codes and inputs, (n, axes) each.

    RequestError for arrays of other types or shapes, and for boxes outside the domain.
    """
    path = job.path / WITNESSES
    boxes, codes, inputs = stored(path, "boxes", "codes", "inputs")
    types = boxes.dtype == np.uint16 and codes.dtype == np.uint8 and inputs.dtype == np.float32
    shapes = boxes.shape == codes.shape == inputs.shape == (len(boxes), len(job.partition.axes))
    if not types or not shapes or (boxes >= job.partition.shape).any():
        raise RequestError(
            f"{path}: its boxes, codes and inputs do not fit the domain", "copy it again from its source"
        )
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return sha256 == document.witnesses_sha256, boxes.astype(np.int64), codes, inputs


def _shown(wrong: list[tuple[int, ...]]) -> str:
    return f"{len(wrong)} boxes differ, the first is {wrong[0]}" if wrong else ""

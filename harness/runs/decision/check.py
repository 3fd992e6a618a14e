"""The verification of a finished decision: the certificate, and random boxes by a second kernel and ONNX Runtime."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.decide.engine import Engine
from harness.analysis.decide.partition import AnySets, Sets
from harness.analysis.decide.property import type_of_sets
from harness.core import strict_json
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.safe_io import load_array, load_arrays
from harness.model import load
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference
from harness.runs.decision import slabs
from harness.runs.decision.entries import BoundsDocument, CountsEntry, DecisionDocument, StatedDocument
from harness.runs.decision.job import (
    DECISIONS,
    DOCUMENT,
    MODEL,
    WITNESSES,
    Job,
    Progress,
    Stated,
    counts_of,
    opened,
    verdict_of,
    witness_sets,
)

BOXES = 100
CODES = 1_000_000
"""Code vectors of the random boxes: enough boxes are taken to have about as many."""
CODES_FROM_A_BOX = 20_000
"""Code vectors of a random box that ONNX Runtime computes too; the second kernel computes all of them."""


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
    yield from _again(job, decisions, boxes, np.random.default_rng(seed), progress)


def of_request(document: StatedDocument, request: StatedDocument) -> Finding:
    """Return whether a document states the request of its folder."""
    asked, stated = request.to_json() | {"schema": document.schema_number}, document.to_json()
    same = strict_json.text({key: stated.get(key) for key in asked}) == strict_json.text(asked)
    return Finding("request", same, "decide.json states this model, property and domain")


def of_verdict(document: DecisionDocument | BoundsDocument, counts: CountsEntry) -> Finding:
    """Return whether the verdict follows from the number of boxes by result."""
    return Finding("verdict", document.verdict == verdict_of(counts), document.verdict)


def _certificate(job: Job, document: DecisionDocument, decisions: Sets, progress: Progress) -> Iterator[Finding]:
    tasks, union, wrong, codes = job.tasks, np.zeros_like(decisions), [], 0
    stated = {(slab.first, slab.last): slab for slab in document.slabs}
    with progress("slabs", len(tasks), 0) as bar:
        for task in tasks:
            slab, result = stated.pop((task.first, task.last), None), job.finished(task)
            if slab is None or result is None:
                wrong.append(f"slab {task.first} is missing")
            elif result.sha256 != slab.decisions_sha256 or slab.code_vectors != task.code_vectors:
                wrong.append(f"slab {task.first} has other decisions or another number of codes")
            if result is not None:
                codes += result.code_vectors
                slabs.add_to_boxes(union, job.partition, result, job.axis)
            bar.advance(1)
    wrong += [f"slab {first} is none of the domain" for first, _ in stated]
    yield Finding("slabs", not wrong, "; ".join(wrong[:3]) or f"{len(tasks)} slabs have the stated hashes")
    total = job.partition.code_vectors
    yield Finding("code vectors", codes == total, f"{codes:,} decided, {total:,} in the domain")
    same = np.array_equal(union, decisions)
    hashed = hashlib.sha256(decisions.tobytes()).hexdigest() == document.decisions_sha256
    yield Finding("decisions", same and hashed, "the decisions of the boxes are those of the slabs")


def _witnesses(job: Job, document: DecisionDocument, decisions: Sets) -> Iterator[Finding]:
    stated, boxes, codes, inputs = witnesses(job.path, document)
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


def _again(job: Job, decisions: Sets, boxes: int, random: np.random.Generator, progress: Progress) -> Iterator[Finding]:
    engine, runtime = Engine(job.network, job.stated.rule), Runtime(job)
    chosen = random.choice(job.partition.boxes, min(boxes, job.partition.boxes), replace=False)
    wrong_kernel, wrong_runtime, codes, compared, checked = [], [], 0, 0, 0
    with progress("random boxes", len(chosen), 0) as bar:
        for number in chosen:
            box = tuple(int(index) for index in np.unravel_index(number, job.partition.shape))
            if checked and codes + volume(job, box) > CODES:
                bar.advance(1)
                continue
            vectors, checked = code_vectors(job, box), checked + 1
            sets = engine.each(vectors)
            codes += len(vectors)
            if np.bitwise_or.reduce(sets) != decisions[box]:
                wrong_kernel.append(box)
            sample = random.choice(len(vectors), min(CODES_FROM_A_BOX, len(vectors)), replace=False)
            if not np.array_equal(runtime.decisions(vectors[sample]), sets[sample]):
                wrong_runtime.append(box)
            compared += len(sample)
            bar.advance(1)
    yield Finding(
        "second kernel", not wrong_kernel, _shown(wrong_kernel) or f"{checked} random boxes, {codes:,} code vectors"
    )
    yield Finding(
        "ONNX Runtime",
        not wrong_runtime,
        _shown(wrong_runtime) or f"{compared:,} of these code vectors, through the model",
    )


def code_vectors(job: Job, box: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Return all code vectors of a box, uint8 (n, axes)."""
    found = []
    for low, high in job.partition.code_boxes(box):
        ranges = [np.arange(first, last + 1, dtype=np.uint8) for first, last in zip(low, high, strict=True)]
        found.append(np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges)))
    return np.concatenate(found)


def volume(job: Job, box: tuple[int, ...]) -> int:
    """Return the number of code vectors of a box."""
    return sum(int(np.prod(high - low + 1)) for low, high in job.partition.code_boxes(box))


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
        scores = layers[-1 if layers[-1][0].choice() is None else -2][1]
        return _decisions(self._job, scores)


def _decisions(job: Stated, scores: npt.NDArray[np.generic]) -> AnySets:
    """Return the decisions of scores, (n, outputs), by the rule of the property, in numpy."""
    rule, values, kind = job.stated.rule, scores.astype(np.float64), type_of_sets(len(job.stated.names))
    if rule.half_spaces:
        found = np.zeros(len(values), kind)
        for decision, half_space in enumerate(rule.half_spaces):
            holds = np.ones(len(values), np.bool_)
            for each in half_space:
                right = values[:, each.right] if each.right is not None else float(each.constant)
                left = values[:, each.left]
                least, most = (right, left) if not each.at_most else (left, right)
                holds &= least < most if each.strict else least <= most
            found |= holds.astype(kind) << kind.type(decision)
        found[found == 0] = 1 << len(rule.half_spaces)
        return found
    best = values == (values.max(axis=1) if rule.greatest else values.min(axis=1))[:, None]
    if rule.ties != "all":
        place = best.argmax(axis=1) if rule.ties == "first" else best.shape[1] - 1 - best[:, ::-1].argmax(axis=1)
        best = np.arange(best.shape[1]) == place[:, None]
    sets: AnySets = (best.astype(kind) << np.arange(best.shape[1], dtype=kind)).sum(axis=1, dtype=kind)
    return sets


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


def witnesses(path: Path, document: DecisionDocument | BoundsDocument) -> tuple[bool, Any, Any, Any]:
    """Return whether the witnesses have the stated hash; their boxes, codes and inputs, (n, axes) each."""
    boxes, codes, inputs = stored(path / WITNESSES, "boxes", "codes", "inputs")
    sha256 = hashlib.sha256((path / WITNESSES).read_bytes()).hexdigest()
    return sha256 == document.witnesses_sha256, boxes.astype(np.int64), codes, inputs


def _shown(wrong: list[tuple[int, ...]]) -> str:
    return f"{len(wrong)} boxes differ, the first is {wrong[0]}" if wrong else ""

"""Results of a run: dumps compared again, reference computed again, and the verdict that follows."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.analysis import local
from harness.analysis.compare import compare
from harness.analysis.local import LocalResult
from harness.analysis.proof_document import ProofDocument
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.core.text import plural
from harness.execution import dumps
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import LayerCoverage, Met, Quantity
from harness.plan.conformance import ConformanceEntry
from harness.plan.plan import Plan
from harness.reference import Reference, SpecificationReference, engines, stream
from harness.reference.coverage import Coverage
from harness.reference.stimuli import Stimuli
from harness.runs import accuracy as labels
from harness.runs import chunks, tracing
from harness.runs.chunks import Chunk
from harness.runs.counterexample import FILE, case, first_difference, has_none
from harness.runs.folder import ChunkRecord, RunFolder
from harness.runs.verdict import Observations, changed_vectors
from harness.runs.verdict import results as results_of
from harness.runs.verification.claims import (
    ContradictionError,
    Progress,
    UncheckedError,
    array_of,
    listed,
    require_equal,
    reworded,
)
from harness.runs.verification.folder import RUN, Evidence

LAST_DIGITS = 1e-9
"""Ratios are computed in float64 sums, whose order is that of the processor's library."""


@dataclass(frozen=True)
class Outputs:
    """The dumps of a run's plan over its vectors."""

    evidence: Evidence
    plan: Plan
    vectors: Stimuli

    @property
    def layers(self) -> Mapping[int, Layer]:
        """The layers with dumps by their indices: those whose activations are kept until an execution ends."""
        return {index: layer for index, layer in enumerate(self.plan.network.layers) if self.plan.kept[index]}

    def kept(self, kind: str, record: ChunkRecord) -> dict[int, Array]:
        """Return the dumps of one chunk that the folder has, `reference` or `target`, by layer.

        BoardError if one has not the length, header and SHA-256 that the chunk's record says.
        """
        hashes = record.reference_sha256 if kind == "reference" else record.target_sha256
        found = {}
        for index, layer in self.layers.items():
            path = self.evidence.path / kind / f"{record.index:05}" / dumps.file_name(index, layer)
            if path.exists():
                found[index] = dumps.read(path, layer, record.stop - record.start, hashes[index])
        return found


def cover(outputs: Outputs) -> str:
    """Check that the chunks have each vector once, and that every activation of every layer kept was compared."""
    layers, count = outputs.plan.network.layers, outputs.vectors.count
    expected = tuple(chunks.cut(count, outputs.evidence.run["chunk"]))
    found = tuple(Chunk(record.index, record.start, record.stop) for record in outputs.evidence.records)
    for one, other in zip(found, expected, strict=False):
        if one != other:
            raise ContradictionError(f"chunk {one.index} has vectors {one.start} to {one.stop}, expected are {other}")
    if len(found) != len(expected):
        raise ContradictionError(f"{len(found)} chunks are here, of {len(expected)}")
    names = {path.name for path in (outputs.evidence.path / "chunks").iterdir()}
    if others := names - {f"{chunk.index:05}.json" for chunk in expected}:
        raise ContradictionError(f"chunks/ has unknown files: {listed(others)}")
    for chunk, record in zip(found, outputs.evidence.records, strict=True):
        compared = [layer.compared for layer in record.layers]
        sizes = [layer.size * is_kept for layer, is_kept in zip(layers, outputs.plan.kept, strict=True)]
        require_equal(f"chunk {chunk.index}, compared,", compared, [chunk.size * size for size in sizes])
    _require_no_other_dumps(outputs, found)
    contents = f"{count:,} vectors, {plural(len(outputs.layers), 'layer')} each"
    return f"{plural(len(found), 'chunk')} of {contents}, without duplicates or gaps"


def _require_no_other_dumps(outputs: Outputs, found: Sequence[Chunk]) -> None:
    """Require that every dump belongs to a recorded chunk and layer."""
    layers = {dumps.file_name(index, layer) for index, layer in outputs.layers.items()}
    expected = {f"{chunk.index:05}/{name}" for chunk in found for name in layers}
    for kind in ("reference", "target"):
        folder = outputs.evidence.path / kind
        here = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
        if others := here - expected:
            raise ContradictionError(f"{kind} has dumps of no chunk, or of no layer: {listed(others)}")


def again(outputs: Outputs, progress: Progress) -> str:
    """Compare every dump in the folder with its reference; the others are compared by their hashes.

    If the plan has bounded layers, the specification is evaluated again for the inputs that each layer had.
    """
    activations = files = 0
    comparison = local.of_plan(outputs.plan)
    with progress("comparing dumps again", outputs.vectors.count) as bar:
        for record in outputs.evidence.records:
            expected, actual = outputs.kept("reference", record), outputs.kept("target", record)
            _require_kept(outputs, record, expected, actual)
            near = None
            if comparison:
                vectors, references = outputs.vectors.chunk(record.start, record.stop), list(expected.values())
                right, near = comparison.judge(vectors, references, actual, record.start)
                expected = dict(enumerate(right))
            for layer, dump in actual.items():
                found = compare(expected[layer], dump, record.start)
                recorded = dataclasses.asdict(record.layers[layer]) | {"own": 0}
                require_equal(f"chunk {record.index}, layer {layer},", recorded, dataclasses.asdict(found))
                activations += dump.size
            require_equal(f"chunk {record.index}, local,", _entries(record.local), _entries(near), close=LAST_DIGITS)
            files += len(actual)
            bar.advance(record.stop - record.start)
    where = "the specification's for their own inputs, but for their bounds," if comparison else "the reference's"
    return f"{files:,} dumps, {activations:,} activations, differ from {where} exactly where the chunks state it"


def _entries(result: LocalResult | None) -> dict[str, Any] | None:
    return None if result is None else dataclasses.asdict(result)


def _require_kept(
    outputs: Outputs, record: ChunkRecord, expected: Mapping[int, Array], actual: Mapping[int, Array]
) -> None:
    """Require all dumps that had to be fetched; others had the reference's hash and differ nowhere."""
    if expected.keys() != actual.keys():
        only = sorted(expected.keys() ^ actual.keys())
        raise ContradictionError(f"chunk {record.index}: of layer {only[0]} only one dump of two is here")
    for layer, result in enumerate(record.layers):
        same = record.reference_sha256[layer] == record.target_sha256[layer]
        if layer in outputs.layers and layer not in actual and (outputs.evidence.run["fetch"] == "all" or not same):
            raise ContradictionError(f"chunk {record.index}: the dumps of layer {layer} are not here")
        if same and result.differing and record.local is None:
            raise ContradictionError(f"chunk {record.index}: layer {layer} differs, yet its dumps have one hash")
    _require_deployed(outputs, record)


def _require_deployed(outputs: Outputs, record: ChunkRecord) -> None:
    """Require that a chunk of a proof ran in deployment mode; its outputs differ exactly if their hash does."""
    deployed, name = record.deployed, f"chunk {record.index}, deployment mode"
    wanted = outputs.evidence.request["floats"] is not None
    if "deployed" not in outputs.evidence.run:
        raise UncheckedError(f"{name}: {RUN} does not know it: written by an older version")
    if (deployed is not None) is not wanted:
        raise ContradictionError(f"{name}: {'it did not run' if wanted else 'it ran, and no proof asks for it'}")
    if deployed is None:
        return
    width = outputs.plan.network.layers[-1].size
    require_equal(f"{name}, compared,", deployed.result.compared, (record.stop - record.start) * width)
    if (deployed.sha256 == record.reference_sha256[-1]) is bool(deployed.result.differing):
        raise ContradictionError(f"{name}: its hash and its result contradict each other")


@dataclass(frozen=True)
class Recomputed:
    """The number of vectors for which the reference was computed again, and the coverage if these were all.

    `engines` are those that computed it.
    """

    vectors: int
    covered: tuple[LayerCoverage, ...] | None
    engines: tuple[str, ...]


def recompute(outputs: Outputs, how_much: str, progress: Progress) -> Recomputed:
    """Compute the reference again, of `all` chunks or a random `chunk`; check hashes and records.

    ReferenceFailed if it cannot be trusted on this machine.
    """
    reference = reference_of(outputs.evidence, outputs.plan.network)
    records = outputs.evidence.records if how_much == "all" else [secrets.choice(outputs.evidence.records)]
    coverage, done = Coverage(outputs.plan.network), 0
    with progress("computing the reference again", sum(record.stop - record.start for record in records)) as bar:
        for record in records:
            vectors = outputs.vectors.chunk(record.start, record.stop)
            activations = reference.activations(vectors)
            _require_follows(outputs, record, vectors, activations)
            if how_much == "all":
                coverage.add(vectors, activations)
            done += len(vectors)
            bar.advance(len(vectors))
    return Recomputed(done, coverage.result() if how_much == "all" else None, tuple(reference.versions))


def reference_of(evidence: Evidence, network: Network) -> Reference | stream.StreamReference:
    """Return the reference with the engines of a run; UncheckedError if one of them is not installed here."""
    asked = tuple(evidence.request.get("reference", engines.ALWAYS))
    try:
        engines.versions(asked)
    except RequestError as error:
        raise UncheckedError(f"the run asked for --reference {','.join(asked)}: {error}; {error.hint}") from error
    precise = evidence.request["x64_quant_precision"]
    return stream.reference_of(network, x64_quant_precision=precise, engines=asked)


def _require_follows(outputs: Outputs, record: ChunkRecord, vectors: Array, activations: Sequence[Array]) -> None:
    """Require that the record of a chunk follows from the reference, computed again, and the board's dumps."""
    sha256 = tuple(dumps.sha256(a) if kept else "" for a, kept in zip(activations, outputs.plan.kept, strict=True))
    require_equal(f"chunk {record.index}, reference_sha256", list(record.reference_sha256), sha256)
    chunk = Chunk(record.index, record.start, record.stop)
    hashes = (sha256, record.target_sha256)
    actual = outputs.kept("target", record)
    found = chunks.recorded(outputs.plan, outputs.vectors.count, chunk, vectors, activations, actual, hashes)
    # The hash in deployment mode was compared with the reference's; the ratios are those of the machine of the run, and
    # those of bounded layers were compared with the dumps.
    believed = {key: getattr(record, key) for key in ("deployed", "ratios", "whole", "local")}
    found = dataclasses.replace(found, **believed)
    require_equal(f"chunk {record.index},", dataclasses.asdict(record), dataclasses.asdict(found))


def verdict(outputs: Outputs, covered: tuple[LayerCoverage, ...] | None) -> str:
    """Check that verdict, reason and all numbers of run.json follow from chunks, vectors, traces and proof.

    `covered` is what the vectors met; None if that was not counted again: then run.json is believed in that.
    """
    run, plan = outputs.evidence.run, outputs.plan
    ran_on = [item["ran_on"] for item in run["plan"]["items"]]
    believed = covered or tuple(map(_covered, run["layers"]))
    records, path = outputs.evidence.records, outputs.evidence.path
    changed = changed_vectors(path, plan.network, records)
    proof, traces = RunFolder(path).read_proof(), _traces(outputs)
    observations = Observations(records, believed, ProofDocument.view(proof), traces, changed)
    found = results_of(plan, ran_on, outputs.vectors.count, observations).to_json()
    found["proof"] = proof  # also its entries that this version does not know
    if traces and "vectors" not in run["conformance"]:  # checked by `_traces`
        del found["conformance"]["vectors"]
    if "effect" not in run:  # earlier versions did not write it
        found.pop("effect")
    coverage = run["coverage"] | {"text": reworded(run["coverage"]["text"])}
    require_equal(RUN, {key: run.get(key) for key in found} | {"coverage": coverage}, found)
    return f"{run['verdict']}: {run['reason']}"


def _covered(layer: Mapping[str, Any]) -> LayerCoverage:
    return {Quantity(name): Met(**met) for name, met in layer["coverage"].items()}


def _traces(outputs: Outputs) -> ConformanceEntry | None:
    """Return the result of the kept traces; None if no trace was requested, or the program was known to be wrong."""
    asked, run = outputs.evidence.request, outputs.evidence.run
    traces = outputs.evidence.path / "traces"
    size = sum(path.stat().st_size for path in traces.glob("*.jsonl"))
    made = tracing.perturbations(outputs.plan, asked["trace"], asked["seed"])
    expected = {tracing.VECTORS_FILE, *(perturbation.file for perturbation in made)}
    if others := {path.name for path in traces.glob("*")} - expected:
        raise ContradictionError(f"traces/ has files of no trace that was asked for: {listed(others)}")
    if not asked["trace"] and size:
        raise ContradictionError("request.json asks for no traces, and there are some")
    if not asked["trace"] or (run["conformance"] is None and run["verdict"] == "differs"):
        return None
    if asked["trace"] > size:
        raise ContradictionError(f"request.json asks for {asked['trace']:,} executions, more than the traces can have")
    _require_first_vectors(outputs, array_of(traces / tracing.VECTORS_FILE))
    found = tracing.kept(outputs.plan, traces, asked["trace"], asked["seed"])
    if run["conformance"] and "vectors" not in run["conformance"]:  # an earlier version traced blocks
        require_equal("traces, vectors", found.vectors, min(outputs.plan.block, outputs.vectors.count))
    return found


def _require_first_vectors(outputs: Outputs, traced: Array) -> None:
    """Require that the traced vectors are the first of the run."""
    if dumps.sha256(np.asarray(traced)) != dumps.sha256(outputs.vectors.chunk(0, len(traced))):
        raise ContradictionError(f"traces/{tracing.VECTORS_FILE} does not hold the first vectors of the run")


def has_labels(outputs: Outputs) -> bool:
    """Return whether a run asked for labels, has them, or states an accuracy."""
    evidence = outputs.evidence
    is_requested = evidence.request.get("labels") is not None
    return is_requested or evidence.run.get("accuracy") is not None or RunFolder(evidence.path).labels.exists()


def accuracy(outputs: Outputs, progress: Progress) -> str:
    """Check that the accuracy follows from the labels, the dumps and the float model in the folder."""
    evidence, folder = outputs.evidence, RunFolder(outputs.evidence.path)
    said, request = evidence.run.get("accuracy"), evidence.request
    labelled = labels.stored(folder, outputs.plan, outputs.vectors)
    if labelled is None or said is None or request.get("labels") is None:
        raise ContradictionError(f"request.json, labels.npz and {RUN} do not all have labels, or all none")
    require_equal("request.json, metric,", request.get("metric") or labelled.labels.metric, labelled.labels.metric)
    if request.get("float_model") is not None and labelled.float_model is None:
        raise ContradictionError("request.json names a float model, and float.onnx is not in the folder")
    with progress("computing the accuracy again", outputs.vectors.count) as bar:
        again = labels.evaluate(labelled, folder, outputs.plan, outputs.vectors, bar.advance)
    require_equal(f"{RUN}, accuracy,", said, again, close=LAST_DIGITS)
    return f"{again.metric} of {plural(len(again.columns), 'column')} over {outputs.vectors.count:,} vectors, again"


def failing(outputs: Outputs) -> str:
    """Check that the smallest failing case is of the first layer that differs, and its expected output."""
    said = outputs.evidence.run["failing"]
    if reason := has_none(outputs.plan):
        require_equal(f"{RUN}, failing,", said, None)
        return f"none is searched: {reason}"
    first = first_difference(outputs.evidence.records)
    path = outputs.evidence.path / FILE
    if said is None or first is None:
        if said is not None or first is not None:
            raise ContradictionError(f"{RUN} has {'a' if said else 'no'} failing case, and the chunks say otherwise")
        if path.exists():
            raise ContradictionError(f"{FILE} is here, and nothing differs")
        return "none, because nothing differs"
    layer, difference = first
    whole = outputs.vectors.chunk(difference.vector, difference.vector + 1)
    vector = np.array(array_of(path)) if path.exists() else whole
    right = SpecificationReference(outputs.plan.network).activations(vector)[layer][0, said["unit"]]
    found = case(outputs.plan.network, layer, difference.vector, vector)
    found |= {"expected": right.item(), "file": FILE if path.exists() else None}
    require_equal(f"{RUN}, failing,", {key: said[key] for key in found}, found)
    if repr(said["actual"]) == repr(said["expected"]) != repr("NaN"):  # -0.0 is not 0.0; one NaN may not be another
        raise ContradictionError(f"{RUN}, failing: nothing differs there")
    return f"one of layer {said['layer']}: the expected value was recomputed; the board's value was not stored"

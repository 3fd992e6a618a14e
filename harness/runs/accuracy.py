"""Accuracy of a run: the float model, the reference and the board, judged by the labels of the vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.analysis.accuracy import Metric
from harness.boards.workspace import Workspace
from harness.core.arrays import Array
from harness.core.errors import BoardError, HarnessError, RequestError
from harness.core.file_digest import file_sha256
from harness.execution import dumps
from harness.model import stream as streams
from harness.model.graph import parse
from harness.model.network import Network
from harness.operators.tensor import CODES
from harness.plan.plan import Plan
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import Stimuli
from harness.runs.entries import AccuracyEntry, ColumnEntry
from harness.runs.folder import ChunkRecord, RunFolder
from harness.runs.labels import Head, Labels, MetricName, head_of, load, read

FLOAT, REFERENCE, BOARD = "float model", "reference", "board"
"""The columns."""
NOT_NAMED = "the model does not name its float original: --float-model FILE gives it"
ITSELF = "the model computes no codes: its reference is the float model"
BYTES_AT_ONCE = 64 << 20
"""Bytes of the activations of the float model that are in memory together."""


@dataclass(frozen=True)
class Labelled:
    """The labels of a run, and the float model, or why there is none."""

    labels: Labels
    float_model: Network | None
    absent: str

    def save(self, folder: RunFolder) -> None:
        """Write the labels and the float model into a run folder."""
        self.labels.save(folder.labels)
        if self.float_model:
            folder.float_model.write_bytes(self.float_model.onnx_bytes)


@dataclass(frozen=True)
class LabelOptions:
    """The options of a request: a file of labels, a metric, and a float model, a name or a path."""

    labels: str | None = None
    metric: MetricName | None = None
    float_model: str | None = None


def labelled(options: LabelOptions, plan: Plan, vectors: Stimuli, workspace: Workspace | None) -> Labelled | None:
    """Return the labels of a new run with its float model; None if none were asked for.

    RequestError if labels, vectors, plan and float model do not fit each other, or labels are missing.
    """
    network = plan.network
    if options.labels is None:
        if options.metric or options.float_model:
            raise RequestError("--metric and --float-model are those of labels", "add --labels FILE, or omit them")
        return None
    _require_comparable(plan)
    labels = read(Path(options.labels), network, vectors.count, options.metric)
    if options.float_model is not None and workspace is not None:
        original = workspace.model(options.float_model)
        if reason := _misfit(network, original):
            raise RequestError(
                f"--float-model {options.float_model}: {reason}", "name the float model that was quantised"
            )
        return Labelled(labels, original, "")
    named = _original(network, workspace) if workspace else None
    return Labelled(labels, named, "" if named else absent(network))


def stored(folder: RunFolder, plan: Plan, vectors: Stimuli) -> Labelled | None:
    """Return the labels and the float model that a run folder keeps; None without labels."""
    if not folder.labels.exists():
        return None
    labels = load(folder.labels, plan.network, vectors.count)
    if not folder.float_model.exists():
        return Labelled(labels, None, absent(plan.network))
    original = parse(folder.float_model.read_bytes(), "float")
    if reason := _misfit(plan.network, original):
        raise RequestError(f"{folder.float_model}: {reason}", "start a new run")
    return Labelled(labels, original, "")


def _require_comparable(plan: Plan) -> None:
    """Raise RequestError if vectors are steps of a stream, or an output that labels judge is overwritten."""
    network = plan.network
    if streams.of(network) is not None:
        raise RequestError("--labels: the vectors of a stream are steps, which have no labels", "omit --stream")
    lost = [network.layers[layer].name for layer in head_of(network).layers if not plan.kept[layer]]
    if lost:
        raise RequestError(
            f"--labels: the board overwrites {', '.join(lost)}, which the metric needs", "omit --buffers reuse"
        )


def absent(network: Network) -> str:
    """Return why a run of a network without --float-model has no column of the float model."""
    if not any(layer.dtype in CODES for layer in network.layers):
        return ITSELF
    source = _source(network)
    return (
        f"its float original {source[0]} is not among the models that can be run here: --float-model FILE gives it"
        if source
        else NOT_NAMED
    )


def _source(network: Network) -> tuple[str, str] | None:
    """Return the name and the SHA-256 of the float file that harness has quantised; None for other models."""
    names = ("source_file", "source_sha256")
    if "quantisation" not in network.metadata or any(name not in network.metadata for name in names):
        return None
    file, sha256 = (str(json.loads(network.metadata[name])) for name in names)
    return file, sha256


def _original(network: Network, workspace: Workspace) -> Network | None:
    """Return the float model that the metadata name, if it is among the models and its output fits."""
    source = _source(network)
    if source is None:
        return None
    file, sha256 = source
    named = sorted(workspace.model_files(), key=lambda path: path.name != file)
    path = next((path for path in named if file_sha256(path) == sha256), None)
    try:
        original = workspace.model(str(path)) if path else None
    except HarnessError:  # of operators that harness does not compute
        return None
    return original if original and not _misfit(network, original) else None


def _misfit(network: Network, original: Network) -> str:
    """Return why a network cannot be the float model of another one; empty if it can."""
    ours, theirs = (f"{one.vector.dtype} of {one.vector.size} values" for one in (network, original))
    if ours != theirs or len(network.inputs) != len(original.inputs):
        return f"its input is {theirs}, that of {network.name} {ours}"
    head, other = head_of(network), head_of(original)
    decides = head.kind == "decisions" and other.kind == "scores"
    if not decides and head.kind != other.kind:
        return f"its output is {other.kind}, that of {network.name} {head.kind}"
    if head.size != other.size:
        return f"its output has {other.size} values, that of {network.name} {head.size}"
    return ""


def evaluate(
    labelled: Labelled, folder: RunFolder, plan: Plan, vectors: Stimuli, advance: Callable[[int], object]
) -> AccuracyEntry:
    """Return the metrics of all columns, from the labels and the dumps of a run, chunk by chunk.

    A dump that was not fetched had the hash of the reference on the board, so that the reference's outputs are its own.
    BoardError if an output is not the one that was compared.
    """
    network, labels, head = plan.network, labelled.labels, head_of(plan.network)
    outputs = _Outputs(folder, network, head, vectors)
    metrics = {name: labels.new_metric() for name in (REFERENCE, BOARD)}
    floats = _Floats(labelled.float_model, head) if labelled.float_model else None
    if floats:
        metrics = {FLOAT: labels.new_metric(), **metrics}
    for record in folder.chunks():
        own = labels.chunk(record.start, record.stop)
        reference, board = outputs.of(record)
        metrics[REFERENCE].add(head.outputs(reference, record.start), own)
        metrics[BOARD].add(head.outputs(board, record.start), own)
        for start, stop, values in floats.of(vectors, record) if floats else ():
            metrics[FLOAT].add(values, labels.chunk(start, stop))
        advance(record.stop - record.start)
    return AccuracyEntry(
        metric=labels.metric,
        layer=network.layers[head.layers[-1]].name,
        size=labels.size,
        labels_sha256=file_sha256(folder.labels),
        float_sha256=labelled.float_model.sha256 if labelled.float_model else None,
        float_absent=labelled.absent,
        columns=[_column(name, metric) for name, metric in metrics.items()],
    )


def _column(name: str, metric: Metric) -> ColumnEntry:
    confusion = metric.confusion
    return ColumnEntry(
        name=name, numbers=dict(metric.numbers()), confusion=None if confusion is None else confusion.tolist()
    )


class _Outputs:
    """The outputs of a run that labels judge, of the reference and of the board."""

    def __init__(self, folder: RunFolder, network: Network, head: Head, vectors: Stimuli) -> None:
        self._folder, self._network, self._head, self._vectors = folder, network, head, vectors
        self._specification: SpecificationReference | None = None

    def of(self, record: ChunkRecord) -> tuple[list[Array], list[Array]]:
        """Return the activations of the layers of the head in a chunk, of the reference and of the board."""
        sides = {"reference": record.reference_sha256, "target": record.target_sha256}
        reference, board = (self._kept(record, kind, hashes) for kind, hashes in sides.items())
        lost = [layer for layer in self._head.layers if layer not in reference]
        if lost:
            reference |= self._computed(record, lost)
        return (
            [reference[layer] for layer in self._head.layers],
            [board.get(layer, reference[layer]) for layer in self._head.layers],
        )

    def _kept(self, record: ChunkRecord, kind: str, hashes: Sequence[str]) -> dict[int, Array]:
        kept = {}
        for index in self._head.layers:
            layer = self._network.layers[index]
            path = self._folder.path / kind / f"{record.index:05}" / dumps.file_name(index, layer)
            if path.exists():
                kept[index] = dumps.read(path, layer, record.stop - record.start, hashes[index])
            elif record.reference_sha256[index] != record.target_sha256[index]:
                raise BoardError(f"{path}: the dump is missing, and it differs from the reference", "start a new run")
        return kept

    def _computed(self, record: ChunkRecord, layers: Sequence[int]) -> dict[int, Array]:
        """Return outputs of the reference that were not kept, computed again."""
        if self._specification is None:
            self._specification = SpecificationReference(self._network)
        activations = self._specification.activations(self._vectors.chunk(record.start, record.stop))
        for layer in layers:
            if dumps.sha256(activations[layer]) != record.reference_sha256[layer]:
                raise BoardError(
                    f"chunk {record.index}: layer {self._network.layers[layer].name} is not the one that was compared",
                    "start a new run",
                )
        return {layer: activations[layer] for layer in layers}


class _Floats:
    """The outputs of the float model, by the specification of its operators: the same on every machine."""

    def __init__(self, network: Network, head: Head) -> None:
        self._head, self._decides = head_of(network), head.decides
        self._specification = SpecificationReference(network)
        a_vector = network.record.itemsize + sum(layer.size * layer.dtype.itemsize for layer in network.layers)
        self._at_once = max(BYTES_AT_ONCE // a_vector, 1)

    def of(self, vectors: Stimuli, record: ChunkRecord) -> Iterator[tuple[int, int, Any]]:
        """Yield the first vector, the one behind the last, and the outputs, of parts of a chunk."""
        for start in range(record.start, record.stop, self._at_once):
            stop = min(start + self._at_once, record.stop)
            activations = self._specification.activations(vectors.chunk(start, stop))
            outputs = self._head.outputs([activations[layer] for layer in self._head.layers], start)
            yield start, stop, self._decided(outputs)

    def _decided(self, outputs: Any) -> Any:
        """Return the decisions of the quantised model's last operator for the scores of the float model."""
        return self._decides(outputs) if self._decides and self._head.kind == "scores" else outputs

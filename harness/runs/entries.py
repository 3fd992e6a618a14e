"""The entries of `run.json`: the documents of a run and of a measurement, and the parts that both have.

An entry with a default is one that earlier versions did not write, or that only some documents have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from harness.analysis.compare import Bounded, Comparison, Difference
from harness.analysis.proof_document import ProofDocument
from harness.boards.identity import BoardIdentity
from harness.build.bundle import PROGRAM, BuildInputs
from harness.core.document import UNCHECKED, CheckedBy, Document, Entries, Number
from harness.operators.counters import Met
from harness.plan.conformance.document import ConformanceEntry
from harness.plan.plan_check import AssessmentEntry
from harness.runs.measurement.devices import DeviceTime

SCHEMA = 2  # of run.json

CHECKED_BY_BOARD = CheckedBy("board")
CHECKED_BY_FAILING = CheckedBy("failing")
CHECKED_BY_MEASURED = CheckedBy("measured")
CHECKED_BY_OUTPUTS = CheckedBy("outputs")
CHECKED_BY_REQUEST = CheckedBy("request")
CHECKED_BY_SOURCES = CheckedBy("sources")
CHECKED_BY_VECTORS = CheckedBy("vectors")
CHECKED_BY_VERDICT = CheckedBy("verdict")

Activation = Number | str  # NaN and the infinities are texts
OMITTED: Any = None  # the default of an entry that some documents do not have, and which is never null


class HarnessEntry(Entries):
    """The version that wrote the document."""

    version: Annotated[str, UNCHECKED]
    revision: Annotated[str | None, CHECKED_BY_SOURCES]


class DisagreementEntry(Entries):
    """The first activation for which engines of the reference had different values; `values` has those of all."""

    layer: str
    operator: str
    vector: int
    index: int
    values: Mapping[str, Activation]


class AttemptEntry(Entries):
    """An attempt to finish the run; see `RunFolder.attempts`."""

    began: str
    board: BoardIdentity | None = None
    part: str
    reason: str
    disagreement: DisagreementEntry = OMITTED


class SetupEntry(Entries):
    """A command that the profile has run on the board."""

    command: str
    status: int | None
    output: str


class BoardEntry(Entries):
    """The board: its identity and its own description."""

    name: Annotated[str, CHECKED_BY_BOARD]
    kind: Annotated[str, CHECKED_BY_BOARD]
    address: Annotated[str | None, CHECKED_BY_BOARD]
    host_key: Annotated[str | None, CHECKED_BY_BOARD]
    machine_id: Annotated[str | None, CHECKED_BY_BOARD]
    boot_id: Annotated[str | None, CHECKED_BY_BOARD]
    soc: Annotated[str | None, CHECKED_BY_BOARD] = None
    environment: Annotated[Mapping[str, str], UNCHECKED]
    setup: Annotated[Sequence[SetupEntry], UNCHECKED]


class InputEntry(Entries):
    """The input box in physical units; `names` and `units` are empty for a model that does not state them."""

    names: Sequence[str] = ()
    units: Sequence[str] = ()
    box_low: Sequence[Number] = ()
    box_high: Sequence[Number] = ()


class StreamedEntry(Entries):
    """A layer of the whole network: its frame j is frame `delay` + j of the stream; a step gives `new` of `length`.

    Without an `axis` a step gives one value, computed from a window of frames.
    """

    name: str
    axis: int | None
    delay: int
    new: int
    length: int


class StreamEntry(Entries):
    """The stream whose steps the model computes; see `harness.model.stream.Stream`.

    `whole` is the SHA-256 of the whole network, which takes `window` of the `steps` of a stream, in each of `windows`
    places.  `history_bytes` are those of the frames that are kept from step to step.  The operations are those of
    `Text.operations`, of one step and of the whole network.
    """

    axis: int
    pulse: int
    steps: int
    window: int
    windows: int
    whole: str
    history_bytes: int
    operations: int
    operations_of_whole: int
    layers: Sequence[StreamedEntry]


class ModelEntry(Entries):
    """The model; `stream` if it is a step of one."""

    name: str
    sha256: str
    input: InputEntry
    metadata: Mapping[str, str]
    stream: StreamEntry | None = None


class NodeEntry(Entries):
    """The network's input, which has no operator, or a layer, with the tensor that it writes.

    `reads` are positions in the list of nodes.  `shape` is that of one vector.  No value is outside `low` to `high`;
    None if there is no bound.  The values of a quantised tensor are its codes.
    """

    name: str
    operator: str
    reads: Sequence[int]
    shape: Sequence[int]
    dtype: str
    low: Number | None
    high: Number | None


class ItemEntry(Entries):
    """An item of the plan, and where it really ran."""

    name: str
    target: str
    core: int | None
    ran_on: str
    tasks: Sequence[str]


class TaskEntry(Entries):
    """A task of the plan; `offset` is the first byte of its buffer in the arena, if it shares bytes with others.

    `columns` are the first, the first behind them and, if it computes them in each of several runs, as rows of all
    channels, the number of the runs.  `claim` is that of its target, see `harness.targets.Claim`.
    """

    name: str
    layer: str
    item: str
    columns: Sequence[int]
    stage: int
    buffers: int
    offset: int | None = None
    claim: str = "exact"


class HandOverEntry(Entries):
    """A hand-over of the plan, the writer's item first."""

    name: str
    items: Sequence[str]


class PlanEntry(Entries):
    """The plan; `arena` is the bytes that buffers share, for a block of vectors."""

    board: str
    model: str
    block: int
    sync: str
    depth: int
    arena: int | None = None
    items: Sequence[ItemEntry]
    tasks: Sequence[TaskEntry]
    hand_overs: Sequence[HandOverEntry]


class MemoryEntry(Entries):
    """Bytes of constants, of the buffers of a block as planned, and the figures of `harness.plan.memory.Memory`."""

    constants: int
    buffers: int
    own: int
    shared: int
    tflm: int
    acetone: int | None


class BundleEntry(Entries):
    """The bundle; see `harness.build.bundle.Bundle`."""

    sha256: Annotated[str, CHECKED_BY_REQUEST]
    compiler: Annotated[str, CHECKED_BY_SOURCES]
    flags: Annotated[Sequence[str], CHECKED_BY_SOURCES]
    reused: Annotated[bool, UNCHECKED]
    files: Annotated[Mapping[str, str], CheckedBy("sources", ((PROGRAM, "bundle"),))] = Field(default_factory=dict)
    inputs: Annotated[BuildInputs | None, CHECKED_BY_SOURCES] = None


class EngineEntry(Entries):
    """An engine that confirmed the reference; the version of the specification is that of harness."""

    name: str
    version: str


class ReferenceEntry(Entries):
    """The reference, the instruction set that it was computed with, and the engines that agreed on it."""

    onnxruntime: str
    isa: str
    agreement: str
    engines: Annotated[Sequence[EngineEntry], CHECKED_BY_REQUEST] = ()


class HostEntry(Entries):
    """The machine that the command ran on."""

    platform: str
    python: str
    numpy: str
    boot_id: Annotated[str | None, CHECKED_BY_BOARD]


class StimuliEntry(Entries):
    """The vectors; `classes` are their numbers by how they were made."""

    count: Annotated[int, CHECKED_BY_VECTORS]
    seed: Annotated[int, CHECKED_BY_VECTORS]
    source: Annotated[str, CHECKED_BY_VECTORS]
    classes: Annotated[Mapping[str, int], CHECKED_BY_VECTORS]
    sha256: Annotated[str, CHECKED_BY_VECTORS]


class ChangeEntry(Entries):
    """A topic, and its text in a former document (`base`) and in this one (`new`)."""

    topic: str
    base: str
    new: str


class PreviousEntry(Entries):
    """The previous run of the same board and model in the same folder, and the changes since.

    `layers` are the numbers of differing activations that changed, `times` the medians.
    """

    run: str
    started: str
    verdict: str
    results: Sequence[ChangeEntry]
    layers: Sequence[ChangeEntry]
    times: Sequence[ChangeEntry]
    causes: Sequence[ChangeEntry]


class Provenance(Document):
    """Request, board and versions: the first entries of all documents of runs.

    `launches` are the names of the tasks that a device computes together, so that only their sum has a time.
    """

    number: ClassVar[int | None] = SCHEMA

    schema_number: Annotated[int, CheckedBy("fields")] = Field(alias="schema")
    harness: HarnessEntry
    started: Annotated[str, CHECKED_BY_REQUEST]
    finished: Annotated[str, CHECKED_BY_REQUEST]
    wall_s: Annotated[Number, CHECKED_BY_REQUEST]
    attempts: Annotated[Sequence[AttemptEntry], CHECKED_BY_REQUEST] = ()
    command: Annotated[Sequence[str], UNCHECKED]
    board: BoardEntry
    model: Annotated[ModelEntry, CheckedBy("model")]
    plan: Annotated[PlanEntry, CheckedBy("plan")]
    assessment: Annotated[AssessmentEntry, CheckedBy("plan")]
    bundle: BundleEntry
    reference: Annotated[ReferenceEntry, UNCHECKED]
    host: Annotated[HostEntry, UNCHECKED]
    stimuli: StimuliEntry
    graph: Annotated[Sequence[NodeEntry], CheckedBy("model")] = ()
    launches: Annotated[Sequence[Sequence[str]], CheckedBy("plan")] = ()
    memory: Annotated[MemoryEntry | None, CheckedBy("plan")] = None
    previous: Annotated[PreviousEntry | None, UNCHECKED] = None

    @classmethod
    def converted(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a document of schema 1 in the form of schema 2: it does not identify boards by more than their names.

        Schema 1 had no single form, as entries were added to it without a new number: others may be missing.
        """
        identity = dict.fromkeys(("address", "host_key", "machine_id", "boot_id"))
        added = {"board": identity, "host": {"boot_id": None}}
        found = {
            key: {**entries, **content[key]} for key, entries in added.items() if isinstance(content.get(key), Mapping)
        }
        return {**content, "schema": SCHEMA, **found}


class DifferenceEntry(Entries):
    """An activation that differs; `part` is the part of a split layer that it is in."""

    vector: int
    unit: int
    expected: Activation
    actual: Activation
    part: str = ""


class WholeOutputEntry(Entries):
    """An output of the network by ONNX Runtime with the whole model; see `harness.reference.WholeOutput`."""

    output: str
    vectors: int
    values: int
    compared: int
    bound: float
    ratio: float


class OutputDifferenceEntry(Entries):
    """An output of the network, compared with the reference; see `harness.analysis.local.OutputDifference`."""

    layer: str
    values: int
    unequal: int
    largest: Activation


class LayerEntry(Entries):
    """Comparison of the activations of a layer with the reference, and its coverage by the vectors.

    It is not `kept`, and nothing was compared, if the board overwrites its activations before an execution ends.
    `reference_ratio` is the largest |ONNX Runtime - reference| / bound of a value; None if every bit had to agree.
    `whole_ratio` is the same of ONNX Runtime with the whole model, and the bound of the errors of all layers up to it.
    Of a plan with `bounded` layers, each layer is compared with the specification for its own inputs.
    """

    index: int
    name: str
    operator: str
    reads: Sequence[str]
    items: Sequence[str]
    item: str
    target: str
    ran_on: str
    compared: int
    differing: int
    own: int
    first_difference: DifferenceEntry | None
    coverage: Mapping[str, Met] = Field(default_factory=dict)
    kept: bool = True
    reference_ratio: float | None = None
    whole_ratio: float | None = None
    bounded: Bounded | None = None


class EffectEntry(Entries):
    """Vectors for which an output of the network changed: `changed` of `of`.

    `what` is `decisions` if the last layer writes indices, as ArgMax does, else `outputs`.
    """

    layer: str
    what: str
    changed: int
    of: int


class HeadlineEntry(Entries):
    """The diagnosis to read first: `layers` are those that `cause` explains."""

    layer: str
    layers: Sequence[str] = ()
    cause: str | None = None
    text: str


class HypothesisEntry(Entries):
    """A cause, and how many of the differences that were looked at it explains."""

    cause: str
    right: str
    explains_all: bool
    explained: int
    of: int
    contradicted: int
    example: Difference | None


class DiagnosisEntry(Entries):
    """The diagnosis of a layer: all hypotheses that explain everything, and the nearest."""

    layer: str
    text: str
    differing: int
    looked_at: int
    hypotheses: Sequence[HypothesisEntry]


class PictureEntry(Entries):
    """Map of the differences of a layer: lines of counts, a line for some units, a number for some vectors."""

    layer: str
    vectors: int
    units: int
    map: Sequence[str]
    steps: Sequence[int]
    tie_distances: Sequence[int]


class InputValueEntry(Entries):
    """An input that is not 0."""

    index: int
    name: str
    value: Number


class FailingEntry(Entries):
    """The smallest failing case; see `harness.runs.counterexample`."""

    vector: Annotated[int, CHECKED_BY_FAILING]
    unit: Annotated[int, CHECKED_BY_FAILING]
    expected: Annotated[Activation, CHECKED_BY_FAILING]
    actual: Annotated[Activation, UNCHECKED]
    layer: Annotated[str, CHECKED_BY_FAILING]
    inputs: Annotated[Sequence[InputValueEntry], CHECKED_BY_FAILING]
    of_inputs: Annotated[int, CHECKED_BY_FAILING]
    file: Annotated[str | None, CHECKED_BY_FAILING]
    replay: Annotated[str, UNCHECKED]
    note: Annotated[str, UNCHECKED]


class ColumnEntry(Entries):
    """The metrics of one side; `confusion` has a row for each label and a column for each decision.

    None is a number that is not defined: R2 of targets that are all the same, errors of values that are not finite.
    """

    name: str
    numbers: Mapping[str, Number | None]
    confusion: Sequence[Sequence[int]] | None


class AccuracyEntry(Entries):
    """The outputs of the float model, of the reference and of the board, judged by labels.

    `size` is the number of classes or of values, `layer` the last one.  `labels_sha256` is that of labels.npz.  Without
    a float model `float_absent` says why.
    """

    metric: str
    layer: str
    size: int
    labels_sha256: str
    float_sha256: str | None
    float_absent: str
    columns: Sequence[ColumnEntry]


class Results(Entries):
    """The verdict of a run, and all that leads to it."""

    layers: Annotated[Sequence[LayerEntry], CHECKED_BY_VERDICT]
    coverage: Annotated[Mapping[str, str | Met], CHECKED_BY_VERDICT] = Field(default_factory=dict)
    whole_network: Annotated[Sequence[WholeOutputEntry], CHECKED_BY_VERDICT] = ()
    network_outputs: Annotated[Sequence[OutputDifferenceEntry], CHECKED_BY_VERDICT] = ()
    deployed: Annotated[Comparison | None, CHECKED_BY_VERDICT] = None
    proof: Annotated[ProofDocument | None, CheckedBy("proof")] = None
    conformance: Annotated[ConformanceEntry | None, CHECKED_BY_VERDICT] = None
    verdict: Annotated[str, CHECKED_BY_VERDICT]
    reason: Annotated[str, CHECKED_BY_VERDICT]
    effect: Annotated[EffectEntry | None, CHECKED_BY_VERDICT] = None
    diagnosis: Annotated[HeadlineEntry | None, CHECKED_BY_VERDICT] = None
    diagnoses: Annotated[Sequence[DiagnosisEntry], CHECKED_BY_VERDICT] = ()
    pictures: Annotated[Sequence[PictureEntry], CHECKED_BY_VERDICT] = ()


class Chunking(Entries):
    """The unit of work, and which dumps were fetched."""

    chunk: Annotated[int, CHECKED_BY_REQUEST]
    fetch: Annotated[str, CHECKED_BY_REQUEST]


class RunDocument(Results, Chunking, Provenance):
    """The content of `run.json` of a run; `content_sha256` and `files` are added when the run is finished.

    `accepted` is the verdict other than identical that was asked for and found to be good: `within bound`.
    """

    accepted: Annotated[str | None, CHECKED_BY_REQUEST] = None

    failing: Annotated[FailingEntry | None, CheckedBy("failing")] = None
    accuracy: Annotated[AccuracyEntry | None, CheckedBy("accuracy")] = None
    vectors_per_s: Annotated[Number, CHECKED_BY_REQUEST]
    content_sha256: Annotated[str | None, CheckedBy("content")] = None
    files: Annotated[Mapping[str, str], CheckedBy("files")] = Field(default_factory=dict)


class MeasuredEntry(Entries):
    """Options of the measurement, settings that the system granted, and why the readings are not MET."""

    scope: Annotated[str, CHECKED_BY_MEASURED]
    interval: Annotated[str, CHECKED_BY_MEASURED]
    quantity: Annotated[str, CHECKED_BY_MEASURED]
    unit: Annotated[str, CHECKED_BY_MEASURED]
    block: Annotated[int, CHECKED_BY_MEASURED]
    samples: Annotated[int, CHECKED_BY_MEASURED]
    segment: Annotated[int, CHECKED_BY_MEASURED]
    segments: Annotated[int, CHECKED_BY_MEASURED]
    warmup: Annotated[int, UNCHECKED]
    duration_s: Annotated[Number | None, CHECKED_BY_MEASURED]
    pause_s: Annotated[Number, CHECKED_BY_MEASURED]
    cycle_ns: Annotated[Number, CHECKED_BY_MEASURED]
    options: Annotated[Sequence[str], UNCHECKED]
    fifo: Annotated[int | None, UNCHECKED]
    fifo_refused: Annotated[str, UNCHECKED]
    memory_lock_asked: Annotated[bool, CHECKED_BY_MEASURED]
    memory_locked: Annotated[bool, UNCHECKED]
    dma_latency_asked: Annotated[bool, CHECKED_BY_MEASURED]
    dma_latency_held: Annotated[bool, UNCHECKED]
    not_met_because: Annotated[str, CHECKED_BY_MEASURED]


class OutputsEntry(Entries):
    """Correctness of the outputs; `sha256` are their hashes, each with the number of segments that had it."""

    compared: Annotated[int, CHECKED_BY_OUTPUTS]
    differing: Annotated[int, CHECKED_BY_OUTPUTS]
    first: Annotated[Difference | None, CHECKED_BY_OUTPUTS]
    own: Annotated[int, CHECKED_BY_OUTPUTS]
    sha256: Annotated[Mapping[str, int], CHECKED_BY_OUTPUTS] = Field(default_factory=dict)


class QuantileEntry(Entries):
    """A quantile; `value_ns` is None if the sample does not give it."""

    probability: Number
    value_ns: Number | None
    interval: Mapping[str, Any]


class SummaryEntry(Entries):
    """The statistics of times; see `harness.analysis.timing.Summary`."""

    executions: int
    min_ns: Number
    mean_ns: Number
    mean_interval: Mapping[str, Any]
    median_ns: Number
    median_interval: Mapping[str, Any]
    deviation_ns: Number | Mapping[str, Any] | None
    quantiles: Sequence[QuantileEntry]
    max_ns: Number
    longer_at_most: Number


class ClockEntry(Entries):
    """The clock, or the counter, and what a reading of it costs."""

    source: str
    resolution_ns: Number
    readings: int
    cost: SummaryEntry
    constant: int | None


class SegmentEntry(Entries):
    """A process of the program, its disturbances, and the changes on the board during it."""

    begun: str
    elapsed_ns: int
    process: Mapping[str, int]
    board: Mapping[str, Any]


class SettingEntry(Entries):
    """A setting of the board; see `harness.boards.tuning.Setting`."""

    name: str
    path: str
    wanted: str
    before: str | None
    reached: str | None
    reason: str


class StateEntry(Entries):
    """Settings of the board, and its state before, between and after the segments."""

    settings: Sequence[SettingEntry]
    snapshots: Sequence[Mapping[str, Any]]
    segments: Sequence[SegmentEntry]
    throttled: Sequence[str]
    unseen: Sequence[str]
    told: Sequence[str]
    drifted: Sequence[str]


class LoadEntry(Entries):
    """Load of the board; see `harness.boards.tuning.Load`."""

    name: str
    reason: str
    argv: Sequence[str]
    cores: Sequence[int]
    version: str
    metrics: str
    failure: str


class HistogramEntry(Entries):
    """A histogram; see `harness.analysis.timing.Histogram`."""

    edges_ns: Sequence[Number]
    counts: Sequence[int]


class PartEntry(Entries):
    """A measured part: a column of the readings; see `harness.runs.measurement.parts.Part`.

    Statistics of times begin with `summary`, counts of events with `executions`; a part has one or the other.
    """

    name: Annotated[str, CHECKED_BY_MEASURED]
    ran_on: Annotated[str, CHECKED_BY_MEASURED]
    function: Annotated[str, CHECKED_BY_MEASURED]
    alone: Annotated[bool, CHECKED_BY_MEASURED]
    tasks: Annotated[int, CHECKED_BY_MEASURED] = 1

    summary: SummaryEntry = OMITTED
    series: Mapping[str, Any] = OMITTED
    pwcet: Mapping[str, Any] = OMITTED
    pwcet_without: int = OMITTED
    histogram: HistogramEntry = OMITTED
    body: HistogramEntry = OMITTED
    tail: Sequence[Sequence[Number]] = OMITTED
    timeline: Sequence[Sequence[int]] = OMITTED

    executions: int = OMITTED
    taken_off: int = OMITTED
    min: int = OMITTED
    max: int = OMITTED
    distinct: int = OMITTED
    most_often: int = OMITTED
    first_min: int = OMITTED
    first_max: int = OMITTED
    repeatable: bool = OMITTED
    disturbed: int = OMITTED
    most: int = OMITTED


class ReadingsEntry(Entries):
    """The file of all readings."""

    file: str
    sha256: str


class ShiftEntry(Entries):
    """Shift of a statistic; see `harness.analysis.timing.Shift`."""

    of: str
    base_ns: Number
    new_ns: Number
    shift_ns: Number
    interval: Mapping[str, Any]
    p_value: Number | None
    gate_ns: Number
    noise_ns: Number | None
    verdict: str
    reason: str
    too_noisy: bool = False


class ComparedPartEntry(Entries):
    """Comparison of a part with the base, or why it is not possible; see `harness.analysis.timing.Comparison`."""

    name: str
    verdict: str = ""
    reasons: Sequence[str] = ()
    shifts: Sequence[ShiftEntry] = ()
    delta: Number | None = None
    delta_interval: Mapping[str, Any] | None = None
    not_given: str = ""
    needs: int | None = None
    base_tail: Sequence[Sequence[Number]] = ()


class BaseEntry(Entries):
    """A former measurement."""

    run: str
    started: str
    readings_sha256: str = ""


class LevelEntry(Entries):
    """The largest standard deviation of the medians of a part between `count` runs, boots or days, a share."""

    between: str
    count: int
    deviation: float


class AgainstEntry(Entries):
    """The comparison with a former measurement; `history` are those that show the noise.

    `levels` is the noise that these measurements have, `limits` states the noise that no gate contains.
    """

    parts: Sequence[ComparedPartEntry]
    regressed: bool
    slower: Sequence[str]
    too_noisy: Sequence[str] = ()
    base: BaseEntry
    history: Sequence[BaseEntry]
    levels: Sequence[LevelEntry] = ()
    limits: Sequence[str] = ()
    changed: Sequence[ChangeEntry]


class MeasurementDocument(Provenance):
    """The content of `run.json` of a measurement; `content_sha256` and `files` are added when it is finished."""

    kind: Annotated[str, CHECKED_BY_REQUEST]
    measured: MeasuredEntry
    outputs: OutputsEntry
    clock: Annotated[ClockEntry, UNCHECKED]
    state: Annotated[StateEntry, UNCHECKED]
    load: Annotated[LoadEntry, UNCHECKED]
    parts: Annotated[Sequence[PartEntry], CheckedBy("numbers")]
    devices: Annotated[Sequence[DeviceTime], UNCHECKED]
    readings: Annotated[ReadingsEntry, CheckedBy("numbers")]
    against: Annotated[AgainstEntry | None, CheckedBy("against")] = None
    verdict: Annotated[str, CHECKED_BY_VERDICT]
    reason: Annotated[str, CHECKED_BY_VERDICT]
    content_sha256: Annotated[str | None, CheckedBy("content")] = None
    files: Annotated[Mapping[str, str], CheckedBy("files")] = Field(default_factory=dict)


class AnyDocument(MeasurementDocument, RunDocument):
    """The entries of both documents, for readers of either; entries of the other document are missing."""

    kind: str = "run"
    wall_s: Number = OMITTED
    layers: Sequence[LayerEntry] = ()
    measured: MeasuredEntry = OMITTED
    outputs: OutputsEntry = OMITTED
    parts: Sequence[PartEntry] = ()

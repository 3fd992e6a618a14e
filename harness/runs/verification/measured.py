"""Numbers of a measurement that follow from its readings, and the correctness of its outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.compare import NOTHING, Comparison, compare
from harness.analysis.timing.comparison import Verdict
from harness.core.arrays import Array
from harness.core.file_digest import file_sha256
from harness.core.safe_io import read_document
from harness.execution import dumps
from harness.model.onnx_runtime.hostcheck import instruction_set
from harness.plan.plan import Plan
from harness.reference.stimuli import Stimuli
from harness.runs.entries import MeasurementDocument
from harness.runs.folder import WRONG_OUTPUTS, WRONG_OUTPUTS_DUMP
from harness.runs.measurement import facts, parts, segments, statistics
from harness.runs.measurement.base import READINGS_FILE, Base
from harness.runs.measurement.document import against as compared_with
from harness.runs.measurement.document import judge, not_met
from harness.runs.measurement.parts import MeasuredPart
from harness.runs.measurement.request import MeasurementOptions, Quantity
from harness.runs.measurement.segments import Readings
from harness.runs.verification.claims import (
    ContradictionError,
    Progress,
    UncheckedError,
    array_of,
    require_equal,
    reworded,
)
from harness.runs.verification.folder import RUN, Evidence
from harness.runs.verification.results import reference_of

CLOSE = 1e-6  # of statistics: with other instructions of the processor they differ by 1e-11


@dataclass(frozen=True)
class Measurement:
    """A finished measurement, its plan and vectors."""

    evidence: Evidence
    plan: Plan
    vectors: Stimuli

    @property
    def options(self) -> MeasurementOptions:
        """Return the measured quantity from the run document."""
        run, said = self.evidence.run, self.evidence.run["measured"]
        quantity, load = Quantity(said["quantity"]), run["load"]["name"]
        return MeasurementOptions(said["samples"], said["scope"], quantity, load, said["warmup"], said["duration_s"])

    @property
    def ran_on(self) -> list[str]:
        """Return where each item ran."""
        return [item["ran_on"] for item in self.evidence.run["plan"]["items"]]


def measured(subject: Measurement) -> str:
    """Check the measurement for consistency with itself, with the plan, and with the output of the board."""
    run, options = subject.evidence.run, subject.options
    said, each = run["measured"], run["state"]["segments"]
    elapsed_ns = sum(segment["elapsed_ns"] for segment in each)
    found = {
        "interval": parts.interval(subject.plan, options),
        "unit": options.quantity.unit,
        "block": subject.plan.block,
        "samples": subject.vectors.count * len(each),
        "segment": subject.vectors.count,
        "segments": len(each),
        "pause_s": segments.pause_s(options),
        "cycle_ns": elapsed_ns / said["samples"],
        "memory_lock_asked": "--lock-memory" in said["options"],
        "dma_latency_asked": "--dma-latency" in said["options"],
        "not_met_because": not_met(subject.plan, subject.ran_on, options, run["board"]["environment"]),
    }
    require_equal(f"{RUN}, measured,", {key: reworded(said[key]) for key in found}, found)
    planned = [dataclasses.asdict(part) for part in parts.planned(subject.plan, subject.ran_on, options)]
    names = [field.name for field in dataclasses.fields(MeasuredPart)]
    require_equal(f"{RUN}, parts,", [{name: part[name] for name in names} for part in run["parts"]], planned)
    return f"{said['quantity']} of the {options.scope}: {said['samples']:,} executions in {len(each):,} processes"


def outputs(subject: Measurement, progress: Progress) -> str:
    """Check that the reference, computed again, gives the outputs of every segment, except the recorded wrong ones."""
    expected = _right(subject, progress)
    right, run = dumps.sha256(expected), subject.evidence.run
    if "sha256" not in run["outputs"]:
        raise UncheckedError(f"{RUN} has no hashes of them: written by an older version")
    segments_of = run["outputs"]["sha256"]
    if sum(segments_of.values()) != run["measured"]["segments"] or not all(count > 0 for count in segments_of.values()):
        raise ContradictionError(f"{RUN} has the outputs of {sum(segments_of.values())} segments, not of all")
    wrong = {sha256: count for sha256, count in segments_of.items() if sha256 != right}
    if not wrong and (subject.evidence.path / WRONG_OUTPUTS).exists():
        raise ContradictionError(f"{WRONG_OUTPUTS} has wrong outputs, but {RUN} has only right ones")
    compared = NOTHING if not wrong else _first_wrong(subject, expected, wrong)
    said = {key: run["outputs"][key] for key in ("compared", "first", "own")}
    first = dataclasses.asdict(compared.first) if compared.first else None
    found = {"compared": expected.size * run["measured"]["segments"], "first": first, "own": 0}
    require_equal(f"{RUN}, outputs,", said, found)
    _require_count(run["outputs"]["differing"], compared.differing, wrong)
    if wrong:
        return f"wrong in {sum(wrong.values()):,} of {run['measured']['segments']:,} segments, as {RUN} says"
    asked = subject.evidence.request.get("reference")
    by = f" by {', '.join(asked)}" if asked else ""
    return (
        f"{said['compared']:,}, computed again for {len(expected):,} vectors{by}: those of every segment, {right[:16]}"
    )


def _right(subject: Measurement, progress: Progress) -> Array:
    """Return the last layer's activations, (vectors, width); ReferenceFailed on an unsuitable machine."""
    with progress("computing the reference again", subject.vectors.count) as bar:
        reference = reference_of(subject.evidence, subject.plan.network)
        found = reference.activations(subject.vectors.chunk(0, subject.vectors.count))[-1]
        bar.advance(len(found))
    return found


def _first_wrong(subject: Measurement, expected: Array, wrong: Mapping[str, int]) -> Comparison:
    """Compare the first wrong outputs again; ContradictionError if they are not the run's."""
    path = subject.evidence.path
    if not (path / WRONG_OUTPUTS_DUMP).exists():
        raise ContradictionError(f"{sum(wrong.values())} segments had wrong outputs; there is no {WRONG_OUTPUTS_DUMP}")
    sha256 = file_sha256(path / WRONG_OUTPUTS_DUMP)
    if sha256 not in wrong:
        raise ContradictionError(f"{WRONG_OUTPUTS_DUMP} is {sha256}, no segment's wrong outputs")
    shape = expected.shape[0], expected.shape[1]
    found = compare(expected, dumps.read_array(path / WRONG_OUTPUTS_DUMP, expected.dtype, shape, sha256))
    said = {key: value for key, value in read_document(path / WRONG_OUTPUTS).items() if key != "board"}
    require_equal(f"{WRONG_OUTPUTS},", said, dataclasses.asdict(found))
    return found


def _require_count(said: int, first: int, wrong: Mapping[str, int]) -> None:
    """Require the count of wrong outputs: exact for one kind of error, else a lower bound."""
    if len(wrong) == 1:
        require_equal(f"{RUN}, outputs.differing,", said, first * sum(wrong.values()))
    elif said < first + sum(wrong.values()) - 1 or bool(said) is not bool(wrong):
        raise ContradictionError(f"{RUN}, outputs.differing, is {said}, and {sum(wrong.values())} segments were wrong")


def numbers(evidence: Evidence, progress: Progress) -> str:
    """Check that the statistics of every part follow from its readings."""
    run, readings = evidence.run, readings_of(evidence)
    with progress("computing the statistics again", len(run["parts"])) as bar:
        for index, recorded in enumerate(run["parts"]):
            found = _part(recorded, run, readings[:, index])
            _require_close(run, readings, f"{RUN}, part {recorded['name']},", recorded, found)
            bar.advance(1)
    return f"those of {len(run['parts'])} parts follow from {len(readings):,} executions in {READINGS_FILE}"


def _require_close(run: Mapping[str, Any], readings: Readings, what: str, recorded: Any, found: Any) -> None:
    """Require the same statistics; UncheckedError if another processor or revision may explain a difference."""
    try:
        require_equal(what, recorded, found, close=CLOSE)
    except ContradictionError as error:
        medians = [part["summary"]["median_ns"] for part in run["parts"] if "summary" in part]
        fractions = bool(medians) and all(isinstance(median, float) for median in medians)
        if fractions and medians == np.median(readings, axis=0).tolist():
            why = "it has interpolated medians, as earlier revisions computed: verify it with its revision"
            raise UncheckedError(f"{error}; {why}") from error
        if run["reference"]["isa"] == instruction_set():
            raise
        raise UncheckedError(f"{error}; it was computed by another processor than this") from error


def readings_of(evidence: Evidence) -> Readings:
    """Return the readings, (executions, parts); ContradictionError if they are not those of the document."""
    run, path = evidence.run, evidence.path / READINGS_FILE
    require_equal(f"{RUN}, readings,", run["readings"], {"file": READINGS_FILE, "sha256": file_sha256(path)})
    readings = array_of(path)
    shape = (run["measured"]["samples"], len(run["parts"]))
    if readings.dtype != np.uint64 or readings.shape != shape:
        raise ContradictionError(f"{READINGS_FILE} is {readings.dtype} {readings.shape}, not uint64 {shape}")
    return np.array(readings)


def _part(recorded: Mapping[str, Any], run: Mapping[str, Any], readings: Readings) -> dict[str, Any]:
    part = MeasuredPart(**{field.name: recorded[field.name] for field in dataclasses.fields(MeasuredPart)})
    if run["measured"]["quantity"] == Quantity.TIME.value:
        return statistics.times(part, readings)
    return statistics.counts(part, readings, run["clock"]["constant"], run["measured"]["segment"])


def against(evidence: Evidence) -> str:
    """Check that the comparison gives the same result, if the base run is in the same runs folder."""
    run = evidence.run
    said = run["against"]
    bases = tuple(base_of(evidence, entry) for entry in (said["base"], *said["history"]))
    readings = readings_of(evidence)
    found = compared_with(MeasurementDocument.view(run), readings, bases) or {}
    if not evidence.is_of_here:  # an earlier version stated no limits
        found = {key: value for key, value in found.items() if key in said}
    _require_close(run, readings, f"{RUN}, against,", said, found)
    return f"{said['base']['run']} is here, as are {len(said['history'])} others: compared again, the same"


def base_of(evidence: Evidence, said: Mapping[str, Any]) -> Base:
    """Read the base measurement; UncheckedError if it is not in the same runs folder, or is another one."""
    folder = evidence.path.absolute().parent / Path(said["run"]).name
    try:
        document, sha256 = read_document(folder / RUN), file_sha256(folder / READINGS_FILE)
    except (OSError, ValueError) as error:
        raise UncheckedError(f"{said['run']} is not in the same runs folder: {error}") from error
    if sha256 != said.get("readings_sha256"):
        raise UncheckedError(f"{folder} is not the base of the comparison: its readings differ")
    return Base(folder, MeasurementDocument.view(document), np.array(array_of(folder / READINGS_FILE)))


def verdict(evidence: Evidence) -> str:
    """Check that the verdict follows from outputs, numbers and comparison."""
    run = evidence.run
    _require_consistent(run)
    found, reason = judge(MeasurementDocument.view(run))
    said = {"verdict": run["verdict"], "reason": reworded(run["reason"])}
    require_equal(RUN, said, {"verdict": found, "reason": reason})
    return f"{found}: {reason}"


def _require_consistent(run: Mapping[str, Any]) -> None:
    """Require that no simulated time is a MET, and that the list of slower parts agrees with the parts."""
    document = MeasurementDocument.view(run)
    try:
        facts.gather(document)
    except ValueError as error:
        raise ContradictionError(f"{RUN} contradicts itself: {error}") from error
    if run["against"]:
        parts = run["against"]["parts"]
        slower = statistics.of_verdict(parts, Verdict.SLOWER)
        require_equal(f"{RUN}, against.slower,", run["against"]["slower"], slower)
        noisy = statistics.too_noisy(parts)
        require_equal(f"{RUN}, against.too_noisy,", run["against"].get("too_noisy", []), noisy)

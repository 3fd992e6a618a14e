"""A measurement's document, the content of `run.json`, and its verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness import targets
from harness.analysis import timing
from harness.analysis.timing.comparison import TOO_NOISY, gate_text
from harness.boards.tuning import Load, Setting, Snapshot, differences, failure_notes, throttled, unseen
from harness.core.file_digest import file_sha256
from harness.plan.plan import Plan
from harness.runs import document as run_document
from harness.runs import entries
from harness.runs.entries import AgainstEntry, MeasurementDocument, PartEntry
from harness.runs.job import Job
from harness.runs.measurement import devices, statistics
from harness.runs.measurement import segments as measured_segments
from harness.runs.measurement.base import READINGS_FILE, Base
from harness.runs.measurement.config_diff import changed
from harness.runs.measurement.devices import DeviceTime
from harness.runs.measurement.headline import headline
from harness.runs.measurement.parts import MeasuredPart, interval, parts_of
from harness.runs.measurement.request import MeasurementOptions, Quantity
from harness.runs.measurement.segments import Probe, Readings, Segment


@dataclass(frozen=True)
class Priority:
    """Priority of SCHED_FIFO, None for the default scheduler; and why it is not that of the profile."""

    fifo: int | None
    refused: str


@dataclass(frozen=True)
class Cpu:
    """Processor times of a thread, ns (executions, columns), and the mean of two readings one behind the other."""

    readings: Readings
    cost_ns: float


@dataclass(frozen=True)
class Measured:
    """All that came from the board; `options` started every process of its program.

    `cpu` are the processor times, all, in user space and in the kernel, if requested.
    """

    environment: dict[str, str]
    settings: tuple[Setting, ...]
    drifted: tuple[str, ...]
    load: Load
    probe: Probe
    segments: tuple[Segment, ...]
    snapshots: tuple[Snapshot, ...]
    priority: Priority
    options: tuple[str, ...]
    cpu: Mapping[Quantity, Cpu] = field(default_factory=dict)


def conclude(
    job: Job, options: MeasurementOptions, measured: Measured, readings: Readings, bases: Sequence[Base]
) -> MeasurementDocument:
    """Return the whole measurement."""
    parts = [_part(part, readings[:, i], measured, options) for i, part in enumerate(parts_of(job, options))]
    found = MeasurementDocument(
        **dict(run_document.origin(job, measured.environment, [])),
        kind="measure",
        measured=_measured(job, options, measured),
        outputs=_outputs(measured.segments),
        clock=_clock(job, measured.probe, options),
        state=_state(measured, job.profile.timing.frequency_khz),
        load=entries.LoadEntry(**statistics.plain(measured.load)),
        parts=[PartEntry(**statistics.plain(part)) for part in parts],
        devices=_device_times(measured),
        readings=entries.ReadingsEntry(file=READINGS_FILE, sha256=file_sha256(job.folder.path / READINGS_FILE)),
        against=None,
        verdict="",
        reason="",
    )
    compared = statistics.plain(against(found, readings, bases))
    found = found.model_copy(update={"against": compared and AgainstEntry(**compared)})
    verdict, reason = judge(found)
    return found.model_copy(update={"verdict": verdict, "reason": reason})


def _part(part: MeasuredPart, readings: Readings, measured: Measured, options: MeasurementOptions) -> dict[str, Any]:
    if options.quantity is Quantity.TIME:
        return statistics.times(part, readings)
    return statistics.counts(part, readings, measured.probe.constant, len(measured.segments[0].readings))


def _outputs(segments: Sequence[Segment]) -> entries.OutputsEntry:
    """Return the correctness and hashes of the outputs."""
    result = measured_segments.outputs(segments)
    return entries.OutputsEntry(
        compared=result.compared,
        differing=result.differing,
        first=result.first,
        own=result.own,
        sha256=measured_segments.hashes(segments),
    )


def _device_times(measured: Measured) -> tuple[DeviceTime, ...]:
    return devices.together(time for segment in measured.segments for time in segment.devices)


def _measured(job: Job, options: MeasurementOptions, measured: Measured) -> entries.MeasuredEntry:
    """Return the options, what the system granted, and whether the readings are MET."""
    segments = measured.segments
    return entries.MeasuredEntry(
        scope=options.scope,
        interval=interval(job.plan, options),
        quantity=options.quantity.value,
        unit=options.quantity.unit,
        block=job.plan.block,
        samples=sum(len(segment.readings) for segment in segments),
        segment=len(segments[0].readings),
        segments=len(segments),
        warmup=options.warmup,
        duration_s=options.duration_s,
        pause_s=measured_segments.pause_s(options),
        cycle_ns=sum(segment.elapsed_ns for segment in segments) / sum(len(one.readings) for one in segments),
        options=measured.options,
        fifo=measured.priority.fifo,
        fifo_refused=measured.priority.refused,
        memory_lock_asked="--lock-memory" in measured.options,
        memory_locked=all(segment.memory_locked for segment in segments),
        dma_latency_asked="--dma-latency" in measured.options,
        dma_latency_held=all(segment.dma_latency_held for segment in segments),
        not_met_because=not_met(job.plan, run_document.where_of(job), options, measured.environment),
    )


def not_met(plan: Plan, ran_on: Sequence[str], options: MeasurementOptions, environment: Mapping[str, str]) -> str:
    """Return why the readings are not MET of the board; empty if they are.  `ran_on` is where each item ran."""
    stand_ins = [
        f"item {item.name} ran on {where}"
        for item, where in zip(plan.items, ran_on, strict=True)
        if where != targets.HARDWARE
    ]
    if options.quantity is not Quantity.TIME:
        return "; ".join([f"{options.quantity.value} were counted, no time was measured", *stand_ins])
    virtual = ["the board is a virtual machine, whose times depend on its host"]
    return "; ".join([*stand_ins, *(virtual if "virtual_machine" in environment else [])])


def _clock(job: Job, probe: Probe, options: MeasurementOptions) -> entries.ClockEntry:
    """Return the clock, or the counter, and what a reading of it costs."""
    readings = probe.readings
    counter = f"{options.quantity.value} (perf_event)"
    return entries.ClockEntry(
        source=job.profile.time_source if options.quantity is Quantity.TIME else counter,
        resolution_ns=probe.resolution_ns,
        readings=int(readings.size),
        cost=entries.SummaryEntry(**statistics.plain(timing.summarise(readings))),
        constant=probe.constant,
    )


def _state(measured: Measured, wanted_khz: int | None) -> entries.StateEntry:
    """Return what was set, what the board said before, between and after the segments, whether it throttled."""
    segments = [
        entries.SegmentEntry(
            begun=segment.begun,
            elapsed_ns=segment.elapsed_ns,
            process=segment.disturbances,
            board=statistics.plain(differences(before, after)),
        )
        for segment, before, after in zip(measured.segments, measured.snapshots, measured.snapshots[1:], strict=False)
    ]
    return entries.StateEntry(
        settings=[entries.SettingEntry(**dataclasses.asdict(setting)) for setting in measured.settings],
        snapshots=[statistics.plain(snapshot) for snapshot in measured.snapshots],
        segments=segments,
        throttled=throttled(measured.snapshots, wanted_khz),
        unseen=unseen(measured.snapshots),
        told=failure_notes(measured.settings),
        drifted=measured.drifted,
    )


def against(document: MeasurementDocument, readings: Readings, bases: Sequence[Base]) -> dict[str, Any] | None:
    """Return whether anything moved since the first of these measurements, and what else did, as JSON types.

    The other measurements give the noise.
    """
    if not bases:
        return None
    names, counted = [part.name for part in document.parts], document.measured.quantity != Quantity.TIME.value
    before, *earlier = (_of_the_network(base.readings, base.document) for base in bases)
    found = statistics.against(names, before, _of_the_network(readings, document), earlier, counted=counted)
    runs = [
        {"run": base.folder.name, "started": base.document.started, "readings_sha256": base.document.readings.sha256}
        for base in bases
    ]
    found |= {"base": runs[0], "history": runs[1:], "changed": changed(bases[0].document, document)}
    if counted:
        return found
    groups = {
        "runs": [base.folder.name for base in bases],
        "boots": [getattr(base.document.board, "boot_id", "") for base in bases],
        "days": [base.document.started[:10] for base in bases],
    }
    medians = np.array([np.median(base.readings, axis=0) for base in bases])
    new = {"boots": getattr(document.board, "boot_id", ""), "days": document.started[:10]}
    return found | {"levels": statistics.levels(medians, groups), "limits": statistics.limits(groups, new)}


def _of_the_network(readings: Readings, document: MeasurementDocument) -> statistics.Readings:
    """Return each vector's least count without the cost of its reading; for times, return all readings."""
    if document.measured.quantity == Quantity.TIME.value:
        return readings
    taken_off = np.array([part.taken_off for part in document.parts], np.int64)
    return statistics.least_of_each(readings.astype(np.int64) - taken_off, document.measured.segment)


def judge(document: MeasurementDocument) -> tuple[str, str]:
    """Return the verdict and its reason, one word and one sentence."""
    outputs, compared = document.outputs, document.against
    if outputs.differing:
        return "differs", f"{outputs.differing:,} of {outputs.compared:,} outputs are not the reference's"
    if document.measured.unit == "instructions" and (found := _variation(document.parts)):
        return found
    if compared and compared.regressed:
        slower = f"slower than {compared.base.run}: {', '.join(compared.slower)}"
        return "regressed", "; ".join((slower, *compared.limits))
    if compared and compared.too_noisy:
        return "inconclusive", f"{TOO_NOISY}: {'; '.join(_noisy_gates(compared))}"
    return "measured", headline(document)


def _noisy_gates(compared: AgainstEntry) -> Iterator[str]:
    """Yield a sentence for every gate that is too wide, the statistics of a part together."""
    for part in compared.parts:
        if part.name in compared.too_noisy:
            noisy = (shift for shift in part.shifts if shift.too_noisy)
            gates = ", ".join(f"{shift.of} {gate_text(shift.gate_ns, shift.base_ns)}" for shift in noisy)
            yield f"{part.name}: {gates}"


def _variation(parts: Sequence[PartEntry]) -> tuple[str, str] | None:
    """Return what the first function's counts show that are not all the same: data, or a counter that is not exact."""
    varying = [part for part in parts if part.alone and part.distinct > 1]
    if not varying:
        return None
    first = next((part for part in varying if part.repeatable), varying[0])
    takes = f"{first.function} takes {first.min:,} to {first.max:,} instructions"
    if first.repeatable:
        return "varies", f"{takes}, each vector always the same: its control flow depends on data"
    return "inconclusive", f"{takes}, for one vector now more, now fewer: this board's counter is not exact"


def summary(document: MeasurementDocument, folder: Path) -> dict[str, Any]:
    """Return the part of the document that `--json` prints."""
    kept = ("verdict", "reason", "measured", "outputs", "clock", "load", "wall_s")
    drawn = ("histogram", "body", "tail", "base_tail", "timeline")
    content = document.to_json()
    against = content["against"]
    return {key: content[key] for key in kept} | {
        "parts": _without(drawn, content["parts"]),
        "against": against and against | {"parts": _without(drawn, against["parts"])},
        "throttled": document.state.throttled,
        "engines": content["reference"]["engines"],
        "board": document.board.name,
        "board_kind": document.board.kind,
        "model": document.model.name,
        "run": str(folder),
    }


def _without(keys: Sequence[str], parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in part.items() if key not in keys} for part in parts]

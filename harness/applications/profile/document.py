"""Profile of a network: times per node, totals per operator, and the distance from the roofline of the board.

A profile is a view of a measurement of layers.  Its folder also has the processor times of the threads:

    cpu.npy, user.npy, system.npy   processor times of every execution: all, in user space and in the kernel, ns
    profile.json                    the document, which follows from these files, run.json and the model
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from harness import __version__
from harness.boards.profile import Peak
from harness.core import installation
from harness.core.document import UNCHECKED, CheckedBy, Content, Document, Entries, write_json
from harness.core.installation import module_of
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.operations import moved_bytes
from harness.runs.entries import HarnessEntry, MeasurementDocument, PartEntry
from harness.runs.job import Job
from harness.runs.measurement.base import Base
from harness.runs.measurement.document import Cpu
from harness.runs.measurement.request import CPU_FILES, Quantity
from harness.runs.measurement.segments import PEAK_MEMORY, Readings

DOCUMENT = "profile.json"
SCHEMA = 1
NAMED_OUTLIERS = 3
DIVISIBLE = 100
"""Costs of a reading from which user and system times of a node are given.

Linux divides the time of a thread by the states that it finds at its ticks, and the readings run in the kernel: of a
shorter node, they would be more than 1 % of what is divided.
"""
CHECKED_BY_PROFILE = CheckedBy("profile")


class OutlierEntry(Entries):
    """Executions far above the others: how many, from which time, and the slowest by execution, vector and time."""

    count: int
    above_ns: float
    slowest: Sequence[Sequence[int]]


class NodeEntry(Entries):
    """A node: its median time in ns, or its least instructions, and what follows from it.

    `share` is that of the sum of all nodes.  `cpu_ns` is the mean processor time, `user_ns` and `system_ns` are its
    parts in user space and in the kernel, without the cost of the readings, not below 0; None for a node that is too
    short to be divided, see DIVISIBLE.  `bytes` are those of its constants, its inputs and its output, each once.
    `of_roof` is the share of the operations per second that the board's peaks permit.  `base` is the amount of the
    profile to compare with.
    """

    name: str
    node: str
    operator: str
    specification: str
    ran_on: str
    amount: float
    share: float
    cpu_ns: float | None
    user_ns: float | None
    system_ns: float | None
    outliers: OutlierEntry | None
    operations: int
    bytes: int
    operations_per_s: float | None
    bytes_per_s: float | None
    of_roof: float | None
    base: float | None
    ratio: float | None


class OperatorEntry(Entries):
    """The sums of all nodes of an operator."""

    operator: str
    nodes: int
    amount: float
    share: float
    cpu_ns: float | None
    user_ns: float | None
    system_ns: float | None
    operations: int


class CpuEntry(Entries):
    """A measurement of processor times: executions, and the mean cost of a reading, which is taken off."""

    quantity: Annotated[str, CHECKED_BY_PROFILE]
    executions: Annotated[int, CHECKED_BY_PROFILE]
    cost_ns: Annotated[float, UNCHECKED]


class PeakEntry(Entries):
    """The peaks of the board, as its profile states them."""

    operations_per_s: Annotated[float, UNCHECKED]
    bytes_per_s: Annotated[float, UNCHECKED]


class ProfileDocument(Document):
    """The content of `profile.json`; `unit` is ns or instructions, `not_met_because` is empty for MET."""

    number: ClassVar[int | None] = SCHEMA

    schema_number: Annotated[int, CHECKED_BY_PROFILE] = Field(alias="schema")
    harness: Annotated[HarnessEntry, UNCHECKED]
    board: Annotated[str, CHECKED_BY_PROFILE]
    board_kind: Annotated[str, CHECKED_BY_PROFILE]
    model: Annotated[str, CHECKED_BY_PROFILE]
    model_sha256: Annotated[str, CHECKED_BY_PROFILE]
    readings_sha256: Annotated[str, CHECKED_BY_PROFILE]
    unit: Annotated[str, CHECKED_BY_PROFILE]
    not_met_because: Annotated[str, CHECKED_BY_PROFILE]
    executions: Annotated[int, CHECKED_BY_PROFILE]
    warmup: Annotated[int, CHECKED_BY_PROFILE]
    cpu: Sequence[CpuEntry]
    peak_memory_kib: Annotated[int | None, CHECKED_BY_PROFILE]
    peak: PeakEntry | None
    total: Annotated[OperatorEntry, CHECKED_BY_PROFILE]
    operators: Annotated[Sequence[OperatorEntry], CHECKED_BY_PROFILE]
    nodes: Annotated[Sequence[NodeEntry], CHECKED_BY_PROFILE]
    against: Annotated[str | None, CHECKED_BY_PROFILE]


def profile(
    content: Content,
    network: Network,
    readings: Readings,
    cpu: Mapping[Quantity, Cpu],
    peak: Peak | None,
    base: Content | None,
    revision: str | None,
) -> ProfileDocument:
    """Return the profile of a measurement of layers; `readings` are those of all executions, (executions, layers)."""
    run = MeasurementDocument.view(content)
    before = amounts_of(base) if base else {}
    total = sum(amounts_of(run).values())
    nodes = [
        _node(part, layer, readings[:, column], run, column, cpu, peak, total, before.get(part.name))
        for column, (part, layer) in enumerate(zip(run.parts, network.layers, strict=True))
    ]
    segments = [segment.process.get(PEAK_MEMORY) for segment in run.state.segments]
    known = [kib for kib in segments if kib is not None]
    return ProfileDocument(
        schema=SCHEMA,
        harness=HarnessEntry(version=__version__, revision=revision),
        board=run.board.name,
        board_kind=run.board.kind,
        model=run.model.name,
        model_sha256=run.model.sha256,
        readings_sha256=run.readings.sha256,
        unit=run.measured.unit,
        not_met_because=run.measured.not_met_because,
        executions=run.measured.samples,
        warmup=run.measured.warmup,
        cpu=[
            CpuEntry(quantity=quantity.value, executions=len(own.readings), cost_ns=own.cost_ns)
            for quantity, own in cpu.items()
        ],
        peak_memory_kib=max(known, default=None),
        peak=PeakEntry(operations_per_s=peak.operations_per_s, bytes_per_s=peak.bytes_per_s) if peak else None,
        total=_total("all", nodes, total),
        operators=sorted(_operators(nodes, total), key=lambda entry: -entry.amount),
        nodes=nodes,
        against=run.against.base.run if run.against else None,
    )


def amounts_of(content: Content) -> dict[str, float]:
    """Return the median time in ns, or the least number of events, of every part of a measurement by its name."""
    run = MeasurementDocument.view(content)
    timed = run.measured.unit == "ns"
    return {part.name: float(part.summary.median_ns if timed else part.min) for part in run.parts}


def _node(
    part: PartEntry,
    layer: Layer,
    readings: npt.NDArray[np.uint64],
    run: MeasurementDocument,
    column: int,
    cpu: Mapping[Quantity, Cpu],
    peak: Peak | None,
    total: float,
    before: float | None,
) -> NodeEntry:
    timed = run.measured.unit == "ns"
    amount = float(part.summary.median_ns if timed else part.min)
    seconds = amount / 1e9 if timed and amount else None
    moved = moved_bytes(layer)
    attained = layer.text.operations / seconds if seconds and layer.text.operations else None
    roof = min(peak.operations_per_s, layer.text.operations / moved * peak.bytes_per_s) if peak and attained else None
    return NodeEntry(
        name=part.name,
        node=layer.node,
        operator=layer.operator,
        specification=module_of(type(layer)),
        ran_on=part.ran_on,
        amount=amount,
        share=amount / total if total else 0.0,
        **processor_times(cpu, column, part.tasks),
        outliers=_outliers(part, readings, run.measured.segment) if timed else None,
        operations=layer.text.operations,
        bytes=moved,
        operations_per_s=attained,
        bytes_per_s=moved / seconds if seconds else None,
        of_roof=attained / roof if attained and roof else None,
        base=before,
        ratio=amount / before if before else None,
    )


def processor_times(cpu: Mapping[Quantity, Cpu], column: int, tasks: int) -> dict[str, float | None]:
    """Return `cpu_ns`, `user_ns` and `system_ns` of a node, see `NodeEntry`; `tasks` is the number of its readings."""
    means = {quantity: _mean(cpu.get(quantity), column, tasks) for quantity in CPU_FILES}
    cost_ns = tasks * sum(own.cost_ns for quantity, own in cpu.items() if quantity is not Quantity.CPU)
    divided = (means[Quantity.CPU] or 0.0) >= DIVISIBLE * cost_ns
    return {
        f"{quantity.value}_ns": mean if quantity is Quantity.CPU or divided else None
        for quantity, mean in means.items()
    }


def _mean(cpu: Cpu | None, column: int, tasks: int) -> float | None:
    """Return the mean of a part without the cost of its readings; None if it was not measured."""
    return max(float(cpu.readings[:, column].mean()) - tasks * cpu.cost_ns, 0.0) if cpu else None


def _outliers(part: PartEntry, readings: npt.NDArray[np.uint64], vectors: int) -> OutlierEntry | None:
    """Return the outliers of the series, see `harness.analysis.timing.series`; None if it was not analysed."""
    found = part.series.get("outliers")
    if found is None:
        return None
    slowest = np.argsort(readings, kind="stable")[::-1][: NAMED_OUTLIERS if found["count"] else 0]
    named = [[int(at), int(at) % vectors, int(readings[at])] for at in slowest if readings[at] > found["above_ns"]]
    return OutlierEntry(count=found["count"], above_ns=found["above_ns"], slowest=named)


def _operators(nodes: Sequence[NodeEntry], total: float) -> Iterator[OperatorEntry]:
    for operator in dict.fromkeys(node.operator for node in nodes):
        yield _total(operator, [node for node in nodes if node.operator == operator], total)


def _total(operator: str, nodes: Sequence[NodeEntry], total: float) -> OperatorEntry:
    amount = sum(node.amount for node in nodes)
    times = {key: [getattr(node, key) for node in nodes] for key in ("cpu_ns", "user_ns", "system_ns")}
    return OperatorEntry(
        operator=operator,
        nodes=len(nodes),
        amount=amount,
        share=amount / total if total else 0.0,
        **{key: None if None in values else sum(values) for key, values in times.items()},
        operations=sum(node.operations for node in nodes),
    )


def write(
    job: Job, document: MeasurementDocument, readings: Readings, cpu: Mapping[Quantity, Cpu], bases: Sequence[Base]
) -> None:
    """Write the processor times and the profile into the folder of a measurement."""
    folder = job.folder.path
    for quantity, own in cpu.items():
        np.save(folder / CPU_FILES[quantity], own.readings)
    base = bases[0].document if bases else None
    found = profile(document, job.network, readings, cpu, job.profile.peak, base, installation.revision())
    write_json(folder / DOCUMENT, found)


SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


def speedscope(document: ProfileDocument) -> dict[str, Any]:
    """Return the profile in the format of speedscope.app: one execution, the nodes in the order of the model.

    A stack is the network, the operator and the node.
    """
    frames: list[dict[str, Any]] = [{"name": document.model}]
    known: dict[str, int] = {}
    events: list[dict[str, Any]] = [{"type": "O", "frame": 0, "at": 0.0}]
    at = 0.0
    for node in document.nodes:
        for name in (node.operator, f"{node.operator} {node.name}"):
            if name not in known:
                known[name] = len(frames)
                frames.append({"name": name, "file": node.specification})
        pair = known[node.operator], known[f"{node.operator} {node.name}"]
        events += [{"type": "O", "frame": frame, "at": at} for frame in pair]
        at += node.amount
        events += [{"type": "C", "frame": frame, "at": at} for frame in reversed(pair)]
    events.append({"type": "C", "frame": 0, "at": at})
    caution = f", not MET: {document.not_met_because}" if document.not_met_because else ""
    return {
        "$schema": SPEEDSCOPE,
        "name": f"{document.model} on {document.board}{caution}",
        "exporter": f"harness {__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "evented",
                "name": "medians of all executions" if document.unit == "ns" else f"least {document.unit}",
                "unit": "nanoseconds" if document.unit == "ns" else "none",
                "startValue": 0.0,
                "endValue": at,
                "events": events,
            }
        ],
    }

"""Slabs of the domain as independent tasks: each has a few codes of one axis and all codes of the others.

A task needs nothing but its arguments, so that it runs in a thread, in a process or on another machine.
"""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.applications.decide.code_network import CodeNetwork
from harness.applications.decide.engine import Engine, sources_sha256
from harness.applications.decide.gpu import GpuEngine
from harness.applications.decide.partition import Partition, Sets
from harness.applications.decide.property import Rule

CODES_OF_A_SLAB = 4_000_000_000
"""At most this number of code vectors in a slab of several codes: less than a minute of one core."""


@dataclass(frozen=True, eq=False)
class Task:
    """One slab: codes `first` to `last` of axis `axis`, all codes of the others."""

    network: CodeNetwork
    rule: Rule
    low: tuple[int, ...]
    extent: tuple[int, ...]
    segments: tuple[npt.NDArray[np.uint16], ...]
    shape: tuple[int, ...]
    axis: int
    on_gpu: bool = False

    @property
    def first(self) -> int:
        """The first code of the slab axis."""
        return self.low[self.axis]

    @property
    def last(self) -> int:
        """The last code of the slab axis."""
        return self.first + self.extent[self.axis] - 1

    @property
    def code_vectors(self) -> int:
        """The number of code vectors."""
        return math.prod(self.extent)


@dataclass(frozen=True, eq=False)
class Result:
    """The decisions in each region of a slab, and how they were found; `cpu_s` is the time of the core or GPU."""

    first: int
    last: int
    code_vectors: int
    regions: Sets
    time_s: float
    cpu_s: float
    kernel: str
    engine_sha256: str
    machine: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of the decisions."""
        return hashlib.sha256(self.regions.tobytes()).hexdigest()


def slab_axis(partition: Partition) -> int:
    """Return the axis with the most codes, of equal ones the first."""
    return max(range(len(partition.codes)), key=lambda axis: (partition.codes[axis].count, -axis))


def codes_of_a_slab(partition: Partition, axis: int) -> int:
    """Return the number of codes of the slab axis in one slab."""
    return min(most_codes(partition, axis), -(-partition.codes[axis].count // 32))


def most_codes(partition: Partition, axis: int) -> int:
    """Return the greatest number of codes of the slab axis in one slab."""
    return max(1, CODES_OF_A_SLAB // (partition.code_vectors // partition.codes[axis].count))


def tasks(
    network: CodeNetwork, rule: Rule, partition: Partition, axis: int, width: int, *, on_gpu: bool = False
) -> list[Task]:
    """Return the slabs with `width` codes of the axis; together they have each code vector of the domain once."""
    low = tuple(codes.low for codes in partition.codes)
    extent = tuple(codes.count for codes in partition.codes)
    segments = tuple(codes.segment for codes in partition.codes)
    whole = Task(network, rule, low, extent, segments, partition.region_shape, axis, on_gpu)
    found = []
    for start in range(0, extent[axis], width):
        first = low[axis] + start
        last = min(first + width, low[axis] + extent[axis]) - 1
        before, after = (int(segments[axis][code]) for code in (first, last))
        shifted = (segments[axis].astype(np.int64) - before).astype(np.uint16)
        found.append(
            replace(
                whole,
                low=_changed(low, axis, first),
                extent=_changed(extent, axis, last - first + 1),
                segments=(*segments[:axis], shifted, *segments[axis + 1 :]),
                shape=_changed(partition.region_shape, axis, after - before + 1),
            )
        )
    return found


def engine_of(network: CodeNetwork, rule: Rule, *, on_gpu: bool) -> Engine:
    """Return the engine on a core, or on the GPU of this machine; ToolError if there is none."""
    return GpuEngine(network, rule) if on_gpu else Engine(network, rule)


def decide(task: Task) -> Result:
    """Decide all code vectors of a slab; ToolError if the engine cannot be compiled or memory is lacking."""
    engine = engine_of(task.network, task.rule, on_gpu=task.on_gpu)
    began_s, began_cpu_s = time.monotonic(), time.thread_time()
    regions, count = engine.decide(task.low, task.extent, task.segments, task.shape)
    took_s = time.monotonic() - began_s
    cpu_s = took_s if task.on_gpu else time.thread_time() - began_cpu_s
    by = (engine.kernel, sources_sha256(), platform.node())
    return Result(task.first, task.last, count, regions, took_s, cpu_s, *by)


def add_to_boxes(boxes: Sets, partition: Partition, result: Result, axis: int) -> None:
    """Add the decisions of a slab to those of all boxes, uint8 of the partition's shape."""
    regions = partition.by_box(result.regions, (other for other in range(len(partition.axes)) if other != axis))
    start = int(partition.codes[axis].segment[result.first])
    along, target = np.moveaxis(regions, axis, 0), np.moveaxis(boxes, axis, 0)
    for offset, sets in enumerate(along):
        for interval in partition.codes[axis].members[start + offset]:
            target[interval] |= sets


def _changed(values: Sequence[int], axis: int, value: int) -> tuple[int, ...]:
    return (*values[:axis], value, *values[axis + 1 :])

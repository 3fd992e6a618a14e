"""Measurement of the deployed program: segments of executions, each in its own process, one vector at a time.

Every segment executes the same vectors, so that segments have the same work.  Each execution has its own reading.  The
output of the last layer is compared with the reference, because times of a wrong program are worthless.  The state of
the board is recorded between segments.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from harness import targets
from harness.analysis.compare import NOTHING, Comparison, compare
from harness.analysis.timing.sample import LONGEST_NS
from harness.boards.session import Deadline
from harness.core.arrays import Array
from harness.core.errors import BoardError
from harness.execution import dumps, program
from harness.execution.program import Deployed
from harness.plan.plan import Item
from harness.runs import folder
from harness.runs.job import Job
from harness.runs.measurement import devices
from harness.runs.measurement.devices import DeviceTime
from harness.runs.measurement.parts import names_of
from harness.runs.measurement.request import MeasurementOptions, Quantity

READINGS = 100_000
READINGS_A_KIB = 16
"""Readings for each KiB of memory of a processor without an operating system: they take an eighth of it."""
MOST_SEGMENTS = 500  # a longer duration spreads them evenly
PEAK_MEMORY = "peak_memory_kib"
DISTURBANCES = ("voluntary_switches", "involuntary_switches", "minor_faults", "major_faults")
UINT64 = np.dtype(np.uint64)

Readings: TypeAlias = npt.NDArray[np.uint64]
"""Nanoseconds or events of single executions, in the order of measurement."""


@dataclass(frozen=True)
class Probe:
    """Cost of a reading: the differences of consecutive readings, and the resolution that the clock reports.

    `resolution_ns` is that of the clock also where events are counted.
    """

    readings: Readings
    resolution_ns: float

    @property
    def constant(self) -> int | None:
        """Return the constant difference of two consecutive readings; None if it is not constant."""
        low, high = int(self.readings.min()), int(self.readings.max())
        return low if low == high else None


@dataclass(frozen=True)
class Segment:
    """One process's executions: (n, columns) readings, its output against the reference, what disturbed it.

    `disturbances` also has the peak of the resident memory, see PEAK_MEMORY.
    `outputs_sha256` is that of the last layer's dump, `elapsed_ns` what they took with all that lies between them.
    """

    begun: str
    readings: Readings
    outputs: Comparison
    outputs_sha256: str
    memory_locked: bool
    dma_latency_held: bool
    disturbances: dict[str, int]
    elapsed_ns: int
    devices: tuple[DeviceTime, ...]


@dataclass(frozen=True)
class Work:
    """The vectors of every process, a file on the board, and the last layer's activations for them."""

    vectors: str
    expected: Array


@dataclass(frozen=True)
class Measurer:
    """A deployed program, and the arguments of every process of it.

    Every method raises BoardError if the program fails or its output is incomplete.
    """

    job: Job
    deployed: Deployed
    options: MeasurementOptions
    arguments: Sequence[str]

    def probe(self) -> Probe:
        """Measure the cost of a reading, on the core and with the priority of the first item."""
        processor = self.job.profile.bare_metal
        count = min(READINGS, processor.data.kib * READINGS_A_KIB) if processor else READINGS
        answer = self._run("--readings", str(count))
        resolution_ns = answer.get("resolution_ns")
        if answer.get("readings") != count or not _is_time(resolution_ns):
            raise BoardError(f"the program on the board reports {answer!r} of {count} readings")
        [readings] = self._fetch(("readings.npy", UINT64, (count, 1)))
        return Probe(_possible(readings)[:, 0], float(resolution_ns))

    def work(self) -> Work:
        """Copy the vectors of the stimuli to the board, and return them with their reference."""
        vectors = self.job.stimuli.chunk(0, self.job.stimuli.count)
        expected = self.job.reference.activations(vectors)[-1]
        there = self.deployed.run_folder / "vectors.npy"
        with tempfile.TemporaryDirectory() as scratch:
            dumps.write(Path(scratch) / there.name, vectors)
            self.deployed.board.put(Path(scratch) / there.name, there)
        return Work(str(there), expected)

    def segments(self, work: Work) -> Iterator[Segment]:
        """Yield segments until samples and time are reached, each of all vectors of the stimuli.

        A duration of more than MOST_SEGMENTS segments is covered by MOST_SEGMENTS segments at even intervals.
        """
        size = self.job.stimuli.count
        done, duration_s = 0, self.options.duration_s or 0.0
        deadline = Deadline.after(duration_s)
        while done < self.options.samples or not deadline.passed:
            next_one = Deadline.after(pause_s(self.options))
            yield self._segment(work.vectors, work.expected)
            done += size
            if done >= self.options.samples:
                time.sleep(min(next_one.remaining_s, deadline.remaining_s))

    def _segment(self, vectors: str, expected: Array) -> Segment:
        begun = f"{folder.now():%Y-%m-%dT%H:%M:%SZ}"
        scope = ("--time", self.options.scope, "--warmup", str(self.options.warmup))
        answer = self._run("--vectors", vectors, "--dump", "last", *scope)
        (count, width), columns = expected.shape, len(names_of(self.job.plan, self.options))
        if answer.get("samples") != count:
            raise BoardError(f"the program on the board reports {answer.get('samples')} executions, not {count}")
        last = len(self.job.network.layers) - 1
        name = dumps.file_name(last, self.job.network.layers[last])
        outputs, readings = self._fetch((name, expected.dtype, (count, width)), ("time.npy", UINT64, (count, columns)))
        compared = compare(expected, outputs)
        if compared.differing:
            self.job.folder.note_wrong_outputs(compared, outputs, self.job.identity)
        return Segment(
            begun,
            _possible(readings),
            compared,
            dumps.sha256(outputs),
            bool(answer.get("memory_locked")),
            bool(answer.get("dma_latency_held")),
            {name: _count(answer, name) for name in DISTURBANCES} | _peak_memory(answer),
            _count(answer, "elapsed_ns"),
            tuple(device_time for item in self.job.plan.items for device_time in self._device_times(item)),
        )

    def _device_times(self, item: Item) -> tuple[DeviceTime, ...]:
        """Return the times that the item's device reports; none for the processor."""
        if self.options.quantity is not Quantity.TIME or not targets.find(item.target).reports_times:
            return ()
        board, there = self.deployed.board, self._out / f"times_{item.name}.jsonl"
        with tempfile.TemporaryDirectory() as scratch:
            here = Path(scratch) / there.name
            program.fetch_whole(board, there, here, devices.LARGEST_FILE)
            return devices.parse(item.name, here.read_text(encoding="utf-8", errors="replace"))

    def _run(self, *arguments: str) -> dict[str, Any]:
        """Return the program's last line."""
        out = ("--out", str(self._out))
        counted = ("--count", self.options.quantity.value)
        return program.run_program(
            self.deployed, [*arguments, *out, *counted, *self.arguments], self.job.profile.timeout_s
        )

    @property
    def _out(self) -> PurePosixPath:
        return program.out_folder(self.deployed.run_folder, 0)

    def _fetch(self, *files: tuple[str, np.dtype[Any], tuple[int, int]]) -> list[Array]:
        """Fetch files that the program has just written, by name, type and shape (rows, width)."""
        return program.fetch_arrays(
            self.deployed.board, [(self._out / name, dtype, shape) for name, dtype, shape in files]
        )


def _possible(readings: Readings) -> Readings:
    """Return the readings; BoardError for values that no clock or counter can have."""
    if readings.max() > LONGEST_NS:
        raise BoardError(f"the program on the board has a reading of {readings.max():,}: not a value of a clock")
    return readings


def pause_s(options: MeasurementOptions) -> float:
    """Return the least time from the start of a segment to the start of the next, s."""
    return (options.duration_s or 0.0) / MOST_SEGMENTS


def _is_time(value: Any) -> TypeGuard[float]:
    """Return whether a JSON value is a time of a clock."""
    return isinstance(value, int | float) and 0 <= value <= LONGEST_NS


def _count(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise BoardError(f"the program on the board reports {value!r} {name.replace('_', ' ')}")
    return value


def _peak_memory(answer: dict[str, Any]) -> dict[str, int]:
    """Return the peak of the resident memory, KiB; empty where the board does not know it."""
    return {} if answer.get(PEAK_MEMORY) == -1 else {PEAK_MEMORY: _count(answer, PEAK_MEMORY)}


def outputs(segments: Sequence[Segment]) -> Comparison:
    """Return all segments' outputs against the reference."""
    return reduce(Comparison.__add__, (segment.outputs for segment in segments), NOTHING)


def hashes(segments: Sequence[Segment]) -> dict[str, int]:
    """Return the SHA-256 of all outputs, each with how many segments had these; of right ones there is one."""
    return dict(Counter(segment.outputs_sha256 for segment in segments))


def series(segments: Sequence[Segment]) -> Readings:
    """Return all readings in the order of measurement, uint64 (n, columns)."""
    return np.concatenate([segment.readings for segment in segments])

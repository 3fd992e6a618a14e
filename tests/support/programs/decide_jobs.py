"""Jobs for the engine of kernels/decide, the program that runs them, and the decisions that the formulas give."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pytest

from harness.targets.base import KERNELS, SIMULATORS
from tests.support.objects import made_once
from tests.support.programs.board_program import fixed_addresses
from tests.support.programs.c_variants import EMULATED, GNU, QEMU, WARNINGS

Array = npt.NDArray[Any]

AXES, CODES, PADDING = 8, 256, 64
FIRST, LAST, ALL = 0, 1, 2
DEVICE_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-Wall", "-Wextra")
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", *WARNINGS)
SIMULATED_GPU = "simulated GPU"
KINDS = {
    "AVX512-VNNI": ("gcc", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni"),
    "AVX2": ("gcc", "-march=haswell"),
    "portable": ("gcc", "-march=x86-64"),
    "portable with AVX-512": ("gcc", "-march=x86-64-v4", "-DDECIDE_PORTABLE"),
    "NEON dot product": (GNU, "-mcpu=neoverse-n1"),
    "NEON": (GNU, "-mcpu=cortex-a53"),
    SIMULATED_GPU: ("gcc", "-march=x86-64"),
}
"""The kernels that are compiled here: compiler and flags."""


@dataclass(frozen=True)
class Dense:
    """A layer: weights (depth, width) up to 255 and offset (width,), integers; multiplier (width,), float32."""

    weights: Array
    offset: Array
    multiplier: Array
    zero_point: int = 0
    low: int = 0
    high: int = 255

    def accumulate(self, codes: Array) -> Array:
        """Sums (vectors, width), int64, of codes (vectors, depth)."""
        return codes.astype(np.int64) @ self.weights.astype(np.int64) + self.offset

    def codes(self, codes: Array) -> Array:
        """Output codes (vectors, width)."""
        rounded = np.rint(self.scores(codes)) + self.zero_point
        return np.clip(rounded, self.low, self.high).astype(np.uint8)

    def scores(self, codes: Array) -> Array:
        """Float scores (vectors, width)."""
        return self.accumulate(codes).astype(np.float32) * self.multiplier.astype(np.float32)

    def words(self) -> list[Array]:
        """Fields in the order of the job: integers, then arrays padded with zeros."""
        depth, width = self.weights.shape
        padding = -width % PADDING
        columns = [np.pad(each, [(0, 0)] * (each.ndim - 1) + [(0, padding)]) for each in (self.weights, self.offset)]
        multiplier = np.pad(self.multiplier.astype(np.float32), (0, padding)).view(np.int32)
        sizes = np.array([depth, width, width + padding, self.zero_point, self.low, self.high])
        return [sizes, *columns, multiplier]


@dataclass(frozen=True)
class Comparison:
    """Score `left` is above score or constant `right`, or equal unless strict; or the contrary, if negated."""

    decision: int
    left: int
    right: int | float
    strict: bool = True
    negated: bool = False

    def holds(self, scores: Array) -> Array:
        """Truth (vectors,) for scores (vectors, width)."""
        right = np.float32(self.right) if isinstance(self.right, float) else scores[:, self.right]
        left = scores[:, self.left]
        found: Array = (left > right if self.strict else left >= right) != self.negated
        return found

    def words(self) -> Array:
        """Six words of the job."""
        constant = self.right if isinstance(self.right, float) else 0.0
        right = -1 if isinstance(self.right, float) else self.right
        integers = np.array([self.decision, self.left, right, self.strict, self.negated], np.int32)
        return np.concatenate([integers, np.array([constant], np.float32).view(np.int32)])


@dataclass(frozen=True)
class Job:
    """One box of one network, its batches, and for each axis the segment of each code."""

    layers: tuple[Dense, ...]
    low: tuple[int, ...]
    extent: tuple[int, ...]
    batch: tuple[int, ...]
    segments: Array = field(repr=False)  # (axes, 256)
    greatest: bool = True
    ties: int = FIRST
    comparisons: tuple[Comparison, ...] = ()
    float_scores: bool = True
    wanted: int = 1

    @property
    def decisions(self) -> int:
        """The number of decisions that have comparisons."""
        return max((each.decision for each in self.comparisons), default=-1) + 1

    @property
    def sizes(self) -> list[int]:
        """Segments of each axis."""
        return [int(axis.max()) + 1 for axis in self.segments]

    @property
    def strides(self) -> list[int]:
        """Regions from one segment of an axis to the next."""
        return [int(np.prod(self.sizes[axis + 1 :], dtype=np.int64)) for axis in range(len(self.low))]

    def codes(self) -> Array:
        """All code vectors (codes, axes) of the box, the last axis changing first."""
        ranges = [np.arange(low, low + extent) for low, extent in zip(self.low, self.extent, strict=True)]
        return np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(-1, len(ranges)).astype(np.uint8)

    def scores(self, codes: Array) -> Array:
        """Scores (codes, width) by the formulas."""
        for layer in self.layers[:-1]:
            codes = layer.codes(codes)
        last = self.layers[-1]
        return last.scores(codes) if self.float_scores else last.codes(codes).astype(np.float32)

    def sets(self, scores: Array) -> Array:
        """Decision bits (codes,) of scores (codes, width)."""
        if self.comparisons:
            bits = np.zeros(len(scores), np.int64)
            for decision in range(self.decisions):
                held = [each.holds(scores) for each in self.comparisons if each.decision == decision]
                bits |= np.logical_and.reduce([np.ones(len(scores), bool), *held]).astype(np.int64) << decision
            return np.where(bits, bits, 1 << self.decisions).astype(np.uint8)
        best = (scores if self.greatest else -scores) == (scores if self.greatest else -scores).max(1, keepdims=True)
        if self.ties == ALL:
            found: Array = (best << np.arange(best.shape[1])).sum(1).astype(np.uint8)
            return found
        index = best.argmax(1) if self.ties == FIRST else best.shape[1] - 1 - best[:, ::-1].argmax(1)
        return (1 << index).astype(np.uint8)

    @cached_property
    def expected(self) -> tuple[Array, Array]:
        """Code vectors (codes, axes) of the box and their decision bits (codes,)."""
        codes = self.codes()
        return codes, self.sets(self.scores(codes))

    def regions(self, sets: Array) -> Array:
        """Regions (uint8) that have the decisions of the codes of the box."""
        found = np.zeros(int(np.prod(self.sizes)), np.uint8)
        places = sum(
            stride * self.segments[axis][self.codes()[:, axis]].astype(np.int64)
            for axis, stride in enumerate(self.strides)
        )
        np.bitwise_or.at(found, places, sets)
        return found

    def words(self) -> Array:
        """The job as the program reads it, int32."""

        def eight(values: Any, other: int) -> list[int]:
            return [*values, *[other] * (AXES - len(self.low))]

        head = [len(self.layers), self.float_scores, self.greatest, self.ties, self.decisions, len(self.comparisons)]
        parts: list[Any] = [head, *(each.words() for each in self.comparisons)]
        parts += [words for layer in self.layers for words in layer.words()]
        parts += [eight(self.low, 0), eight(self.extent, 1), eight(self.batch, 1)]
        parts += [self.segments, np.zeros((AXES - len(self.low), CODES)), eight(self.strides, 0)]
        parts += [[int(np.prod(self.sizes)), self.wanted]]
        return np.concatenate([np.asarray(part).astype(np.int32).ravel() for part in parts])

    def with_weight(self, layer: int, place: tuple[int, int], change: int) -> Self:
        """The job with one weight changed."""
        weights = self.layers[layer].weights.copy()
        weights[place] += change
        changed = replace(self.layers[layer], weights=weights)
        return replace(self, layers=(*self.layers[:layer], changed, *self.layers[layer + 1 :]))


@dataclass(frozen=True)
class Result:
    """Results of one job: codes processed, regions (uint8), decide_find and its codes, sets of decide_each (codes,)."""

    count: int
    regions: Array
    found: int
    codes: tuple[int, ...]
    sets: Array


def compile_engine(kind: str, folder: Path, *more: str) -> Path:
    """The program for jobs with the kernel of this kind; skips where it cannot be run."""
    compiler = KINDS[kind][0]
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if compiler == GNU and QEMU is None:
        pytest.skip("qemu-aarch64 is not on this machine: apt-get install qemu-user")
    if "AVX" in kind and ("avx2" if kind == "AVX2" else "avx512_vnni") not in cpu:
        pytest.skip(f"this processor has no {kind}")
    program, make = folder / "decide_job", partial(_compile_engine, kind, folder, *more)
    if more:
        make()
        return program
    folders = (KERNELS / "decide", KERNELS / "cuda", SIMULATORS / "cuda", Path(__file__).parent)
    sources = [path for each in folders for path in each.iterdir() if path.suffix != ".py"]
    made_once(program, (kind, KINDS[kind], FLAGS, DEVICE_FLAGS), sources, make)
    return program


def _compile_engine(kind: str, folder: Path, *more: str) -> None:
    compiler, *flags = KINDS[kind]
    decide, here = KERNELS / "decide", Path(__file__).parent
    program = folder / "decide_job"
    sources = [str(each) for each in (decide / "decide.c", decide / "each.c", here / "decide_job.c")]
    common, libraries = [*flags, f"-I{decide}", *more], ["-pthread", "-lm", "-o", str(program)]
    if kind != SIMULATED_GPU:
        subprocess.run([compiler, *FLAGS, *common, *sources, *libraries], check=True)
        return
    renamed = "-Ddecide_box=decide_box_of_processor"
    for source, more_flags in zip(sources, ([renamed], [], []), strict=True):
        subprocess.run([compiler, *FLAGS, *common, *more_flags, "-c", source], check=True, cwd=folder)
    simulator = SIMULATORS / "cuda"
    device = [str(here / "decide_gpu_box.cpp"), str(simulator / "block.cpp")]
    include = [f"-I{each}" for each in (simulator, KERNELS / "cuda")]
    sizes = ["-DWIDTH=80", "-DSCORES=64"]
    objects = [str(folder / f"{Path(each).stem}.o") for each in sources]
    subprocess.run(["g++", *DEVICE_FLAGS, *sizes, *common, *include, *device, *objects, *libraries], check=True)


def run_jobs(program: Path, kind: str, jobs: list[Job], threads: int = 1) -> list[Result]:
    """Results of the jobs; RuntimeError if threads disagree."""
    file = program.with_suffix(".jobs")
    np.concatenate([job.words() for job in jobs]).astype("<i4").tofile(file)
    runner = EMULATED if KINDS[kind][0] == GNU else fixed_addresses() if kind == SIMULATED_GPU else ()
    done = subprocess.run([*runner, str(program), str(file), str(threads)], capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"decide_job ended with {done.returncode}: {done.stderr.decode()}")
    return _results(done.stdout, jobs)


def _results(data: bytes, jobs: list[Job]) -> list[Result]:
    results, at = [], 0

    def take(size: int) -> Array:
        nonlocal at
        at += size
        return np.frombuffer(data, np.uint8, size, at - size)

    for job in jobs:
        count = int(take(8).view(np.uint64)[0])
        regions = take(int(np.prod(job.sizes)))
        found = int(take(4).view(np.int32)[0])
        codes = tuple(int(code) for code in take(AXES)[: len(job.low)])
        results.append(Result(count, regions, found, codes, take(count)))
    assert at == len(data)
    return results


def random_job(rng: np.random.Generator) -> Job:
    """A small network and box with every property that the engine treats in a way of its own."""
    extent, axes = [], int(rng.integers(1, AXES + 1))
    for _ in range(axes):
        room = 1024 // int(np.prod(extent, dtype=np.int64))
        most = int(rng.choice([1, 4, 12, CODES]))
        extent.append(CODES if most == CODES and room >= CODES else int(rng.integers(1, max(2, min(most, room)))))
    low = [int(rng.integers(0, CODES - each + 1)) for each in extent]
    batch = [int(rng.integers(1, each + 2)) for each in extent]
    compared = bool(rng.random() < 0.3)
    widths = [axes, *rng.integers(1, 71, rng.integers(0, 4)), rng.integers(1, 65 if compared else 9)]
    codes = rng.integers(low, np.add(low, extent), (64, axes))
    layers = []
    for depth, width in itertools.pairwise(widths):
        layers.append(_random_layer(rng, int(depth), int(width), codes))
        codes = layers[-1].codes(codes)
    segments = np.array([np.minimum(np.cumsum(rng.random(CODES) < 0.02), 3) for _ in range(axes)])
    job = Job(
        tuple(layers), tuple(low), tuple(extent), tuple(batch), segments,
        greatest=bool(rng.integers(2)), ties=int(rng.integers(3)), float_scores=bool(rng.random() < 0.7),
    )  # fmt: skip
    scores = job.scores(job.codes())
    if compared:
        job = replace(job, comparisons=_random_comparisons(rng, scores))
    sets = job.sets(scores)
    return replace(job, wanted=int(rng.choice([sets[rng.integers(len(sets))], rng.integers(1, 256)])))


def _random_layer(rng: np.random.Generator, depth: int, width: int, codes: Array) -> Dense:
    bound = int(rng.choice([0, 1, 127, 255], p=[0.05, 0.2, 0.5, 0.25]))
    weights = rng.integers(-bound, bound + 1, (depth, width))
    if bound == 127:
        weights[rng.random(weights.shape) < 0.1] = -128
    sums = codes.astype(np.int64) @ weights
    offset = -sums[rng.integers(len(sums))] + rng.integers(-9, 10, width)
    multiplier = np.full(width, 0.5) if bound == 1 else 60 / (1 + sums.std(0)) * rng.uniform(0.3, 2, width)
    if rng.random() < 0.2:
        multiplier[rng.random(width) < 0.5] *= 1e7  # products leave int32
    zero_point = int(rng.choice([0, rng.integers(256)]))
    low, high = sorted(int(each) for each in rng.integers(0, 256, 2)) if rng.random() < 0.4 else (0, 255)
    return Dense(weights, offset, multiplier.astype(np.float32), zero_point, low, high)


def _random_comparisons(rng: np.random.Generator, scores: Array) -> tuple[Comparison, ...]:
    found = []
    for _ in range(rng.integers(1, 9)):
        left, right = (int(each) for each in rng.integers(0, scores.shape[1], 2))
        constant = float(scores[rng.integers(len(scores)), left])
        strict, negated = (bool(each) for each in rng.integers(0, 2, 2))
        found.append(Comparison(int(rng.integers(7)), left, constant if rng.random() < 0.5 else right, strict, negated))
    return tuple(found)

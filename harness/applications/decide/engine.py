"""The engine of `decide`: kernels/decide, compiled for this processor and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import math
import os
import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.applications.decide.code_network import CodeNetwork, Codes, CodeStep
from harness.applications.decide.partition import Sets, nearest_float32
from harness.applications.decide.property import Rule
from harness.applications.decide.vnnlib import Comparison
from harness.boards.workspace import cache_folder
from harness.core.debian_packages import install_command
from harness.core.errors import RequestError, ToolError
from harness.core.installation import ROOT
from harness.targets import toolchain

SOURCES, KERNELS, GPU_KERNELS = (ROOT / "kernels" / name for name in ("decide", "c", "cuda"))
FLAGS = (*toolchain.LANGUAGE_FLAGS, *toolchain.EXACTNESS_FLAGS, "-O3", "-march=native", "-fPIC", "-shared")
AXES, WIDTH, LAYERS = 8, 512, 64  # the limits of decide.h
BATCH = 4096
"""Code vectors that pass through a layer together, at most DECIDE_SAMPLES of decide.h."""
ALIGNED = 64
TIES = {"first": 0, "last": 1, "all": 2}


class LayerStruct(ctypes.Structure):
    """DecideLayer of decide.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("depth", "width", "padded")),
        *((name, ctypes.c_void_p) for name in ("weights", "offset", "multiplier")),
        *((name, ctypes.c_int32) for name in ("zero_point", "low", "high")),
    )


class ComparisonStruct(ctypes.Structure):
    """DecideComparison of decide.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("decision", "left", "right", "strict", "negated")),
        ("constant", ctypes.c_float),
    )


class _Rule(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("greatest", "ties", "decisions", "comparisons")),
        ("comparison", ctypes.POINTER(ComparisonStruct)),
    )


class NetworkStruct(ctypes.Structure):
    """DecideNetwork of decide.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("layers", "float_scores")),
        ("layer", ctypes.POINTER(LayerStruct)),
        ("rule", _Rule),
    )


class BoxStruct(ctypes.Structure):
    """DecideBox of decide.h."""

    _fields_ = (("low", ctypes.c_int32 * AXES), ("extent", ctypes.c_int32 * AXES))


class RegionsStruct(ctypes.Structure):
    """DecideRegions of decide.h."""

    _fields_ = (("segment", ctypes.c_void_p * AXES), ("stride", ctypes.c_int64 * AXES), ("regions", ctypes.c_void_p))


class Engine:
    """A network with a rule in the engine; every method may run in several threads at once."""

    def __init__(self, network: CodeNetwork, rule: Rule, library: ctypes.CDLL | None = None) -> None:
        self._library, self._kept = library or _library(cache_folder()), []
        self._inputs = network.inputs
        _require_room(network)
        layers = (LayerStruct * len(network.steps))(*map(self._layer, network.steps))
        comparisons = [
            comparison(network, decision, each) for decision, half in enumerate(rule.half_spaces) for each in half
        ]
        array = (ComparisonStruct * len(comparisons))(*comparisons)
        self._kept += [layers, array]
        described = _Rule(rule.greatest, TIES[rule.ties], len(rule.half_spaces), len(comparisons), array)
        self.network = NetworkStruct(len(layers), network.steps[-1].is_float, layers, described)

    @property
    def kernel(self) -> str:
        """The name of the kernel that this processor runs."""
        name: bytes = self._library.decide_kernel()
        return name.decode()

    def decide(
        self,
        low: Sequence[int],
        extent: Sequence[int],
        segments: Sequence[npt.NDArray[np.uint16]],
        shape: tuple[int, ...],
    ) -> tuple[Sets, int]:
        """Return the decisions in each region, uint8 `shape`, of all codes low[k] to low[k] + extent[k] - 1.

        `segments` has, for each axis, the region of each code, uint16 (256,).  Also return the number of codes.
        Raises ToolError if memory is lacking.
        """
        regions = np.zeros(shape, np.uint8)
        kept = [np.ascontiguousarray(each, np.uint16) for each in segments]
        given = RegionsStruct(regions=regions.ctypes.data)
        for axis, each in enumerate(kept):
            given.segment[axis], given.stride[axis] = each.ctypes.data, regions.strides[axis]
        count = int(
            self._library.decide_box(
                self._pointer, ctypes.byref(box(low, extent)), batch(extent, BATCH), ctypes.byref(given)
            )
        )
        if count != math.prod(extent):
            raise ToolError(f"the engine decided {count} of {math.prod(extent)} codes", "memory may be lacking")
        return regions, count

    def find(self, low: Sequence[int], extent: Sequence[int], wanted: int) -> Codes | None:
        """Return the first code vector, uint8 (axes,), that has a decision of the set `wanted`; None without one.

        Raises ToolError if memory is lacking.
        """
        codes = np.zeros(AXES, np.uint8)
        found = self._library.decide_find(
            self._pointer,
            ctypes.byref(box(low, extent)),
            batch(extent, BATCH),
            wanted,
            codes.ctypes.data_as(ctypes.c_void_p),
        )
        if found < 0:
            raise ToolError("the engine cannot search a box", "memory may be lacking")
        return codes[: self._inputs] if found else None

    def each(self, codes: Codes) -> Sets:
        """Return the decisions of code vectors, (n, axes), by the second kernel: dense, one after the other."""
        given, sets = np.ascontiguousarray(codes, np.uint8), np.zeros(len(codes), np.uint8)
        values, results = (array.ctypes.data_as(ctypes.c_void_p) for array in (given, sets))
        self._library.decide_each(self._pointer, values, ctypes.c_uint64(len(codes)), results)
        return sets

    def require_fit(self, low: Sequence[int], extent: Sequence[int], most: int) -> None:
        """Raise ToolError if memory is lacking, or the network or the box exceeds a limit of decide.h."""
        if not self._library.decide_fits(self._pointer, ctypes.byref(box(low, extent)), batch(extent, most)):
            raise ToolError("the engine cannot decide a box", "memory may be lacking")

    @property
    def _pointer(self) -> Any:
        return ctypes.byref(self.network)

    def _layer(self, step: CodeStep) -> LayerStruct:
        depth, width = step.weights.shape
        padded = -(-width // ALIGNED) * ALIGNED
        weights, offset = np.zeros((depth, padded), np.int16), np.zeros(padded, np.int32)
        multiplier = np.zeros(padded, np.float32)
        weights[:, :width], offset[:width], multiplier[:width] = step.weights, step.offset, step.multiplier
        self._kept += [weights, offset, multiplier]
        addresses = (array.ctypes.data for array in (weights, offset, multiplier))
        return LayerStruct(depth, width, padded, *addresses, step.zero_point, step.low, step.high)


def box(low: Sequence[int], extent: Sequence[int]) -> BoxStruct:
    """Return the box of codes low[k] to low[k] + extent[k] - 1."""
    found = BoxStruct()
    found.low[: len(low)] = [int(each) for each in low]
    found.extent[: len(extent)] = [int(each) for each in extent]
    return found


def batch(extent: Sequence[int], most: int) -> Any:
    """Return the codes of a batch along each axis, int32 (AXES,), at most `most` together.

    Long axes have about the same number, so that few batches are small.
    """
    sizes = [1] * len(extent)
    long = sorted((int(each), axis) for axis, each in enumerate(extent) if each > 1)
    room = float(most)
    for place, (length, axis) in enumerate(long):
        most = max(1, min(length, int(room ** (1 / (len(long) - place)) + 1e-9)))
        sizes[axis] = max(
            range(max(1, most // 2), most + 1), key=lambda size: (length / (-(-length // size) * size), size)
        )
        room /= sizes[axis]
    return (ctypes.c_int32 * AXES)(*sizes, *[1] * (AXES - len(sizes)))


def comparison(network: CodeNetwork, decision: int, each: Comparison) -> ComparisonStruct:
    """Return a comparison of scores as decide.h states it: of float32 scores, or of codes."""
    right = -1 if each.right is None else each.right
    constant, strict = each.constant, each.strict
    if each.right is None and network.scores is not None:  # compared as codes
        scores = [Fraction(float(score)) for score in network.scores]
        holds = [_holds(score, each) for score in scores]
        constant = Fraction(holds.count(True) - 1 if each.at_most else 256 - holds.count(True))
        strict = False
    elif each.right is None:
        constant, strict = _float_limit(each)
    # decide.h negates a comparison as a whole: score <= c is not score > c
    return ComparisonStruct(decision, each.left, right, strict != each.at_most, each.at_most, float(constant))


def _holds(score: Fraction, each: Comparison) -> bool:
    if score == each.constant:
        return not each.strict
    return (score < each.constant) == each.at_most


def _float_limit(each: Comparison) -> tuple[Fraction, bool]:
    """Return the float32 to compare with, and whether equality is excluded, for a constant that may be none."""
    near = nearest_float32(each.constant)
    value = Fraction(float(near))
    if value == each.constant:
        return value, each.strict
    beyond = value < each.constant  # no float32 lies between `near` and the constant
    return value, beyond != each.at_most


def _require_room(network: CodeNetwork) -> None:
    widest = max(max(step.weights.shape) for step in network.steps)
    for what, found, most in (
        ("inputs", network.inputs, AXES),
        ("layers", len(network.steps), LAYERS),
        ("values in a layer", widest, WIDTH),
    ):
        if found > most:
            raise RequestError(
                f"model {network.name!r} has {found} {what}; the engine has room for {most}",
                "use --bounds, which decides boxes by intervals and may leave some undecided",
            )


@functools.cache
def sources_sha256() -> str:
    """Return the SHA-256 of the sources of the engine."""
    digest = hashlib.sha256()
    for path in (*sorted(SOURCES.iterdir()), *sorted(KERNELS.glob("*.h")), *sorted(GPU_KERNELS.glob("*.*h"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _library(cache: Path) -> ctypes.CDLL:
    """Return the compiled engine, from the cache if these sources were compiled here with this compiler before."""
    compiler = _compiler()
    digest = hashlib.sha256(f"{compiler.identity} {sources_sha256()}".encode()).hexdigest()
    path = cache / "engines" / f"decide-{digest[:16]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        compile_engine(SOURCES, part)
        part.replace(path)
    return load(path)


def _compiler() -> toolchain.Compiler:
    command = shutil.which("gcc")
    if command is None:
        raise ToolError("gcc is not installed; it compiles the engine of decide", f"run: {install_command('gcc')}")
    return toolchain.identify((command,), FLAGS)


def compile_engine(sources: Path, library: Path) -> None:
    """Compile the sources in a folder for this processor; ToolError with the compiler's message if that fails."""
    _compiler().build(library.parent, sorted(sources.glob("*.c")), [KERNELS], (), library)


def load(library: Path) -> ctypes.CDLL:
    """Return a compiled engine."""
    found = ctypes.CDLL(str(library))
    found.decide_box.restype = ctypes.c_uint64
    found.decide_kernel.restype = ctypes.c_char_p
    return found

"""The double of TIOVX with its kernels, perhaps changed, and a small network that goes through them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.arrays import Array
from harness.targets import KERNELS, SIMULATORS
from harness.targets.tiovx import constants

TIOVX = KERNELS / "tiovx"
DRIVER = Path(__file__).with_name("driver.c")
SOURCES = "0123456789abcdef"
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fPIC", "-pthread", "-fvisibility=hidden", "-g")
LANES, QUAD, THRESHOLDS, ALIGNMENT = 16, 4, 255, 64
PARTS = tuple(part.lower() for part in constants.PARTS)


@dataclass(frozen=True)
class Built:
    """A folder with what was compiled: the double's objects, the kernels' by name, the program's own."""

    folder: Path
    flags: tuple[str, ...]

    @classmethod
    def make(cls, folder: Path, *flags: str) -> Built:
        """All sources, compiled; AssertionError if the compiler says a word."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "identity.h").write_text(f'#define KERNELS_SOURCES "{SOURCES}"\n')
        built = cls(folder, flags)
        built.compile(SIMULATORS / "tiovx", "double", sorted((SIMULATORS / "tiovx").glob("*.c")))
        built.compile(TIOVX / "target", "target", sorted((TIOVX / "target").glob("*.c")))
        built.compile(TIOVX / "target", "program", [DRIVER])
        built.link(folder)
        return built

    def compile(self, source_folder: Path, name: str, sources: Sequence[Path]) -> None:
        """Objects of sources in the folder `name`."""
        (self.folder / name).mkdir(exist_ok=True)
        include = [self.folder, source_folder, TIOVX / "target", TIOVX, KERNELS / "c" / "integer", SIMULATORS / "tiovx"]
        command = ["gcc", *FLAGS, *self.flags, "-DFIRMWARE_KERNELS", *(f"-I{each}" for each in include)]
        run([*command, "-c", *map(str, sources)], self.folder / name)

    def link(self, into: Path, replaced: Mapping[str, Path] | None = None) -> None:
        """Library and driver, with some of the kernels' objects replaced."""
        kernels = [str((replaced or {}).get(each.stem, each)) for each in sorted((self.folder / "target").glob("*.o"))]
        link = ["gcc", *self.flags, "-pthread", "-Wl,-z,defs"]
        double = [str(each) for each in sorted((self.folder / "double").glob("*.o"))]
        library = ["-shared", "-Wl,-soname,libtivision_apps.so", "-o", "libtivision_apps.so"]
        run([*link, *library, *double, *kernels], into)
        driver = [str(self.folder / "program" / "driver.o"), *kernels, "libtivision_apps.so", "-Wl,-rpath,$ORIGIN"]
        run([*link, "-o", "driver", *driver], into)

    def changed(self, into: Path, file: str, *changes: tuple[str, str]) -> Path:
        """Library and driver with a kernel source whose text is changed; each text must be there just once."""
        text = (TIOVX / "target" / file).read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        into.mkdir()
        (into / file).write_text(text)
        include = [self.folder, TIOVX / "target", TIOVX, KERNELS / "c" / "integer", SIMULATORS / "tiovx"]
        run(["gcc", *FLAGS[5:], *self.flags, *(f"-I{each}" for each in include), "-c", file], into)
        self.link(into, {Path(file).stem: (into / file).with_suffix(".o")})
        return into


def run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@dataclass(frozen=True)
class Case:
    """A network, vectors, and what its kernels must make of them."""

    quantize: bytes
    qgemm: bytes
    inputs: Array
    accumulators: Array
    outputs: Array

    def write(self, folder: Path) -> None:
        (folder / "quantize.bin").write_bytes(self.quantize)
        (folder / "qgemm.bin").write_bytes(self.qgemm)
        (folder / "input.bin").write_bytes(self.inputs.tobytes())


def packed(depth: int, width: int, **parts: Array) -> bytes:
    """The constants of a layer, as protocol.h lays them out."""
    contents = [parts[name].tobytes() if name in parts else b"" for name in PARTS]
    head = np.array([constants.KERNELS_VERSION, depth, width, 0, 0, *map(len, contents)], np.uint32).tobytes()
    return b"".join(part.ljust(-(-len(part) // ALIGNMENT) * ALIGNMENT, b"\0") for part in [head, *contents])


def thresholds(code: Callable[[Array], Array], low: int, high: int) -> Array:
    """The least x in [low, high] of each code from 1 on, int32 (255); INT32_MAX where there is none."""
    wanted = np.arange(1, THRESHOLDS + 1)
    least = np.full(THRESHOLDS, low, np.int64)
    beyond = np.full(THRESHOLDS, high + 1, np.int64)
    while np.any(least < beyond):
        middle = (least + beyond) // 2
        reached = (code(middle) >= wanted) & (middle <= high)
        least, beyond = np.where(reached | (least == beyond), least, middle + 1), np.where(reached, middle, beyond)
    return np.where(least > high, np.iinfo(np.int32).max, least).astype(np.int32)


def unordered(numbers: Array) -> Array:
    """The float32 of ordered numbers, see thresholds.h."""
    bits = np.where(numbers < 0, np.abs(numbers) | 0x80000000, numbers)
    return bits.astype(np.uint32).view(np.float32)


def laid_out(weights: Array) -> Array:
    """Weights int8 (width, depth) in the order of dot4.h."""
    width, depth = weights.shape
    whole = np.zeros((-(-width // LANES) * LANES, -(-depth // QUAD) * QUAD), np.int8)
    whole[:width, :depth] = weights
    return whole.reshape(-1, LANES, whole.shape[1] // QUAD, QUAD).transpose(0, 2, 1, 3).copy()


def case(depth: int, width: int, rows: int) -> Case:
    """A random network float32 (depth) -> uint8 (width), and vectors."""
    rng = np.random.default_rng(depth * width)
    scale, zero_point, result_zero_point = np.float32(0.037), 131, 117
    weights, offset = rng.integers(-128, 128, (width, depth), np.int8), rng.integers(-900, 900, width, np.int32)
    zero_points = rng.integers(-5, 6, width, np.int32)
    inputs = rng.uniform(-6, 6, (rows, depth)).astype(np.float32)
    multipliers = (rng.uniform(0.5, 1.5, width) / np.sqrt(depth) / 128).astype(np.float32)

    def code(x: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.clip(np.rint(x / scale) + zero_point, 0, 255)

    def requantized(acc: Array, multiplier: Array) -> Array:
        return np.clip(np.rint(acc.astype(np.float32) * multiplier) + result_zero_point, 0, 255)

    codes = code(inputs).astype(np.int64)
    acc = offset + codes @ weights.T.astype(np.int64) - np.outer(codes.sum(axis=1), zero_points)
    infinity = 0x7F800000
    table = thresholds(lambda numbers: code(unordered(numbers)), -infinity, infinity)
    bound = depth * 255 * 140
    tables = [thresholds(lambda numbers, m=m: requantized(numbers, m), -bound, bound) for m in multipliers]
    return Case(
        packed(depth, depth, table=table),
        packed(
            depth,
            width,
            offset=offset,
            zero_points=zero_points,
            table=np.concatenate(tables),
            weights=laid_out(weights),
        ),
        inputs,
        acc.astype(np.int32),
        requantized(acc, multipliers).astype(np.uint8),
    )


def drive(
    folder: Path, where: Case, core: str, *words: str, runs: int = 1, fault: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The driver in `folder`; what it wrote before is gone."""
    where.write(folder)
    for old in folder.glob("*_*.bin"):
        old.unlink()
    given = {**os.environ, **environment} | ({"HARNESS_DOUBLE_FAULT": fault} if fault else {})
    command = [str(folder / "driver"), core, str(len(where.inputs)), str(runs), *words]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=60)


def results(folder: Path, where: Case, core: str) -> tuple[Array, Array]:
    """Accumulators and outputs that the driver has written."""
    accumulators = np.fromfile(folder / f"accumulators_{core}.bin", np.int32)
    outputs = np.fromfile(folder / f"output_{core}.bin", np.uint8)
    return accumulators.reshape(where.accumulators.shape), outputs.reshape(where.outputs.shape)

"""kernels/c/integer compiled for this machine, as numpy functions; its texts, and the C7x's model, may be changed."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.arrays import Array
from harness.targets import KERNELS
from harness.targets.toolchain import EXACTNESS_FLAGS

HERE = Path(__file__).parent
HEADERS = sorted((KERNELS / "c" / "integer").glob("*.h"))
MODEL = HERE / "c7x_model" / "c7x.h"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
LANES, QUAD = 16, 4
REGISTER_BYTES = LANES * QUAD

ZIG = str(Path(sys.executable).with_name("python-zig"))
COMPILERS = {
    "gcc": ("gcc", "-std=gnu11"),
    "clang": (ZIG, "cc", "-std=gnu11"),
    "g++": ("g++", "-x", "c++", "-std=c++14"),
}
MODELLED = (*COMPILERS["g++"], "-D__C7000__")
# What is compiled and not run: a C++ program of clang's would want a C++ library built first.
COMPILED = {
    "aarch64 gcc": ("aarch64-linux-gnu-gcc", "-std=gnu11"),
    "aarch64 clang": (ZIG, "cc", "-target", "aarch64-linux-gnu", "-std=gnu11"),
    "clang++": (ZIG, "cc", "-x", "c++", "-std=c++14"),
    "clang++ with the C7x's model": (ZIG, "cc", "-x", "c++", "-std=c++14", "-D__C7000__"),
}


def aligned(values: Array, offset: int = 0) -> Array:
    """A copy whose first byte is `offset` behind a multiple of a register."""
    room = np.zeros(values.nbytes + 2 * REGISTER_BYTES, np.uint8)
    start = -room.ctypes.data % REGISTER_BYTES + offset
    copy = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


@dataclass(frozen=True)
class Integer:
    """A build of driver.c."""

    library: ctypes.CDLL

    def dot(self, a: Array, b: Array) -> Array:
        """dot_products of a (quads * QUAD,) uint8 and the packed b (groups, quads, LANES, QUAD) int8."""
        groups, quads = b.shape[:2]
        a, b, sums = aligned(a), aligned(b), aligned(np.full(groups * LANES, -1, np.int32))
        self.library.dot(ctypes.c_size_t(groups), ctypes.c_size_t(quads), *map(_pointer, (a, b, sums)))
        return sums

    def positions(self, panel: Array, b: Array) -> Array:
        """dot_positions of a panel (quads, LANES, QUAD) uint8 and b (quads * QUAD,) int8."""
        panel, b, sums = aligned(panel), aligned(b), aligned(np.full(LANES, -1, np.int32))
        self.library.positions(ctypes.c_size_t(len(panel)), *map(_pointer, (panel, b, sums)))
        return sums

    def codes(self, thresholds: Array, x: Array) -> Array:
        """threshold_codes of x (n,) int32, 16 at most, from 128 on: tables (n, 255), or one (255,) for all."""
        stride = thresholds.shape[1] if thresholds.ndim == 2 else 0
        codes = np.zeros(len(x), np.uint8)
        self.library.codes(
            ctypes.c_size_t(len(x)),
            ctypes.c_size_t(stride),
            *map(_pointer, (np.ascontiguousarray(thresholds), x, codes)),
        )
        return codes

    def mean(self, terms: Array, exponent: int) -> Array:
        """The bits of the rounded sum of terms (n,) int64 in units of 2^exponent."""
        bits = np.zeros(1, np.uint32)
        self.library.mean(ctypes.c_size_t(len(terms)), _pointer(terms), ctypes.c_int32(exponent), _pointer(bits))
        return bits

    def instruction(self, a: Array, b: Array) -> Array:
        """The model's __vdotp4subw_vvv of (64,) int8 and (64,) uint8: (16,) int32."""
        a, b, lanes = aligned(a), aligned(b), aligned(np.full(LANES, -1, np.int32))
        self.library.instruction(*map(_pointer, (a, b, lanes)))
        return lanes

    def scaled(self, acc: Array, m: Array) -> Array:
        """The bits (n,) uint32 of float32(acc) * m for (n,) int32 and the bits (n,) uint32."""
        bits = np.zeros(len(acc), np.uint32)
        self.library.scaled(ctypes.c_size_t(len(acc)), *map(_pointer, (acc, m, bits)))
        return bits

    def counts(self, thresholds: Array, x: Array) -> Array:
        """threshold_count of every x (n,) int32 among (255,) int32."""
        counts = np.zeros(len(x), np.uint32)
        self.library.counts(ctypes.c_size_t(len(x)), *map(_pointer, (thresholds, x, counts)))
        return counts

    def ordered(self, bits: Array) -> Array:
        """ordered_float of the bits (n,) uint32."""
        numbers = np.zeros(len(bits), np.int32)
        self.library.ordered(ctypes.c_size_t(len(bits)), *map(_pointer, (bits, numbers)))
        return numbers


def _pointer(values: Array) -> ctypes.c_void_p:
    assert values.flags.c_contiguous
    return ctypes.c_void_p(values.ctypes.data)


def build(
    folder: Path, compiler: Sequence[str] = COMPILERS["gcc"], changed: Mapping[str, tuple[str, str]] | None = None
) -> Integer:
    """driver.c as a library, see `compile_quietly`."""
    library = folder / "integer.so"
    compile_quietly(folder, [*compiler, "-O2", "-fPIC", "-shared"], HERE / "driver.c", library, changed)
    return Integer(ctypes.CDLL(str(library)))


def compile_quietly(
    folder: Path,
    compiler: Sequence[str],
    source: Path,
    output: Path,
    changed: Mapping[str, tuple[str, str]] | None = None,
) -> None:
    """Compile against a copy of the headers in `folder`, in which `changed` (by name: old, new) replaces a text.

    AssertionError if the compiler says a word, or if the old text is not there once.
    """
    for header in (*HEADERS, MODEL):
        text = header.read_text(encoding="utf-8")
        if changed and header.name in changed:
            old, new = changed[header.name]
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / header.name).write_text(text, encoding="utf-8")
    command = [*compiler, *WARNINGS, *EXACTNESS_FLAGS, f"-I{folder}", str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")

"""Vectors and block sizes that a program generates itself, computed on the host.

The program's implementation is in kernels/program/random.h, generate.c and blocks.h.
Both depend only on a seed, so millions of vectors need not be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.orthogonal_array import PAIR_VECTORS, arrangements, pairs

GOLDEN = 0x9E3779B97F4A7C15
UInt64s = npt.NDArray[np.uint64]


def mixed(z: UInt64s) -> UInt64s:
    """Return the final mixing function of splitmix64."""
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def numbers(seed: int, first: int, count: int) -> UInt64s:
    """Return random numbers `first` to `first + count` of a seed."""
    steps = np.arange(first + 1, first + 1 + count, dtype=np.uint64) * np.uint64(GOLDEN)
    return mixed(np.uint64(seed) + steps)


@dataclass(frozen=True)
class Generated:
    """`count` vectors that the program generates when it is given the words of `option`."""

    option: tuple[str, str]
    count: int
    width: int
    seed: int

    def rows(self, first: int, stop: int) -> Array:
        """Return vectors `first` to `stop`, uint8 (stop - first, width)."""
        if self.option[0] == "--pair-vectors":
            return pairs(self.width, self.seed)[first:stop]
        begin, end = first * self.width, stop * self.width
        words = numbers(self.seed, begin // 8, -(-end // 8) - begin // 8)
        content = words.astype("<u8").view(np.uint8)[begin % 8 :]
        return content[: end - begin].reshape(-1, self.width)


def random_vectors(count: int, width: int, seed: int) -> Generated:
    """Return vectors of independent random bytes."""
    return Generated(("--random-vectors", f"{count}:{seed}"), count, width, seed)


def pair_vectors(width: int) -> list[Generated]:
    """Return arrangements of vectors that together contain every pair of bytes of any two of their columns."""
    return [Generated(("--pair-vectors", str(seed)), PAIR_VECTORS, width, seed) for seed in arrangements(width)]


@dataclass(frozen=True)
class Passes:
    """The passes of a program over the same vectors, in blocks of drawn sizes, until there were enough executions."""

    passes: int
    executions: int

    @classmethod
    def of_blocks(cls, vectors: int, block: int, executions: int) -> Passes:
        """Return the passes in blocks of `block` vectors; the last block of a pass has the remaining ones."""
        of_pass = -(-vectors // block)
        done = -(-executions // of_pass)
        return cls(done, done * of_pass)


def passes(vectors: int, block: int, seed: int, executions: int) -> Passes:
    """Return the passes of a program for at least `executions`, with --random-block SEED and --block `block`."""
    sizes = _drawn_sizes(block, seed, executions + vectors)
    ends = np.cumsum(sizes)
    done = index = 0
    while index < executions or not done:
        before = ends[index - 1] if index else 0
        index = int(np.searchsorted(ends, before + vectors)) + 1  # the last block of a pass is cut, not drawn again
        done += 1
    return Passes(done, index)


def _drawn_sizes(block: int, seed: int, count: int) -> npt.NDArray[np.int64]:
    """Return the sizes before they are cut to the remaining vectors; the number of binary digits is drawn first."""
    state = mixed(mixed(np.array([seed], np.uint64)))
    with np.errstate(over="ignore"):
        drawn = mixed(state + np.arange(1, 2 * count + 1, dtype=np.uint64) * np.uint64(GOLDEN))
    digits = drawn[::2] % np.uint64(block.bit_length())
    most = np.minimum((np.uint64(2) << digits) - np.uint64(1), np.uint64(block))
    sizes: npt.NDArray[np.int64] = (1 + drawn[1::2] % most).astype(np.int64)
    return sizes


EXPONENTS = range(16, 54)
"""Exponents of the powers of two around which executions are tried: counters, float numbers and indices end there."""


def windows(executions: int, steps: int = 1) -> tuple[list[str], int]:
    """Return the option for executions with the numbers around each power of two, and how many these are.

    A window has at least `executions`, half of them before the power of two, and begins with a stream of `steps`.
    """
    half = -(-executions // (2 * steps)) * steps
    first = [max((1 << exponent) - half, 0) // steps * steps for exponent in EXPONENTS]
    return ["--windows", f"{2 * half}:{','.join(map(str, first))}"], 2 * half * len(first)


def options(given: Sequence[str], block: int, seed: int) -> list[str]:
    """Return a program's options, with blocks of drawn sizes of at most `block`; the last --block counts."""
    return [*given, "--block", str(block), "--random-block", str(seed)]

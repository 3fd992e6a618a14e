"""Resources of the K26 fabric, and lower bounds of what a memory takes of them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array

LUTROM_WORDS = 512
"""The longest memory of thresholds that is made of LUTs, as the kernels' pragmas say; longer ones are block RAM."""
WEIGHTS_LUTROM_WORDS = 64
"""The same of weights, whose words are wide."""
SHARED_LUT_WORDS = 32
"""The longest memory of which a LUT6 holds two bits of a word."""
HALF_BRAM36_BITS, HALF_BRAM36_PORT = 18 * 1024, 36
"""The bits of half a BRAM36, which can be a memory of its own, and the bits that it reads in a cycle."""

URAM_WORDS, URAM_PORT = 4096, 72
"""Words of a URAM288, and their bits; it has no content at the start, and holds no constants."""
URAM_FIFO = 8192
"""The shortest stream that is made of URAM."""
LUT_WORDS = 64
"""The longest memory of which a LUT6 holds a bit of all words."""


@dataclass(frozen=True)
class Resources:
    """Resources of a fabric: LUT6, DSP48E2, BRAM36, half of which can be used alone, and URAM288."""

    lut: int
    dsp: int
    bram36: float
    uram: int = 0

    def __add__(self, other: Resources) -> Resources:
        bram36, uram = self.bram36 + other.bram36, self.uram + other.uram
        return Resources(self.lut + other.lut, self.dsp + other.dsp, bram36, uram)


NOTHING = Resources(0, 0, 0)
K26 = Resources(lut=117_120, dsp=1_248, bram36=144, uram=64)
UNITS = {"dsp": "DSP", "bram36": "BRAM36", "uram": "URAM", "lut": "LUT"}


def total(parts: Iterable[Resources]) -> Resources:
    """Return the sum."""
    return functools.reduce(operator.add, parts, NOTHING)


def weights_in_bram(words: int) -> bool:
    """Return whether a memory of weights, all sums side by side in a word, is block RAM; else it is LUTs."""
    return words > WEIGHTS_LUTROM_WORDS


def level_in_bram(words: int) -> bool:
    """Return whether a step's memory of thresholds, all tables in sequence, is block RAM; else it is LUTs."""
    return words > LUTROM_WORDS


def memory(words: Array, *, in_bram: bool) -> Resources:
    """Return a memory of integers (words, columns)."""
    bits = stored_bits(words)
    return Resources(0, 0, block_rams(len(words), bits)) if in_bram else Resources(luts(len(words), bits), 0, 0)


def fifo_memory(depth: int) -> str:
    """Return what a stream with so many elements is made of."""
    return "uram" if depth >= URAM_FIFO else "bram" if depth > LUT_WORDS else "lutram"


def fifo(depth: int, bits: int) -> Resources:
    """Return the memory of a stream with so many elements of these bits."""
    kind = fifo_memory(depth)
    if kind == "uram":
        return Resources(0, 0, 0, -(-depth // URAM_WORDS) * -(-bits // URAM_PORT))
    return Resources(0, 0, block_rams(depth, bits)) if kind == "bram" else Resources(bits, 0, 0)


def luts(words: int, bits: int) -> int:
    """Return LUT6 of a memory, at least: each bit of its words is read into a register, a function of the address.

    Two functions of the same 5 inputs share a LUT; one of more takes one or, if its values permit no less, several.
    """
    return bits if words > SHARED_LUT_WORDS else -(-bits // 2)


def block_rams(words: int, bits: int) -> float:
    """Return BRAM36 of a memory whose words have these bits, at least, as a word is read in a cycle.

    A tool may lay several words side by side, so that the geometries of block RAM say no more.
    """
    return max(-(-words * bits // HALF_BRAM36_BITS), -(-bits // HALF_BRAM36_PORT)) / 2


def stored_bits(words: Array) -> int:
    """Return the bits that a memory of these words, integers (words, columns), must store, in two's complement.

    None is needed for a bit that is the same in all words, that is another or its complement in all of them, as the
    copies of a sign are, or that is one of the address.
    """
    address = {plane.tobytes() for plane in _planes(np.arange(len(words)))}
    found = {plane.tobytes() for column in words.T for plane in _planes(column)}
    return len(found - address - {np.zeros(len(words), np.bool_).tobytes()})


def _planes(column: Array) -> Iterator[Array]:
    """Yield bit by bit whether it differs from the first word's, bool (words,); a bit equals its complement."""
    changed = column ^ column[0]
    bits = int(np.bitwise_or.reduce(np.abs(column))).bit_length() + 1
    return (changed >> bit & 1 == 1 for bit in range(bits))

"""Products in integers alone, as libraries without floating point make them: acc * m for a real multiplier m > 0.

m is written as q * 2^(exponent - bits) with an integer q of `bits` bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.analysis.diagnosis.fault_model import Real

Integers = npt.NDArray[np.int64]


def quantised(multiplier: Real, bits: int) -> tuple[Integers, Integers]:
    """The pair q, exponent: multiplier = q * 2^(exponent - bits), q rounded to nearest in [2^(bits-1), 2^bits)."""
    fraction, exponent = np.frexp(multiplier)
    q = np.floor(np.ldexp(fraction, bits) + 0.5).astype(np.int64)
    carried = q >> bits != 0
    return np.where(carried, q >> 1, q), exponent.astype(np.int64) + carried


def single_rounding(acc: Integers, multiplier: Real, bits: int) -> Integers:
    """floor(acc * q * 2^(exponent - bits) + 1/2), as TFLite's with a single rounding (bits = 31)."""
    q, exponent = quantised(multiplier, bits)
    shift = np.clip(bits - exponent, 1, 62)
    rounded: Integers = (acc * q + (np.int64(1) << (shift - 1))) >> shift
    return rounded


def double_rounding(acc: Integers, multiplier: Real) -> Integers:
    """As gemmlowp: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT; both round."""
    q, exponent = quantised(multiplier, 31)
    high = _doubling_high_product(acc << np.clip(exponent, 0, 31), q)
    shift = np.clip(-exponent, 0, 62)
    mask = (np.int64(1) << shift) - 1
    rounded: Integers = (high >> shift) + ((high & mask) > (mask >> 1) + (high < 0))
    return rounded


def _doubling_high_product(a: Integers, b: Integers) -> Integers:
    """(a * b + nudge) / 2^31, the quotient toward zero."""
    product = a * b
    nudged = np.abs(product + np.where(product >= 0, 1 << 30, 1 - (1 << 30)))
    high: Integers = np.sign(product) * (nudged >> 31)
    return high

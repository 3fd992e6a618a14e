"""Orthogonal arrays over GF(256): vectors that together contain every pair of bytes of any two of their columns."""

from __future__ import annotations

from functools import cache

import numpy as np

from harness.core.arrays import Array

PAIR_VECTORS = 1 << 16
POINTS = 257  # columns of an orthogonal array of strength 2 over GF(256)
POLYNOMIAL = 0x11B


def arrangements(size: int) -> range:
    """Return the numbers of the arrays that are needed for vectors of this size."""
    return range(1 if size <= POINTS else 2)


def pairs(width: int, arrangement: int) -> Array:
    """Return an orthogonal array over GF(256): uint8 (65536, width), see kernels/program/generate.h."""
    columns = np.arange(width)
    points = (columns if arrangement == 0 else columns // POINTS) % POINTS
    return np.take(_rows(), points, axis=1)


@cache
def _rows() -> Array:
    """Return the array with one column for each point, uint8 (65536, POINTS)."""
    made = np.empty((256, 256, POINTS), np.uint8)
    codes = np.arange(256, dtype=np.uint8)
    for point in range(POINTS - 1):
        made[:, :, point] = codes[:, None] ^ products()[point]
    made[:, :, POINTS - 1] = codes
    return made.reshape(PAIR_VECTORS, POINTS)


@cache
def products() -> Array:
    """Return the products of the field, uint8 (256, 256)."""
    product, power = np.zeros((256, 256), np.int64), np.arange(256)
    for bit in range(8):
        product ^= power[:, None] * (np.arange(256) >> bit & 1)
        power = power << 1 ^ (power >> 7 & 1) * POLYNOMIAL
    return product.astype(np.uint8)

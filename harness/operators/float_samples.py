"""Obligations of float32 operators that cannot be enumerated: sampled inputs at which orders and roundings differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.obligations import MIXED, VECTORS, Obligation, Outputs, ProofStep, StageKind, mixed, samples
from harness.operators.sum_orders import side_by_side

SPECIAL = np.array([0, 1e-45, 2.0**-126, 2.0**-125, 1, 1 + 2.0**-23, 1 / 3, 2.0**24, 1e30], np.float32)
SPECIAL = np.append(SPECIAL, -SPECIAL)
EXPONENTS = 255
SPREAD = 40
"""Binary orders of magnitude of the values that a vector of the second kind mixes, up or down from 1."""


def every_exponent(size: int) -> Array:
    """Return vectors (1020, size) in which each column has each exponent of float32, subnormal ones too, of both signs.

    In the first half all columns of a vector have one exponent and sign, in the second each column has its own.
    Significands are random, with a fixed seed.
    """
    heads = np.arange(2 * EXPONENTS, dtype=np.uint32)[:, None]
    alike, other = np.broadcast_to(heads, (len(heads), size)), (heads + np.arange(size) * 7) % len(heads)
    sign_and_exponent = np.concatenate([alike, other]).astype(np.uint32)
    bits = sign_and_exponent % EXPONENTS << 23 | sign_and_exponent // EXPONENTS << 31
    significands = np.random.default_rng(0).integers(0, 1 << 23, bits.shape, np.uint32)
    values: Array = (bits | significands).view(np.float32)
    return values


def of_exponents(layer: Layer) -> Iterator[Obligation]:
    """Yield that the layer has the specified bits for numbers of all exponents; vectors that give NaN are left out."""
    inputs = every_exponent(sum(tensor.size for tensor in layer.inputs))
    expected = side_by_side(layer)
    yield Obligation(
        ProofStep.OTHERS,
        StageKind.COMPUTE,
        "numbers of all magnitudes give the specified bits",
        f"{len(inputs):,} vectors in which every column has all {EXPONENTS} exponents of finite float32, those of "
        "subnormal numbers too, of both signs; not complete",
        len(inputs) * layer.size,
        Outputs(lambda: [inputs[~np.isnan(expected(inputs)).any(axis=1)]], expected),
        complete=False,
    )


def of_samples(layer: Layer, statement: str) -> Iterator[Obligation]:
    """Yield that the layer has the specified bits for numbers of like size, of all sizes, and for special ones.

    Vectors for which the specification gives NaN are left out.
    """
    size = sum(tensor.size for tensor in layer.inputs)
    count, expected = samples(size), side_by_side(layer)

    def inputs() -> Iterator[Array]:
        rng = np.random.default_rng(0)
        alike = rng.standard_normal((count, size), np.float32)
        yield alike
        yield np.ldexp(alike, rng.integers(-SPREAD, SPREAD + 1, (count, size))).astype(np.float32)
        special = mixed(SPECIAL, size)
        yield special[~np.isnan(expected(special)).any(axis=1)]

    yield Obligation(
        ProofStep.OTHERS,
        StageKind.COMPUTE,
        statement,
        f"{2 * count:,} vectors of random numbers, of like magnitude and of magnitudes 2^-{SPREAD} to 2^{SPREAD}; of "
        f"special numbers {MIXED}; not complete",
        (2 * count + VECTORS) * layer.size,
        Outputs(inputs, expected),
        complete=False,
    )
    yield from of_exponents(layer)

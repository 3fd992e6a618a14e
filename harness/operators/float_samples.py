"""Obligations of float32 operators that cannot be enumerated: sampled inputs at which orders and roundings differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.obligations import MIXED, VECTORS, Obligation, Outputs, ProofStep, StageKind, mixed, samples

SPECIAL = np.array([0, 1e-45, 2.0**-126, 2.0**-125, 1, 1 + 2.0**-23, 1 / 3, 2.0**24, 1e30], np.float32)
SPECIAL = np.append(SPECIAL, -SPECIAL)
SPREAD = 40
"""Binary orders of magnitude of the values that a vector of the second kind mixes, up or down from 1."""


def of_samples(layer: Layer, statement: str) -> Iterator[Obligation]:
    """Yield that the layer has the specified bits for numbers of like size, of all sizes, and for special ones.

    Vectors for which the specification gives NaN are left out.
    """
    size = sum(tensor.size for tensor in layer.inputs)
    count, evaluate = samples(size), layer.prepare()
    ends = np.cumsum([tensor.size for tensor in layer.inputs])[:-1]

    def expected(values: Array) -> Array:
        with np.errstate(all="ignore"):
            return evaluate(*np.split(values, ends, axis=1))

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

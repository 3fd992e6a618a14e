"""Values of operands that are no float32, and the obligation that a layer has the specified bits for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Layer
from harness.operators.obligations import Obligation, Outputs, ProofStep, StageKind, samples
from harness.operators.sum_orders import side_by_side
from harness.operators.tensor import STORED, integer_limits

NAMED = 32
"""Values that a statement names."""


def special_integers(dtype: np.dtype[Any]) -> Array:
    """Return the ends of a type of integers, the numbers beside them, and those around 0, (n,)."""
    low, high = integer_limits(dtype)
    numbers = {low, low + 1, high // 2, high // 2 + 1, high - 1, high, *range(max(low, -3), 10)}
    return np.array(sorted(numbers), dtype)


def of_values(layer: Layer, statement: str, special: Array) -> Obligation:
    """Return that the layer has the specified bits for these values and, of integers, for random bits."""
    size, expected = sum(tensor.size for tensor in layer.inputs), side_by_side(layer)
    count, has_bits = samples(size), special.dtype.kind in "iu" or special.dtype in STORED
    words = np.dtype(f"u{special.dtype.itemsize}")

    def inputs() -> Iterator[Array]:
        rng = np.random.default_rng(0)
        chosen = rng.choice(special, (count, size))
        yield chosen
        if has_bits:
            random = rng.integers(*integer_limits(words), (count, size), words, endpoint=True).view(special.dtype)
            yield random
            yield np.where(rng.random((count, size)) < 0.5, chosen, random)

    kinds = 3 if has_bits else 1
    return Obligation(
        ProofStep.OTHERS,
        StageKind.COMPUTE,
        statement,
        f"{kinds * count:,} vectors of the values {', '.join(f'{float(number):g}' for number in special[:NAMED])}"
        f"{' and so on' if len(special) > NAMED else ''}"
        f"{', of random bits, and of both' if has_bits else ''}; not complete",
        kinds * count * layer.size,
        Outputs(inputs, expected),
        complete=False,
    )

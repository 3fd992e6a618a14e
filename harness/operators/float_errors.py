"""A-priori bounds of the rounding errors of float32 operations (Higham, Accuracy and Stability, sections 2.2 and 3.1).

An operation gives its exact result times 1 + d with |d| <= u = 2^-24, plus at most 2^-150 if the result is subnormal;
an addition has no error where its result is subnormal.  n such factors are 1 + t with |t| <= gamma(n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.tensor import FLOAT32, LARGEST, integer_limits

UNIT_ROUNDOFF = 2.0**-24
UNDERFLOW = 2.0**-149
"""The largest difference of two subnormal results of one operation that are both right: each is off by half of it."""


def gamma(operations: int) -> float:
    """Return gamma_n = n u / (1 - n u) for n operations; infinite if their errors have no such bound."""
    product = operations * UNIT_ROUNDOFF
    return product / (1 - product) if product < 1 else np.inf


def within_range(tolerance: Array, magnitudes: Array) -> npt.NDArray[np.float64]:
    """Return the tolerance, infinite where a partial result of up to `magnitudes`, float64, can overflow."""
    finite = magnitudes * (1 + 2.0**-10) < LARGEST
    return np.where(finite, tolerance, np.inf)


@dataclass(frozen=True, eq=False)
class Perturbed:
    """The specified inputs and output of a layer, and how far the inputs of another engine can be from these.

    `values` and `errors` have (vectors, size) for each input; errors are float64, infinite without a bound.
    `roundings` is the most roundings of a term of a sum that ONNX Runtime may compute together with the layer.
    """

    values: Sequence[Array]
    errors: Sequence[Array]
    output: Array
    roundings: int = 0

    def magnitudes(self) -> list[npt.NDArray[np.float64]]:
        """Return the largest |x| of the other engine, for each input."""
        return [np.abs(x.astype(np.float64)) + error for x, error in zip(self.values, self.errors, strict=True)]

    def sides(self, below: Array | float) -> npt.NDArray[np.float64]:
        """Return 1 where all values of the first input are at least 0, `below` where none is; else NaN."""
        low, high = self.ends()
        return np.where(low >= 0, 1, np.where(high <= 0, below, np.nan))

    def ends(self) -> tuple[Array, Array]:
        """Return the least and the largest value of the other engine for the first input, of its type."""
        x, error = self.values[0], self.errors[0]
        if x.dtype != FLOAT32:
            low, high = (np.clip(x + step, *integer_limits(x.dtype)).astype(x.dtype) for step in (-error, error))
            return low, high
        below, above = x.astype(np.float64) - error, x.astype(np.float64) + error
        low, high = below.astype(np.float32), above.astype(np.float32)
        low = np.where(low > below, np.nextafter(low, np.float32(-np.inf)), low)
        return low, np.where(high < above, np.nextafter(high, np.float32(np.inf)), high)

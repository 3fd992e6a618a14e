"""A-priori bounds of the rounding errors of float32 operations (Higham, Accuracy and Stability, sections 2.2 and 3.1).

An operation gives its exact result times 1 + d with |d| <= u = 2^-24, plus at most 2^-150 if the result is subnormal;
an addition has no error where its result is subnormal.  n such factors are 1 + t with |t| <= gamma(n).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.tensor import LARGEST

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

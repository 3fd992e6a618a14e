"""Layers as steps from codes to codes, for analyses that need no more than this arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class CodeSums:
    """A dense layer of codes: acc[n] = offset[n] + sum_k a[k] * weights[k, n], then one rounding.

    y[n] = saturate(round_half_even(float32(acc[n]) * multiplier[n]) + zero_point); without rounding and saturation for
    a float32 output.  `weights` is int64 (K, N) less its zero points, `offset` int64 (N,) has the bias and the zero
    point of the inputs, `multiplier` is float32 (N,).
    """

    weights: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    multiplier: npt.NDArray[np.float32]
    zero_point: int


@dataclass(frozen=True)
class Choice:
    """The index of the greatest or the least value; of equal values the first, or the last."""

    greatest: bool
    last: bool

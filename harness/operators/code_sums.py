"""The arithmetic of layers of codes: their sums, for analyses that need no more, and how they round numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.fault_models import Single
from harness.operators.obligations import ProofStep
from harness.operators.sweeps import Swept


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


@dataclass(frozen=True, eq=False)
class Rounded:
    """Rounding of numbers to codes by a layer; by default there is none.

    `zero` is the code of the number 0 in its output, `noun` the term of a diagnosis for the values that are rounded,
    `step` that of a proof which shows constants in instructions.  `before` returns the numbers that the output is
    rounded from, clamped, for inputs (vectors, size); None if it is not rounded.  `check` compares the thresholds, or
    the codes, that take the place of the formula with it, in this machine's float32: it returns the number of inputs,
    and the first that is wrong in words; that is neither how the table was found, in integers, nor how a core applies
    it.  `swept` is the rounding as a function of few integers, if it is one.
    """

    zero: int | None = None
    noun: str = "values"
    step: ProofStep = ProofStep.OTHERS
    before: Callable[..., Single | None] = lambda *_: None
    check: Callable[[Array], tuple[int, str]] = lambda _: (0, "it has no table in the place of its formula")
    swept: Swept | None = None

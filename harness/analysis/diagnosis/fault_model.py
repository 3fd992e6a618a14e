"""What every known mistake comes to: the output that it would give."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array

Real: TypeAlias = npt.NDArray[np.float64]
Single: TypeAlias = npt.NDArray[np.float32]


class Mistake(NamedTuple):
    """A way to compute a layer wrongly and the output (vectors, width) that it gives.

    `cause` and `right` complete the sentence "... differ: `cause`; specification: `right`".  A mistake that takes
    something from the values that were found, and so fits some by chance, must explain at least `least` of them.  A
    `fallback` is named only where nothing else explains everything.
    """

    cause: str
    right: str
    output: Array
    least: int = 1
    fallback: bool = False

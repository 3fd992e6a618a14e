"""The type of arrays of any element type and shape, and the memory budget for the arrays of one step."""

from __future__ import annotations

import zlib
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

MEMORY_BUDGET = 512 << 20
"""Bytes of this machine's memory for the arrays of one step, such as the inputs and outputs of a chunk."""
EVALUATION_BUDGET = 4 << 20
"""Bytes of this machine's memory for the evaluation of one layer."""
BYTES_OF_VALUE = 64
"""Bytes that the evaluation of one value takes: accumulators, steps and masks beside it."""

UNREADABLE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError),
    *(RuntimeError, TypeError, ValueError, BadZipFile, zlib.error),
)
"""Exceptions of numpy for a file that is no .npy or .npz, or has other arrays than expected."""


def file_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that .npy files have for one: that of the bits, where NumPy itself does not have the type."""
    is_foreign = dtype.isbuiltin == 2
    return np.dtype(f"u{dtype.itemsize}") if is_foreign else dtype


def vectors_at_once(size: int) -> int:
    """Return the number of vectors of which a layer of `size` values is evaluated together."""
    return max(EVALUATION_BUDGET // (BYTES_OF_VALUE * size), 1)

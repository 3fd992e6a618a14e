"""The value of a tensor of a network: its name, shape, type and bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

UINT8, INT8, FLOAT32, BOOL = map(np.dtype, ("uint8", "int8", "float32", "bool"))
INT16, UINT16, INT32, UINT32, INT64, UINT64 = map(np.dtype, ("int16", "uint16", "int32", "uint32", "int64", "uint64"))
CODES = (UINT8, INT8)
WIDE_INTEGERS = (INT16, UINT16, INT32, UINT32, INT64, UINT64)
"""The types of integers that are no codes."""
INTEGERS = (*CODES, *WIDE_INTEGERS)
FLOAT16, FLOAT64 = np.dtype(np.float16), np.dtype(np.float64)
SHORT_FLOATS = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
                 "float4_e2m1fn")
)  # fmt: skip
SHORT_INTEGERS = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("int4", "uint4", "int2", "uint2"))
"""Integers of 4 or 2 bits, the last ones of a byte; the other bits count nothing."""
SHORT = (*SHORT_FLOATS, *SHORT_INTEGERS)
"""The types that NumPy has not itself; a value has one or two bytes."""
STORED = (FLOAT16, FLOAT64, *SHORT)
"""The types of activations that are only moved and converted."""
EVERY_TYPE = (FLOAT32, *INTEGERS, BOOL)
"""The types of activations; a bool is a byte, 0 or 1."""


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the greatest value of a type of integers, 0 and 1 of bool."""
    if dtype == BOOL:
        return 0, 1
    limits = (ml_dtypes.iinfo if dtype in SHORT_INTEGERS else np.iinfo)(dtype)
    return int(limits.min), int(limits.max)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is one of floats, of any format."""
    return dtype.kind == "f" or dtype in SHORT_FLOATS


def largest_of(dtype: np.dtype[Any]) -> float:
    """Return the greatest finite number of a type of floats."""
    limits: Any = ml_dtypes.finfo if dtype in SHORT_FLOATS else np.finfo
    return float(limits(dtype).max)


LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Tensor:
    """An activation or the network's input: `shape` is that of one vector, without the batch.

    Dumps, comparison and C buffers are flat: (vectors, size).  No |value| exceeds `bound`, which is infinite if a value
    can be.  Finite values give no NaN, and the network's input is finite for the layers for which that matters (see
    `Stimuli.takes_every_input`).  After an overflow, a sum of infinities or a product of one and 0 can be NaN: the
    reference fails for such an input.  `negative_zero` is true if a value can be -0.  No |value| is below `least`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bound: float = math.inf
    negative_zero: bool = False
    least: float = 0.0

    @property
    def size(self) -> int:
        """The number of values of one vector."""
        return math.prod(self.shape)

    @property
    def shape_text(self) -> str:
        """The shape of one vector for people: 3x32x32."""
        return "x".join(map(str, self.shape)) or "1"

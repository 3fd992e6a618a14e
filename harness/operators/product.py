"""Computation of layers by ONNX Runtime: products of 8-bit matrices as its kernels differ, and a known defect.

On x86-64 without VNNI, the kernels for uint8 inputs and int8 weights saturate sums of two products to int16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array

if TYPE_CHECKING:
    from harness.operators.base import Layer

SMALL = (-64, 64)  # two products of such weights with uint8 values stay within int16; quantize_static, reduced, has 64


@dataclass(frozen=True)
class Product:
    """A product of 8-bit matrices, (M, depth) by (depth, width), as ONNX Runtime distinguishes them.

    `weights_zero_points` is one for all columns or one for each; `small` weights are within SMALL.
    """

    input_dtype: str
    weights_dtype: str
    depth: int
    width: int
    input_zero_point: int = 0
    weights_zero_points: tuple[int, ...] = (0,)
    small: bool = False


@dataclass(frozen=True, eq=False)
class Runtime:
    """Computation of a layer by ONNX Runtime.

    It is `transparent` if ONNX Runtime removes it, or moves quantisers across it, before it fuses layers, and `joins` a
    sum before if ONNX Runtime may add its operands to that.  A sum that begins here has at most `begins` roundings of a
    term.  `product` returns the product of 8-bit matrices that it computes, `saturating` the output of kernels that
    saturate pairs of products to int16, None if they cannot.
    """

    layer: Layer
    transparent: bool = False
    joins: bool = False
    begins: int = 0
    product: Callable[[], Product | None] = lambda: None
    saturating: Callable[[Array], Array | None] = lambda _: None

    def roundings(self, before: int) -> int:
        """Return the most roundings of a term of the sum with which it may compute the output; 0 without.

        `before` is the number of the inputs.  It adds constants and activations to the sum of a layer before.
        """
        return self.begins or (before if self.transparent or self.joins else 0)


def are_small(weights: Array) -> bool:
    """Return whether these are int8 weights within SMALL."""
    return bool(weights.dtype == np.int8 and SMALL[0] <= weights.min() and weights.max() <= SMALL[1])


def saturated(a: Array, b: Array, a_zero_point: int, b_zero_point: Array) -> npt.NDArray[np.int64]:
    """Return sum_k (a - a_zero_point) * (b - b_zero_point) by kernels that saturate the products of a and b."""
    of_zero_points: npt.NDArray[np.int64] = (
        len(b) * a_zero_point * b_zero_point.astype(np.int64)
        - a_zero_point * b.astype(np.int64).sum(axis=0)
        - a.astype(np.int64).sum(axis=1, keepdims=True) * b_zero_point
    )
    return saturating_product(a, b) + of_zero_points


def saturating_product(a: Array, b: Array) -> npt.NDArray[np.int64]:
    """Return the defective kernels' result: sum over even k of clamp_int16(a[k] * b[k] + a[k+1] * b[k+1])."""
    limits, total = np.iinfo(np.int16), np.zeros((len(a), b.shape[1]), np.int64)
    for k in range(0, len(b), 2):
        pair = a[:, k : k + 2].astype(np.int64) @ b[k : k + 2].astype(np.int64)
        total += np.clip(pair, limits.min, limits.max)
    return total

"""Weights as 8-bit integers, and their residuals as 8-bit integers again (residual expansion).

values ~ sum over k of (weight[k] - zero_point[k]) * scale[k]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.model.float_network import Floats32

Floats64: TypeAlias = npt.NDArray[np.float64]
WeightKind: TypeAlias = Literal["int8-per-column", "int8", "uint8"]

WEIGHT_MAX = 127
"""Largest code of the symmetric int8 kinds: without -128 a weight and its negative are equally exact."""

_UINT8_MAX = 255

# Weights this far below the layer's greatest, or too small for a normal float32 scale, count as zero.
_LEAST_SHARE = np.float32(2**-64)
_LEAST_WEIGHT = np.float32(2**-100)

# A scale for the bias alone, where there are no weights, keeps the bias to 20 bits; any other must fit it into 30.
_BIAS_BITS_WITHOUT_WEIGHTS = 20
_BIAS_BITS = 30


@dataclass(frozen=True, eq=False)
class Term:
    """Integer weights int8 or uint8 (K, N); `scale` float32 and `zero_point` of the weights' type, () or (N,) each."""

    weight: npt.NDArray[Any]
    scale: Floats32
    zero_point: npt.NDArray[Any]

    def values(self) -> Floats64:
        """Return the values of the integers, (weight - zero_point) * scale, exact in float64 (K, N)."""
        return np.asarray((self.weight.astype(np.float64) - self.zero_point) * self.scale.astype(np.float64))


def column_scales(weight: Floats32) -> Floats32:
    """Return the scale (N,) of each column of `weight` (K, N): its greatest magnitude is 127 steps.

    A column without weights takes the greatest of the layer, or 1 where the layer has none either.
    """
    greatest = np.abs(weight).max(axis=0)
    layer = greatest.max()
    if layer < _LEAST_WEIGHT:
        layer = np.float32(1)
    counts = greatest >= max(layer * _LEAST_SHARE, _LEAST_WEIGHT)
    return np.asarray(np.where(counts, greatest, layer) / np.float32(WEIGHT_MAX), dtype=np.float32)


def expand(weight: Floats32, bias_reach: Floats64, kind: WeightKind, order: int) -> tuple[Term, ...]:
    """Return the terms R(1) to R(order) of `weight` (K, N):  R(k) = Q(weight - sum_{j < k} Q^-1(R(j))).

    Equation 1 of the ACAS Xu paper (Yvinec et al., REx).  The greatest error falls by a factor of 254 (int8) or 255
    (uint8) with every term.  `bias_reach` (N,), |bias| / a_scale, widens the first term's scales where the int32 bias
    would not fit; the further terms recover what the weights lose by that.
    """
    rest = weight.astype(np.float64)
    terms: list[Term] = []
    for reach in (bias_reach, *[np.zeros_like(bias_reach)] * (order - 1)):
        terms.append(_KINDS[kind](rest.astype(np.float32), reach))
        rest = rest - terms[-1].values()
    return tuple(terms)


def _int8_by_column(weight: Floats32, bias_reach: Floats64) -> Term:
    scale = _fitted(column_scales(weight), weight.any(axis=0), bias_reach)
    return Term(_int8(weight, scale), scale, np.zeros(len(scale), np.int8))


def _int8_by_tensor(weight: Floats32, bias_reach: Floats64) -> Term:
    scale = _fitted(column_scales(weight).max(), weight.any(), bias_reach.max())
    return Term(_int8(weight, scale), scale, np.zeros((), np.int8))


def _int8(weight: Floats32, scale: Floats32) -> npt.NDArray[np.int8]:
    return np.asarray(np.clip(np.rint(weight / scale), -WEIGHT_MAX, WEIGHT_MAX), dtype=np.int8)


def _uint8_by_tensor(weight: Floats32, bias_reach: Floats64) -> Term:
    low, high = np.minimum(weight.min(), 0), np.maximum(weight.max(), 0)
    span = float(high) - float(low)
    finest = np.float32((span if span >= _LEAST_WEIGHT else 1) / _UINT8_MAX)
    scale = _fitted(finest, weight.any(), bias_reach.max())
    zero_point = np.clip(np.rint(-low / scale), 0, _UINT8_MAX)
    codes = np.clip(np.rint(weight / scale) + zero_point, 0, _UINT8_MAX)
    return Term(codes.astype(np.uint8), scale, np.asarray(zero_point, dtype=np.uint8))


def _fitted(scale: Any, has_weights: Any, bias_reach: Any) -> Floats32:
    """Return the scale, no finer than the bias allows; one that suits the bias alone where there are no weights."""
    for_weights = np.maximum(scale, bias_reach * 2.0**-_BIAS_BITS)
    for_bias_alone = np.maximum(for_weights * _LEAST_SHARE, bias_reach * 2.0**-_BIAS_BITS_WITHOUT_WEIGHTS)
    return np.asarray(np.where(has_weights | (bias_reach == 0), for_weights, for_bias_alone), dtype=np.float32)


_KINDS: dict[WeightKind, Callable[[Floats32, Floats64], Term]] = {
    "int8-per-column": _int8_by_column,
    "int8": _int8_by_tensor,
    "uint8": _uint8_by_tensor,
}

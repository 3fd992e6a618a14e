"""Why a layer differs: the observed values are held against known ways to compute it wrongly.

Each hypothesis predicts a layer's output from the layer's right inputs.  One that predicts every value of every
vector looked at, the differing ones among them, explains the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.compare import difference_map
from harness.network import Add, Array, Layer, QGemm, QuantizeLinear

VECTORS_LOOKED_AT = 4096


@dataclass(frozen=True)
class Hypothesis:
    """How well one hypothesis does: differing values that it predicts, and values that it predicts wrongly."""

    name: str
    explained: int
    contradicted: int


@dataclass(frozen=True)
class Diagnosis:
    """The hypotheses for one layer, over `differing` differing values."""

    layer: int
    differing: int
    hypotheses: tuple[Hypothesis, ...]

    def __add__(self, later: Diagnosis) -> Diagnosis:
        """Both findings as one; of different layers the earlier layer's, which is the cause of the later's."""
        if self.layer != later.layer:
            return min(self, later, key=lambda diagnosis: diagnosis.layer)
        both = zip(self.hypotheses, later.hypotheses, strict=True)
        summed = tuple(Hypothesis(a.name, a.explained + b.explained, a.contradicted + b.contradicted) for a, b in both)
        return Diagnosis(self.layer, self.differing + later.differing, summed)

    @property
    def ranked(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that explain anything, best first."""
        useful = (hypothesis for hypothesis in self.hypotheses if hypothesis.explained)
        return tuple(sorted(useful, key=lambda h: (h.contradicted, -h.explained)))

    @property
    def text(self) -> str:
        """One sentence: the likely cause."""
        complete = [h.name for h in self.ranked if h.explained == self.differing and h.contradicted == 0]
        if complete:
            return f"all {self.differing} differing values looked at are explained by: {'; or '.join(complete)}"
        if self.ranked:
            best = self.ranked[0]
            return (
                f"no known cause explains all of them; nearest: {best.name} "
                f"({best.explained} of {self.differing} explained, {best.contradicted} contradicted)"
            )
        return "no known cause explains any of the differing values: look at the kernel's sums and its inputs"


def diagnose(index: int, layer: Layer, inputs: Sequence[Array], expected: Array, actual: Array) -> Diagnosis:
    """Try every hypothesis for `layer` (the first that differs, so that `inputs` are what it was fed).

    `inputs` are its sources, (vectors, K) each; `expected` and `actual` are (vectors, width) of the layer's type.
    """
    differing = difference_map(expected, actual)
    rows = _rows(differing)
    inputs = [values[rows] for values in inputs]
    expected, actual, differing = expected[rows], actual[rows], differing[rows]
    predictions = ((name, predicted) for name, predicted in _predictions(layer, inputs))
    hypotheses = tuple(_judge(name, predicted, actual, differing) for name, predicted in predictions)
    return Diagnosis(index, int(differing.sum()), hypotheses)


def _rows(differing: Array) -> Array:
    """The differing vectors, and as many others, so that a hypothesis can be contradicted."""
    bad = differing.any(axis=1)
    return np.concatenate([np.flatnonzero(bad)[:VECTORS_LOOKED_AT], np.flatnonzero(~bad)[:VECTORS_LOOKED_AT]])


def _judge(name: str, predicted: Array, actual: Array, differing: Array) -> Hypothesis:
    wrong = difference_map(predicted, actual)
    return Hypothesis(name, int((differing & ~wrong).sum()), int(wrong.sum()))


Real = npt.NDArray[np.float64]
Rounding = Callable[[Real], Real]

# Ways to round a float32 value v to an integer, computed in float64, where v + 0.5 is exact.
ROUNDINGS: dict[str, Rounding] = {
    "round half away from zero (specification: half to even)": lambda v: np.trunc(v + np.copysign(0.5, v)),
    "round half up (specification: half to even)": lambda v: np.floor(v + 0.5),
    "round half down (specification: half to even)": lambda v: np.ceil(v - 0.5),
    "truncation toward zero instead of rounding": np.trunc,
    "rounding down (floor) instead of to nearest": np.floor,
    "rounding up (ceil) instead of to nearest": np.ceil,
}


def _predictions(layer: Layer, inputs: Sequence[Array]) -> Iterable[tuple[str, Array]]:
    with np.errstate(all="ignore"):
        if isinstance(layer, QGemm):
            yield from _qgemm_predictions(layer, *inputs)
        elif isinstance(layer, QuantizeLinear):
            yield from _quantize_predictions(layer, *inputs)
        elif isinstance(layer, Add):
            yield from _add_predictions(layer, inputs)


def _saturate(rounded: Real, zero_point: int, dtype: np.dtype[Any], *, top: int = 0) -> Array:
    limits = np.iinfo(dtype)
    return np.clip(rounded + zero_point, limits.min, limits.max - top).astype(dtype)


def _common_predictions(v: Real, zero_point: int, dtype: np.dtype[Any]) -> Iterable[tuple[str, Array]]:
    for name, rounding in ROUNDINGS.items():
        yield name, _saturate(rounding(v), zero_point, dtype)
    shifted = np.rint((v + zero_point).astype(np.float32).astype(np.float64))
    yield "zero point added before rounding", _saturate(shifted, 0, dtype)
    yield "zero point left out", _saturate(np.rint(v), 0, dtype)
    yield "saturation one step too early", _saturate(np.rint(v), zero_point, dtype, top=1)
    wrapped = (np.rint(np.clip(v, -(2.0**31), 2.0**31)) + zero_point).astype(np.int64)
    yield "wrap-around instead of saturation", wrapped.astype(np.uint8).view(dtype)


def _quantize_predictions(layer: QuantizeLinear, inputs: Array) -> Iterable[tuple[str, Array]]:
    v = np.nan_to_num(inputs / layer.scale, nan=-np.inf).astype(np.float64)
    yield from _common_predictions(v, layer.zero_point, layer.dtype)
    reciprocal = (inputs * (np.float32(1) / layer.scale)).astype(np.float64)
    yield (
        "multiplication by 1 / scale instead of division",
        _saturate(np.rint(reciprocal), layer.zero_point, layer.dtype),
    )
    double = inputs.astype(np.float64) / np.float64(layer.scale)
    yield "division in double precision", _saturate(np.rint(double), layer.zero_point, layer.dtype)


def _add_predictions(layer: Add, inputs: Sequence[Array]) -> Iterable[tuple[str, Array]]:
    """Not among them: terms that were not rounded to float32 before, which cannot be seen from the rounded ones.

    An addition in double precision of the rounded terms is none either: rounded to float32 it gives the same.
    """
    a, b = inputs if layer.addend is None else (inputs[0], np.broadcast_to(layer.addend, inputs[0].shape))
    yield "first term left out", b
    yield "second term left out", a
    yield "second term subtracted instead of added", a - b
    exact = a.astype(np.float64) + b
    nearest = exact.astype(np.float32)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(exact)
    yield "truncation toward zero instead of rounding", np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)
    flushed = np.where(np.abs(nearest) < np.finfo(np.float32).tiny, nearest * np.float32(0), nearest)
    yield "subnormal sum flushed to zero", flushed


def _qgemm_predictions(layer: QGemm, inputs: Array) -> Iterable[tuple[str, Array]]:
    acc = _accumulate(layer, inputs)
    if layer.dtype != np.float32:
        yield from _requantize_predictions(layer, acc)
    for name, wrong in _wrong_accumulators(layer, inputs, acc):
        yield name, _finish(layer, wrong)


def _accumulate(layer: QGemm, inputs: Array) -> Array:
    """int64 (vectors, N); exact, because every partial sum is an integer below 2^53."""
    weights = layer.weights.astype(np.float64) - layer.weights_zero_point
    return ((inputs.astype(np.float64) - layer.a_zero_point) @ weights).astype(np.int64) + layer.bias


def _finish(layer: QGemm, acc: Array) -> Array:
    v = acc.astype(np.float32) * layer.multiplier
    return v if layer.dtype == np.float32 else _saturate(np.rint(v.astype(np.float64)), layer.y_zero_point, layer.dtype)


def _requantize_predictions(layer: QGemm, acc: Array) -> Iterable[tuple[str, Array]]:
    v = (acc.astype(np.float32) * layer.multiplier).astype(np.float64)
    yield from _common_predictions(v, layer.y_zero_point, layer.dtype)
    exact = acc * layer.multiplier.astype(np.float64)
    yield (
        "product in double precision, not rounded to float32",
        _saturate(np.rint(exact), layer.y_zero_point, layer.dtype),
    )
    fused = np.rint((exact + layer.y_zero_point).astype(np.float32).astype(np.float64))
    yield "fused multiply-add of product and zero point", _saturate(fused, 0, layer.dtype)


def _wrong_accumulators(layer: QGemm, inputs: Array, acc: Array) -> Iterable[tuple[str, Array]]:
    centered = inputs.astype(np.int64) - layer.a_zero_point
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    yield "bias left out", acc - layer.bias
    if layer.a_zero_point:
        yield "input zero point left out", acc + layer.a_zero_point * weights.sum(axis=0)
    if layer.weights_zero_point.any():
        yield "weight zero point left out", acc + centered.sum(axis=1, keepdims=True) * layer.weights_zero_point
    yield "last input left out of the sum", acc - centered[:, -1:] * weights[-1]
    yield "int16 saturation of pairs of products", _pair_saturated(layer, inputs, acc)


def _pair_saturated(layer: QGemm, inputs: Array, acc: Array) -> Array:
    """As x86's VPMADDUBSW: raw products of inputs k and k + 1 (k even) added in saturating int16."""
    error = np.zeros_like(acc)
    codes, weights = inputs.astype(np.int64), layer.weights.astype(np.int64)
    for k in range(0, layer.input_width - 1, 2):
        pair = codes[:, k : k + 1] * weights[k] + codes[:, k + 1 : k + 2] * weights[k + 1]
        error += np.clip(pair, -(2**15), 2**15 - 1) - pair
    return acc + error

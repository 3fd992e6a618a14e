"""A float network as the steps that its file takes: their value, a bound of its error, and the dense layers of them.

Exact values are float64.  With the unit roundoff u = 2**-24 of float32 (2**-11 of float16, 2**-53 of float64) and
gamma(n) = n u / (1 - n u), a step that reads x, off by at most e, adds a rounding error of at most

    product    gamma(K + 4) ((|x| + e) |W| + |b|) + (K + 4) eta      K products and K - 1 sums in any order;
    scaling    gamma(4) (|x| + e) |s| + eta                          four more for alpha, beta, the bias, and the
    shift      gamma(4) (|x| + e + |c|)                              rounding of the constants W, b, s, c themselves

where eta is the smallest positive number (a product may underflow).  The errors of the steps before are carried on as
the steps carry values, by the signed weights, and summed by magnitude at the end: e = sum of |errors|.  (Carried by |W|
they would grow to more than the scores in a handful of layers.)  A ReLU passes the errors of what is surely positive
(x > e) and stops those of what is surely negative (x < -e); between, the error becomes any of magnitude e.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.errors import RequestError
from harness.model.float_network import Dense, Floats32

Floats64: TypeAlias = npt.NDArray[np.float64]
CARRIED = 1 << 22
"""Errors that a bound carries at once: the vectors of wide layers have their bounds one after the other."""
LARGEST_DIAGONAL = 1 << 20
"""Weights of a layer that only scales and shifts: others keep their own operators."""


@dataclass(frozen=True, eq=False)
class Product:
    """y = x @ weight + bias: `weight` (K, N), `bias` (N,); `factored`: alpha or beta were multiplied into them."""

    node: str
    weight: Floats64
    bias: Floats64
    factored: bool = False


@dataclass(frozen=True, eq=False)
class Scaling:
    """y = x * factor, (K,)."""

    node: str
    factor: Floats64


@dataclass(frozen=True, eq=False)
class Shift:
    """y = x + offset, (K,)."""

    node: str
    offset: Floats64


@dataclass(frozen=True)
class Relu:
    """y = max(x, 0)."""

    node: str


Step: TypeAlias = Product | Scaling | Shift | Relu


def of_layers(layers: Sequence[Dense]) -> list[Step]:
    """Return the steps of the layers themselves."""
    steps: list[Step] = []
    for number, layer in enumerate(layers, start=1):
        steps.append(Product(f"dense_{number}", layer.weight.astype(np.float64), layer.bias.astype(np.float64)))
        steps += [Relu(f"relu_{number}")] if layer.relu else []
    return steps


def evaluate(steps: Iterable[Step], vectors: Floats64) -> Floats64:
    """Return the last values, (n, N), for `vectors` (n, K)."""
    x = vectors
    for step in steps:
        x = _next(step, x)
    return x


def _next(step: Step, x: Floats64) -> Floats64:
    if isinstance(step, Product):
        return np.asarray(x @ step.weight + step.bias)
    if isinstance(step, Scaling):
        return x * step.factor
    return x + step.offset if isinstance(step, Shift) else np.maximum(x, 0)


def spread(step: Step, values: Callable[[Floats64], Floats64]) -> Step:
    """Return a scaling or a shift with other values, a function of its own."""
    if isinstance(step, Scaling):
        return Scaling(step.node, values(step.factor))
    return Shift(step.node, values(step.offset)) if isinstance(step, Shift) else step


@dataclass(frozen=True, eq=False)
class _Errors:
    """The distances of computed values from the exact ones `x` (n, K).

    A distance is sum_g c[g] carried[:, g, :] + d, with |c[g]| <= 1 the same for all K values and |d| <= `local` (n, K).
    """

    carried: Floats64
    local: Floats64

    @property
    def bound(self) -> Floats64:
        """The largest possible distance, (n, K)."""
        return np.asarray(np.abs(self.carried).sum(axis=1) + self.local)

    def multiplied(self, weight: Floats64) -> Floats64:
        """Return the errors after a product: the weights of a value propagate its local error."""
        vectors, count = self.carried.shape[:2]
        errors = np.empty((vectors, count + len(weight), weight.shape[1]))
        np.matmul(self.carried, weight, out=errors[:, :count])
        np.multiply(self.local[:, :, None], weight, out=errors[:, count:])
        return errors


def error_bound(
    steps: Iterable[Step], vectors: Floats64, dtype: np.dtype[Any], before: Floats64 | None = None
) -> Floats64:
    """Return bounds of the errors of the last values (n, N) if the steps are computed in `dtype`.

    `before` are bounds of the errors of `vectors`, of the same shape; 0 if it is None.
    """
    known = tuple(steps)
    local = np.zeros_like(vectors) if before is None else before
    widths = [len(step.bias) for step in known if isinstance(step, Product)]
    # One value of each vector for each pair of an error and a value of the widest layer.
    rows = max(CARRIED // ((vectors.shape[1] + sum(widths)) * max(widths, default=1)), 1)
    parts = [
        _error_bound(known, vectors[first : first + rows], dtype, local[first : first + rows])
        for first in range(0, max(len(vectors), 1), rows)
    ]
    return np.concatenate(parts)


def _error_bound(steps: Iterable[Step], vectors: Floats64, dtype: np.dtype[Any], before: Floats64) -> Floats64:
    unit, eta = float(np.finfo(dtype).eps) / 2, float(np.finfo(dtype).smallest_subnormal)
    x, errors = vectors, _Errors(np.zeros((len(vectors), 0, vectors.shape[1])), before)
    with np.errstate(over="ignore", invalid="ignore"):  # a value that overflows has no bound and is not finite
        for step in steps:
            errors = _propagated(step, x, errors, unit, eta)
            x = _next(step, x)
    return errors.bound


def _propagated(step: Step, x: Floats64, errors: _Errors, unit: float, eta: float) -> _Errors:
    reach = np.abs(x) + errors.bound
    if isinstance(step, Product):
        operations = len(step.weight) + 4
        rounding = _gamma(operations, unit) * (reach @ np.abs(step.weight) + np.abs(step.bias))
        return _Errors(errors.multiplied(step.weight), rounding + operations * eta)
    if isinstance(step, Scaling):
        magnitude = np.abs(step.factor)
        rounding = _gamma(4, unit) * reach * magnitude + eta
        return _Errors(errors.carried * step.factor, errors.local * magnitude + rounding)
    if isinstance(step, Shift):
        return _Errors(errors.carried, errors.local + _gamma(4, unit) * (reach + np.abs(step.offset)))
    passes, blocks = x > errors.bound, x < -errors.bound
    local = np.where(passes, errors.local, np.where(blocks, 0, errors.bound))
    return _Errors(errors.carried * passes[:, None, :], local)


def _gamma(operations: int, unit: float) -> float:
    """Return gamma_n; infinite if this number of roundings has no bound."""
    return operations * unit / (1 - operations * unit) if operations * unit < 1 else np.inf


def dense_layers(steps: Sequence[Step], width: int, name: str) -> tuple[tuple[Dense, ...], tuple[str, ...]]:
    """Return the layers that compute the steps from `width` inputs, and the nodes folded into their constants.

    A product and the shift after it are a layer without change.  Every other scaling or shift is multiplied in float64
    into the product next to it, or into a diagonal one where there is none, and the result rounded to float32 once.
    Raises RequestError where a constant is beyond float32, and where a diagonal has more than LARGEST_DIAGONAL weights.
    """
    layers: list[Dense] = []
    folded: list[str] = []
    for part in _parts(steps):
        rectified_already = bool(layers) and layers[-1].relu
        if rectified_already and all(isinstance(step, Relu) for step in part):
            continue
        if width * width > LARGEST_DIAGONAL and not any(isinstance(step, Product) for step in part):
            nodes = ", ".join(repr(step.node) for step in part)
            raise RequestError(
                f"model {name!r}: {nodes}: a dense layer of {width:,} x {width:,} weights would compute it",
                f"a product before or behind it, or at most {math.isqrt(LARGEST_DIAGONAL):,} values",
            )
        with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are refused
            weight, bias = (_rounded(values, part, name) for values in _affine(part, width))
        layers.append(Dense(weight, bias, relu=isinstance(part[-1], Relu)))
        folded += _folded(part)
        width = len(bias)
    return tuple(layers), tuple(folded)


def _parts(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield the steps of each layer: a part ends with Relu, or before a second product."""
    part: list[Step] = []
    for step in steps:
        if isinstance(step, Product) and any(isinstance(other, Product) for other in part):
            yield part
            part = []
        part.append(step)
        if isinstance(step, Relu):
            yield part
            part = []
    if part:
        yield part


def _affine(part: Iterable[Step], width: int) -> tuple[Floats64, Floats64]:
    """Return the weights (K, N) and the bias (N,) of a part, without its Relu."""
    weight: Floats64 | None = None
    factor, offset = np.ones(width), np.zeros(width)
    for step in part:
        if isinstance(step, Product):
            weight = factor[:, None] * step.weight
            factor, offset = np.ones(weight.shape[1]), offset @ step.weight + step.bias
        elif isinstance(step, Scaling):
            factor, offset = factor * step.factor, offset * step.factor
        elif isinstance(step, Shift):
            offset = offset + step.offset
    return (np.diag(factor) if weight is None else weight * factor), offset


def _folded(part: Sequence[Step]) -> list[str]:
    """Return the nodes of a part that are not in its layer as they were."""
    names = []
    bare = False  # directly after a product without bias, where a shift is its bias
    for step in part:
        scales = isinstance(step, Scaling) and bool((step.factor != 1).any())
        shifts = isinstance(step, Shift) and bool(step.offset.any()) and not bare
        if scales or shifts or (isinstance(step, Product) and step.factored):
            names.append(step.node)
        bare = isinstance(step, Product) and not step.bias.any()
    return list(dict.fromkeys(names))


def _rounded(values: Floats64, part: Sequence[Step], name: str) -> Floats32:
    rounded = values.astype(np.float32)
    if not np.isfinite(rounded).all():
        nodes = ", ".join(repr(step.node) for step in part)
        raise RequestError(f"model {name!r}: {nodes}: a constant is beyond float32", "constants up to 3.4e38")
    return rounded

"""A-priori bounds of the rounding errors of float32 operations (Higham, Accuracy and Stability, sections 2.2 and 3.1).

An operation gives its exact result times 1 + d with |d| <= u = 2^-24, plus at most 2^-150 if the result is subnormal;
an addition has no error where its result is subnormal.  n such factors are 1 + t with |t| <= gamma(n).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.tensor import FLOAT32, LARGEST, integer_limits

if TYPE_CHECKING:
    from harness.operators.base import Layer

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


@dataclass(frozen=True, eq=False)
class Perturbed:
    """The specified inputs and output of a layer, and how far the inputs of another engine can be from these.

    `values` and `errors` have (vectors, size) for each input; errors are float64, infinite without a bound.
    `roundings` is the most roundings of a term of a sum that ONNX Runtime may compute together with the layer.
    """

    values: Sequence[Array]
    errors: Sequence[Array]
    output: Array
    roundings: int = 0

    def magnitudes(self) -> list[npt.NDArray[np.float64]]:
        """Return the largest |x| of the other engine, for each input."""
        return [np.abs(x.astype(np.float64)) + error for x, error in zip(self.values, self.errors, strict=True)]

    def sides(self, below: Array | float) -> npt.NDArray[np.float64]:
        """Return 1 where all values of the first input are at least 0, `below` where none is; else NaN."""
        low, high = self.ends()
        return np.where(low >= 0, 1, np.where(high <= 0, below, np.nan))

    def ends(self) -> tuple[Array, Array]:
        """Return the least and the largest value of the other engine for the first input, of its type."""
        x, error = self.values[0], self.errors[0]
        if x.dtype != FLOAT32:
            low, high = (np.clip(x + step, *integer_limits(x.dtype)).astype(x.dtype) for step in (-error, error))
            return low, high
        below, above = x.astype(np.float64) - error, x.astype(np.float64) + error
        low, high = below.astype(np.float32), above.astype(np.float32)
        low = np.where(low > below, np.nextafter(low, np.float32(-np.inf)), low)
        return low, np.where(high < above, np.nextafter(high, np.float32(np.inf)), high)


@dataclass(frozen=True, eq=False)
class Errors:
    """Bounds of the values of a layer, and of the distance of other right results, for bounds of its inputs.

    It is `rising` if no value falls when values that it reads rise, and `piecewise_monotone` if each value is a
    function of one value, which rises or falls on either side of 0; in every rounding both.  No float32 value is below
    `least`, where `bounds` lose it.  It is `exact` if ONNX Runtime gives the same bits in spite of a `tolerance`.

    `specified` returns where the output is specified for inputs and that output, bool; None if everywhere.
    `bounds` returns bounds, (1, size) each, of the output for inputs from `low` to `high`, (1, size) each.
    `distance` returns `propagated` for inputs that can differ; NaN means infinite.
    `linear` returns the exact change of the output for changes of the inputs, float64 (n, size) each; None if the layer
    is not linear.  `change` returns the most that the exact result changes, None if that is not known, and `rounding`
    the bound of the rounding errors of the output and of any right result, float64 (vectors, size).
    `slopes` returns the slope of each value, NaN where it has several; None if they are not known.  `tangent` returns
    `affine` in another way.  `steps` is the number of evaluations of stages that `distance` makes one after the other.
    """

    layer: Layer
    rising: bool = False
    piecewise_monotone: bool = False
    least: float = -math.inf
    exact: bool = False
    specified: Callable[[Sequence[Array], Array], Array | None] = lambda *_: None
    bounds: Callable[[Sequence[Array], Sequence[Array]], tuple[Array, Array]] | None = None
    distance: Callable[[Perturbed], Array] | None = None
    linear: Callable[[Sequence[Array]], Array | None] = lambda _: None
    change: Callable[[Perturbed], Array | None] | None = None
    rounding: Callable[[Perturbed], Array] | None = None
    slopes: Callable[[Perturbed], Array | None] = lambda _: None
    tangent: Callable[[Perturbed, Sequence[Array], Sequence[Array]], tuple[Array, Array] | None] | None = None
    steps: int = 0

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:
        """Return bounds, (1, size) each, of the output for inputs from `low` to `high`, (1, size) each."""
        layer = self.layer
        if self.bounds is not None:
            return self.bounds(low, high)
        if self.rising:
            with np.errstate(all="ignore"):
                least, most = (layer.prepare()(*ends) for ends in (low, high))
            if layer.dtype.kind == "f":  # a sum or product of infinities has no bound
                least, most = (
                    np.nan_to_num(least, nan=-np.inf, posinf=np.inf, neginf=-np.inf),
                    np.nan_to_num(most, nan=np.inf, posinf=np.inf, neginf=-np.inf),
                )
            return least, most
        if self.piecewise_monotone:
            evaluate, [least], [most] = layer.prepare(), low, high
            inputs = (least, most, np.clip(np.zeros_like(least), least, most))
            ends = [evaluate(x) for x in inputs]
            errors = [(y, layer.tolerance([x], y)) for x, y in zip(inputs, ends, strict=True)]
            # an approximation rises and falls but for its errors
            ends += [(y + sign * error).astype(y.dtype) for y, error in errors if error is not None for sign in (-2, 2)]
            return np.minimum.reduce(ends), np.maximum.reduce(ends)
        if layer.dtype.kind == "f":
            limit = np.full((1, layer.size), layer.output.bound)
            return np.nextafter(-limit.astype(np.float32), -np.inf), np.nextafter(limit.astype(np.float32), np.inf)
        lowest, highest = (np.full((1, layer.size), code, layer.dtype) for code in integer_limits(layer.dtype))
        return lowest, highest

    @property
    def has_tolerance(self) -> bool:
        """True if ONNX Runtime may give other bits within `tolerance`."""
        return not self.exact and has_tolerance(type(self.layer))

    def propagated(self, at: Perturbed) -> npt.NDArray[np.float64]:
        """Return a bound of |y - output| for all right results y for inputs within `at`, float64 (vectors, size).

        A result is right if it is specified for its own inputs, or within their `tolerance`.  The bound is infinite
        where none is known: exactness passes on through every layer, a difference only where `distance` knows how.
        """
        alike = np.logical_and.reduce([~errors.any(axis=1, keepdims=True) for errors in at.errors])
        with np.errstate(all="ignore"):
            right = self.layer.tolerance(at.values, at.output) if alike.any() else None
            exact = np.zeros(at.output.shape) if right is None else right
            bound = exact if alike.all() else np.where(alike, exact, self._distance(at))
        return np.where(np.isnan(bound), np.inf, bound)

    def _distance(self, at: Perturbed) -> Array:
        if self.distance is not None:
            return self.distance(at)
        if self.piecewise_monotone:
            change, allowed = self.between_ends(at)
            return change + allowed
        largest = self._change(at)
        return np.full(at.output.shape, np.inf) if largest is None else largest + self._rounding(at)

    def _change(self, at: Perturbed) -> Array | None:
        return self.linear(at.errors) if self.change is None else self.change(at)

    def _rounding(self, at: Perturbed) -> Array:
        """Return the bound of the rounding errors.

        By default the tolerance for the largest magnitudes, with which an a-priori bound of both results grows (Higham,
        Accuracy and Stability, 3.1).
        """
        if self.rounding is not None:
            return self.rounding(at)
        tolerance = self.layer.tolerance(at.magnitudes(), at.output)
        return np.zeros(at.output.shape) if tolerance is None else tolerance

    def affine(self, at: Perturbed, rows: Sequence[Array], rest: Sequence[Array]) -> tuple[Array, Array] | None:
        """Return `rows` and `rest` of the output for those of the inputs; None if `propagated` is the only bound.

        Affine arithmetic (Stolfi and de Figueiredo, 1997): a value differs by the sum of its row of `rows`, float64
        (symbols, vectors, size), each times a number of -1 to 1 that all values have in common, and by up to `rest`,
        (vectors, size).  Signs stay, so that errors cancel as they do in the network.
        """
        if self.tangent is not None:
            return self.tangent(at, rows, rest)
        slopes = self.slopes(at)
        if slopes is not None:
            (several, allowed), [largest] = self.between_ends(at), at.magnitudes()
            rounded = np.where(slopes == 1, 0, 2 * UNIT_ROUNDOFF * np.abs(slopes) * largest + UNDERFLOW)
            kept = np.abs(slopes) * rest[0] + rounded + allowed
            return np.nan_to_num(slopes) * rows[0], np.where(np.isnan(slopes), several + allowed, kept)
        mapped = self.linear([row.reshape(-1, row.shape[2]) for row in rows])
        change = None if mapped is None else self._change(replace(at, errors=rest))
        if mapped is None or change is None:
            return None
        return mapped.reshape(*rows[0].shape[:2], self.layer.size), change + self._rounding(at)

    def between_ends(self, at: Perturbed) -> tuple[Array, Array]:
        """Return the largest change to the results at both ends and at 0, if that lies between, and their tolerance.

        Without a bound of the input there is none of the output, even if a function is bounded.
        """
        (low, high), evaluate = at.ends(), self.layer.prepare()
        change, allowed = np.zeros((2, *at.output.shape))
        for x in (low, np.clip(np.zeros_like(low), low, high), high):
            y = evaluate(x)
            change = np.maximum(change, np.abs(y.astype(np.float64) - at.output))
            tolerance = self.layer.tolerance([x], y)
            allowed = allowed if tolerance is None else np.maximum(allowed, tolerance)
        return np.where(np.isinf(at.errors[0]), np.inf, change), allowed


def has_tolerance(operator: type[Layer]) -> bool:
    """Return whether a class states a tolerance."""
    from harness.operators.base import Layer

    return operator.tolerance is not Layer.tolerance

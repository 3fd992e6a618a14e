"""The polynomials of the exact functions: minimax in relative error.

Remez's exchange with 64-bit significands (x87 long double).  The first coefficient is rounded, the others are fitted to
what remains, the next one is rounded, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Extended = npt.NDArray[Any]
Function = Callable[[Extended], Extended]
L = np.longdouble

HALF_OF_LN_2 = float(np.log(2) / 2 * (1 + 2e-5))
"""The largest |r|: n is the nearest integer but for the rounding of x LOG2E."""
GRID = 40_001


def exp_terms(count: int = 5) -> list[float]:
    """E2, E3, ... of exp(r) = 1 + r + r^2 (E2 + E3 r + ...)."""

    def rest(r: Extended) -> Extended:
        series = _horner(r, [L(1) / _factorial(k) for k in range(2, 17)])
        return np.where(np.abs(r) < 0.05, series, (np.expm1(r) - r) / np.maximum(r * r, L(1e-9)))

    def weight(r: Extended) -> Extended:
        return np.maximum(r * r, L(1e-6)) / np.exp(r)

    return rounded(rest, weight, count, -HALF_OF_LN_2, HALF_OF_LN_2)


TANH_SERIES = [L(-1) / 3, L(2) / 15, L(-17) / 315, L(62) / 2835, L(-1382) / 155925, L(21844) / 6081075]


def tanh_terms(count: int = 5, limit: float = 0.625) -> list[float]:
    """T0, T1, ... of tanh(x) = x + x^3 (T0 + T1 x^2 + ...)."""

    def rest(s: Extended) -> Extended:
        x = np.sqrt(np.maximum(s, L(1e-9)))
        return np.where(s < 0.003, _horner(s, TANH_SERIES), (np.tanh(x) / x - 1) / (x * x))

    def weight(s: Extended) -> Extended:
        x = np.sqrt(np.maximum(s, L(1e-30)))
        return s * x / np.tanh(x) + L(1e-30)

    return rounded(rest, weight, count, 0.0, limit * limit)


def log_terms(count: int = 4) -> list[float]:
    """L0, L1, ... of log(1 + f) = f - (f^2 / 2 - s (f^2 / 2 + s^2 (L0 + L1 s^2 + ...))), s = f / (2 + f)."""
    largest = float((np.sqrt(2) - 1) / (np.sqrt(2) + 1))  # of s, where 1 + f is the root of 2

    def rest(z: Extended) -> Extended:
        return _horner(z, [L(2) / (2 * power + 3) for power in range(14)])

    return rounded(rest, lambda z: z + L(1e-9), count, 0.0, largest * largest * 1.0001)


SMALLEST_LARGE = 0.921875
"""The |x| from which erf(x) is 1 - exp(polynomial)."""


def error_terms(count: int = 6) -> list[float]:
    """R0, R1, ... of erf(x) = x + x (R0 + R1 x^2 + ...) below SMALLEST_LARGE."""
    root = np.sqrt(np.arctan(L(1)) * 4)
    series = [2 / root * (-1) ** power / _factorial(power) / (2 * power + 1) for power in range(25)]

    def rest(s: Extended) -> Extended:
        return _horner(s, [series[0] - 1, *series[1:]])

    return rounded(rest, lambda s: 1 / (1 + rest(s)), count, 0.0, SMALLEST_LARGE**2)


def complement_terms(count: int = 6) -> list[float]:
    """C0, C1, ... of log(1 - erf(x)) = C0 + C1 x + ... from SMALLEST_LARGE to 4."""

    def logarithm(x: Extended) -> Extended:
        return (np.log(2) + special.log_ndtr(-np.asarray(x, np.float64) * np.sqrt(2))).astype(L)

    def weight(x: Extended) -> Extended:
        complement = np.exp(logarithm(x))
        return complement / (1 - complement) + L(1e-12)

    return rounded(logarithm, weight, count, SMALLEST_LARGE, 4.0)


def rounded(function: Function, weight: Function, count: int, low: float, high: float) -> list[float]:
    """Return float32 coefficients, the lowest power first, of a polynomial near `function` from low to high."""
    found: list[float] = []
    while len(found) < count:
        fitted = _remez(_less(function, found), weight, range(len(found), count), L(low), L(high))
        found = [*found, float(np.float32(fitted[0]))]
    return found


def _less(function: Function, coefficients: Sequence[float]) -> Function:
    return lambda x: function(x) - _horner(x, [L(each) for each in coefficients])


def _remez(function: Function, weight: Function, powers: Sequence[int], low: Any, high: Any) -> Extended:
    """Return the coefficients of these powers that minimise the largest weighted error."""
    places = np.cos(L(np.pi) * (np.arange(len(powers) + 1) + L(0.5)) / (len(powers) + 1))
    x = np.sort((low + high) / 2 + (high - low) / 2 * places)
    grid = np.linspace(low, high, GRID, dtype=L)
    target, weights = function(grid), weight(grid)
    coefficients = np.zeros(len(powers), L)
    for _ in range(60):
        signs = np.where(np.arange(len(x)) % 2, L(-1), L(1))
        columns = [*(x**power for power in powers), signs / weight(x)]
        coefficients = _solved(np.stack(columns, axis=1), function(x))[:-1]
        values = [coefficient * grid**power for coefficient, power in zip(coefficients, powers, strict=True)]
        errors = weights * (target - np.sum(values, axis=0))
        ends = np.flatnonzero(np.sign(errors[1:]) != np.sign(errors[:-1])) + 1
        extremes = [part[np.argmax(np.abs(errors[part]))] for part in np.split(np.arange(GRID), ends)]
        while len(extremes) > len(x):
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        if len(extremes) < len(x) or np.abs(grid[extremes] - x).max() < 1e-9:
            break
        x = grid[extremes]
    return coefficients


def _solved(matrix: Extended, right: Extended) -> Extended:
    """Return the solution of linear equations, by elimination: numpy has none for long double."""
    rows = np.concatenate([matrix, right[:, None]], axis=1)
    for column in range(len(rows)):
        pivot = column + int(np.argmax(np.abs(rows[column:, column])))
        rows[[column, pivot]] = rows[[pivot, column]]
        rows[column] /= rows[column, column].copy()
        others = np.arange(len(rows)) != column
        rows[others] -= rows[others, column][:, None] * rows[column]
    return rows[:, -1]


def _horner(x: Extended, coefficients: Sequence[Any]) -> Extended:
    total = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _factorial(number: int) -> Any:
    return np.prod(np.arange(1, number + 1).astype(L))

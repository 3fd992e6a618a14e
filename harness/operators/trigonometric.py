"""Sin, Cos, Tan, Sinh, Cosh, their inverses, and Atanh (ONNX), float32: functions of exact/trigonometric.py.

Acosh is defined from 1 on, Asin, Acos and Atanh up to the magnitude 1: a node that can read another number is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Array
from harness.operators.exact import trigonometric
from harness.operators.exact.expression import Expression
from harness.operators.float_errors import Perturbed
from harness.operators.pointwise import Approximated


@dataclass(frozen=True, eq=False)
class _Wave(Approximated):
    """A function that does not enlarge the error of its input."""

    def distance(self, at: Perturbed) -> Array:
        """Return the error of the input, at most that of opposite results, with the tolerance."""
        error = np.minimum(at.errors[0], 2) + self.tolerance(at.values, at.output)
        return np.where(np.isfinite(at.errors[0]) & ~np.isnan(error), error, np.inf)


@dataclass(frozen=True, eq=False)
class Sin(_Wave):
    """y[n] = sin(x[n]), of arguments of any magnitude."""

    ONNX = (("", "Sin"),)
    largest_ulp = 5  # 2 was measured
    value = trigonometric.sine


@dataclass(frozen=True, eq=False)
class Cos(_Wave):
    """y[n] = cos(x[n]), of arguments of any magnitude."""

    ONNX = (("", "Cos"),)
    largest_ulp = 5  # 3 was measured
    value = trigonometric.cosine


@dataclass(frozen=True, eq=False)
class Tan(Approximated):
    """y[n] = tan(x[n]), of arguments of any magnitude."""

    ONNX = (("", "Tan"),)
    largest_ulp = 8  # 4 was measured
    value = trigonometric.tangent


@dataclass(frozen=True, eq=False)
class Atan(Approximated):
    """y[n] = atan(x[n])."""

    ONNX = (("", "Atan"),)
    largest_ulp = 6  # 4 was measured
    value = trigonometric.arctangent


@dataclass(frozen=True, eq=False)
class Asin(Approximated):
    """y[n] = asin(x[n])."""

    ONNX = (("", "Asin"),)
    largest_ulp = 6  # 4 was measured
    interval = (-1.0, 1.0)
    value = trigonometric.arcsine


@dataclass(frozen=True, eq=False)
class Acos(Approximated):
    """y[n] = acos(x[n])."""

    ONNX = (("", "Acos"),)
    largest_ulp = 7  # 5 was measured
    interval = (-1.0, 1.0)
    value = trigonometric.arccosine


@dataclass(frozen=True, eq=False)
class Sinh(Approximated):
    """y[n] = sinh(x[n]); it can be infinite."""

    ONNX = (("", "Sinh"),)
    largest_ulp = 6  # 4 was measured
    value = trigonometric.hyperbolic_sine


@dataclass(frozen=True, eq=False)
class Cosh(Approximated):
    """y[n] = cosh(x[n]); it can be infinite."""

    ONNX = (("", "Cosh"),)
    least_output = 1.0
    largest_ulp = 5  # 3 was measured

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return trigonometric.hyperbolic_cosine(abs(x))


@dataclass(frozen=True, eq=False)
class Asinh(Approximated):
    """y[n] = asinh(x[n])."""

    ONNX = (("", "Asinh"),)
    largest_ulp = 5  # 2 was measured
    value = trigonometric.inverse_hyperbolic_sine


@dataclass(frozen=True, eq=False)
class Acosh(Approximated):
    """y[n] = acosh(x[n])."""

    ONNX = (("", "Acosh"),)
    largest_ulp = 5  # 2 was measured
    least = 1.0
    interval = (1.0, 10.0)
    value = trigonometric.inverse_hyperbolic_cosine


@dataclass(frozen=True, eq=False)
class Atanh(Approximated):
    """y[n] = atanh(x[n])."""

    ONNX = (("", "Atanh"),)
    largest_ulp = 6  # 3 was measured
    interval = (-1.0, 1.0)
    value = trigonometric.inverse_hyperbolic_tangent

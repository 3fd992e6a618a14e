"""Functions of one float32 that ONNX names: roundings to integers, signs, roots, exp, log and others.

Abs, Neg and Sign are also those of integers, Abs and Neg of float16.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from harness.operators.base import Layer
from harness.operators.exact import functions
from harness.operators.exact.expression import (
    Expression,
    ceiling,
    equal,
    floor,
    nearest,
    round_half_even,
    select,
    square_root,
)
from harness.operators.exact.functions import exponential
from harness.operators.half_elements import OPERANDS, HalfElements
from harness.operators.integer_elements import IntegerElements, reads_integers
from harness.operators.node import Node
from harness.operators.pointwise import Approximated, Pointwise
from harness.operators.tensor import FLOAT16, FLOAT32


@dataclass(frozen=True, eq=False)
class _OfNumbers(Pointwise):
    """A function of float32 whose definition is also that of integers."""

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node of float32 values, of integers, or of float16 if it is in `OPERANDS`."""
        if node.operator in OPERANDS and reads_integers(node, [FLOAT16]):
            return HalfElements.read(node)
        return IntegerElements.read(node) if reads_integers(node) else super().read(node)


@dataclass(frozen=True, eq=False)
class Abs(_OfNumbers):
    """y[n] = |x[n]|."""

    ONNX = (("", "Abs"),)
    value = staticmethod(abs)


@dataclass(frozen=True, eq=False)
class Neg(_OfNumbers):
    """y[n] = -x[n]."""

    ONNX = (("", "Neg"),)
    value = staticmethod(operator.neg)


@dataclass(frozen=True, eq=False)
class Sign(_OfNumbers):
    """y[n] = -1, 0 or 1."""

    ONNX = (("", "Sign"),)

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        if x.dtype == FLOAT32:
            return select(x > 0, 1, select(x < 0, -1, select(equal(x, 0), 0, x)))
        return select(x > 0, 1, x if x.dtype.kind == "u" else select(x < 0, -1, x))


@dataclass(frozen=True, eq=False)
class Ceil(Pointwise):
    """y[n] = the least integer that is not below x[n]."""

    ONNX = (("", "Ceil"),)
    value = staticmethod(ceiling)


@dataclass(frozen=True, eq=False)
class Floor(Pointwise):
    """y[n] = the greatest integer that is not above x[n]."""

    ONNX = (("", "Floor"),)
    value = staticmethod(floor)


@dataclass(frozen=True, eq=False)
class Round(Pointwise):
    """y[n] = the nearest integer, the even one of two."""

    ONNX = (("", "Round"),)
    value = staticmethod(round_half_even)


@dataclass(frozen=True, eq=False)
class Reciprocal(Pointwise):
    """y[n] = 1 / x[n]; infinite for 0."""

    ONNX = (("", "Reciprocal"),)
    value = staticmethod(lambda x: 1 / x)


@dataclass(frozen=True, eq=False)
class Sqrt(Pointwise):
    """y[n] = sqrt(x[n]), rounded once."""

    ONNX = (("", "Sqrt"),)
    interval = (0.0, 10.0)
    least = 0.0
    value = staticmethod(square_root)


@dataclass(frozen=True, eq=False)
class Exp(Approximated):
    """y[n] = exp(x[n]); it can be infinite, and 0."""

    ONNX = (("", "Exp"),)
    least_output = 0.0
    largest_ulp = 2  # 1 was measured
    interval = (-105.0, 89.0)
    places = (-104.5, -103.9721, -87.33655, -0.3465736, 0.3465736, 88.72284, 104.5)
    alternatives = {  # noqa: RUF012
        "the base is 2": lambda x: nearest(np.exp2, x),
        "1 is subtracted": lambda x: nearest(np.expm1, x),
        "it is the square of exp(x / 2)": lambda x: exponential(x * 0.5) * exponential(x * 0.5),
    }
    value = staticmethod(exponential)


@dataclass(frozen=True, eq=False)
class Log(Approximated):
    """y[n] = log(x[n])."""

    ONNX = (("", "Log"),)
    interval = (0.0, 10.0)
    least = 0.0
    largest_ulp = 3
    value = staticmethod(functions.logarithm)


@dataclass(frozen=True, eq=False)
class Erf(Approximated):
    """y[n] = the error function of x[n]."""

    ONNX = (("", "Erf"),)
    largest_ulp = 4  # 2 was measured
    largest_difference = 2.0**-140
    value = staticmethod(functions.error_function)


@dataclass(frozen=True, eq=False)
class Softplus(Approximated):
    """y[n] = log(1 + exp(x[n]))."""

    ONNX = (("", "Softplus"),)
    least_output = 0.0
    largest_ulp = 8  # 5 was measured
    largest_difference = 2.0**-140
    value = staticmethod(functions.softplus)


@dataclass(frozen=True, eq=False)
class Softsign(Approximated):
    """y[n] = x[n] / (1 + |x[n]|)."""

    ONNX = (("", "Softsign"),)
    largest_ulp = 3  # 2 was measured
    value = staticmethod(lambda x: x / (1 + abs(x)))


@dataclass(frozen=True, eq=False)
class Mish(Approximated):
    """y[n] = x[n] * tanh(log(1 + exp(x[n])))."""

    ONNX = (("", "Mish"),)
    largest_ulp = 16  # 9 was measured
    largest_difference = 2.0**-130
    value = staticmethod(lambda x: x * functions.hyperbolic_tangent(functions.softplus(x)))

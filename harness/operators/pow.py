"""Pow (ONNX), float32, with one of the constant exponents 1, 2, 3, -1, 0.5 and -0.5.

ONNX Runtime has the bits of the first three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import onnx

from harness.core.arrays import Array
from harness.operators.base import Layer, fields
from harness.operators.exact.expression import Expression, square_root
from harness.operators.exact.ranges import Interval
from harness.operators.node import Node
from harness.operators.order import unmoved
from harness.operators.pointwise import Approximated, Pointwise
from harness.operators.rename import Rename
from harness.operators.rules import Rules
from harness.operators.tensor import FLOAT32, INT64


@dataclass(frozen=True, eq=False)
class Pow(Pointwise):
    """The square x[n] * x[n]; classes below have the other exponents."""

    ONNX: ClassVar[tuple[tuple[str, str], ...]] = (("", "Pow"),)
    text = Pointwise.text.but(roles=("x", "exponent"))

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return x * x

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that the exponent is broadcast, and has a type of its own."""
        node.same_type(node.x, node.y).broadcast(node.y, node.given_inputs)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node; the exponent selects the definition."""
        node.require_inputs(2, 2)
        exponent = float(node.single(1, "exponent", [FLOAT32, INT64, np.dtype(np.int32)]))
        if exponent == 1:
            source = node.activation(0, [FLOAT32])
            written = fields(node, [source], source.shape, FLOAT32, source.bound, negative_zero=True)
            return Rename(**written, order=unmoved(source.shape))
        if exponent not in POWERS:
            raise node.refusal(
                f"its exponent is {exponent:g}, of which ONNX does not fix the bits",
                f"one of 1, {', '.join(f'{power:g}' for power in POWERS)}; write others as Exp(exponent * Log(x))",
            )
        proto = onnx.NodeProto()
        proto.CopyFrom(node.proto)
        del proto.input[1:]
        # Of the function of one value that all definitions have.
        return Pointwise.read.__func__(POWERS[exponent], replace(node, proto=proto))  # type: ignore[attr-defined,no-any-return]


@dataclass(frozen=True, eq=False)
class Cube(Pow):
    """y[n] = (x[n] * x[n]) * x[n]."""

    ONNX = ()

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return (x * x) * x

    @classmethod
    def _interval(cls, low: Array, high: Array, numbers: Mapping[str, Any]) -> Interval:  # noqa: ARG003 - none
        """Return the ends: each operation rises with |x|, so that no infinity meets a 0."""
        with np.errstate(over="ignore"):
            return Interval.between(low * low * low, high * high * high)


@dataclass(frozen=True, eq=False)
class Inverse(Approximated):
    """y[n] = 1 / x[n]."""

    ONNX = ()
    largest_ulp = 2  # 1 was measured

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return 1 / x


@dataclass(frozen=True, eq=False)
class Root(Approximated):
    """y[n] = sqrt(x[n])."""

    ONNX = ()
    interval = (0.0, 10.0)
    least = 0.0
    largest_ulp = 2  # 1 was measured

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return square_root(x)


@dataclass(frozen=True, eq=False)
class InverseRoot(Approximated):
    """y[n] = 1 / sqrt(|x[n]|), as of both zeros ONNX Runtime gives infinity."""

    ONNX = ()
    interval = (0.0, 10.0)
    least = 0.0
    largest_ulp = 3  # 1 was measured

    @staticmethod
    def value(x: Expression) -> Expression:
        """Return the definition."""
        return 1 / square_root(abs(x))


POWERS: Mapping[float, type[Pointwise]] = {2: Pow, 3: Cube, -1: Inverse, 0.5: Root, -0.5: InverseRoot}
"""The definitions by exponent."""

Pow.text = Pow.text.but(fragments=tuple(fragment for power in POWERS.values() for fragment in power.text.fragments))

"""Mod (ONNX), integers: the remainder with the sign of the divisor, or with `fmod` that of the dividend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability
from harness.operators.div import require_divisor
from harness.operators.exact.expression import Expression, equal, select
from harness.operators.float_errors import Errors
from harness.operators.integer_elements import IntegerElements, Options
from harness.operators.node import Node
from harness.operators.reduce import DOUBLE
from harness.operators.tensor import INT64


@dataclass(frozen=True, eq=False)
class Mod(IntegerElements):
    """y[n] = A[n] - floor(A[n] / B[n]) B[n], or with `fmod` A[n] - trunc(A[n] / B[n]) B[n].

    ONNX Runtime 1.31 converts integers of 64 bits to double precision for `fmod`, so that large ones lose bits.
    """

    ONNX = (("", "Mod"),)
    errors = Ability[Errors](lambda layer: replace(IntegerElements.errors.func(layer), exact=not layer.is_double))

    @staticmethod
    def value(a: Expression, b: Expression, fmod: int) -> Expression:
        """Return the definition."""
        rest = a - a / b * b
        if fmod or a.dtype.kind == "u":
            return rest
        return select((equal(rest, 0) ^ True) & ((rest ^ b) < 0), rest + b, rest)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose divisor is not 0."""
        layer = super().read(node)
        require_divisor(node, layer)
        return layer

    @property
    def is_double(self) -> bool:
        """True if ONNX Runtime computes in double precision."""
        return self.dtype.itemsize == INT64.itemsize and dict(self.options)["fmod"] == 1

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:
        """Return infinity where an operand is no number of double precision, else 0; None if every bit must agree."""
        if not self.is_double:
            return None
        sizes = [np.abs(x.astype(np.float64)) for x in self.arguments(inputs).values()]
        is_large = np.broadcast_to(np.maximum(*sizes) >= DOUBLE, (len(output), *self.output.shape))
        return np.where(is_large, np.inf, 0.0).reshape(output.shape)

    @classmethod
    def options_of(cls, node: Node) -> Options:
        """Return whether the remainder has the sign of the dividend."""
        return (("fmod", int(bool(node.attributes({"fmod": 0})["fmod"]))),)

"""BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and BitShift (ONNX), integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability
from harness.operators.exact.expression import Expression, converted, select, shifted
from harness.operators.exact.modular import unsigned
from harness.operators.float_errors import Errors
from harness.operators.integer_elements import IntegerElements, Options, definition_of
from harness.operators.node import Node
from harness.operators.tensor import UINT8, UINT16, UINT32, UINT64, integer_limits


@dataclass(frozen=True, eq=False)
class BitwiseAnd(IntegerElements):
    """Each bit that both operands have."""

    ONNX = (("", "BitwiseAnd"),)

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a & b


@dataclass(frozen=True, eq=False)
class BitwiseOr(IntegerElements):
    """Each bit that an operand has."""

    ONNX = (("", "BitwiseOr"),)

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a | b


@dataclass(frozen=True, eq=False)
class BitwiseXor(IntegerElements):
    """Each bit that one operand has."""

    ONNX = (("", "BitwiseXor"),)

    @staticmethod
    def value(a: Expression, b: Expression) -> Expression:
        """Return the definition."""
        return a ^ b


@dataclass(frozen=True, eq=False)
class BitwiseNot(IntegerElements):
    """Each bit that the operand does not have."""

    ONNX = (("", "BitwiseNot"),)

    @staticmethod
    def value(a: Expression) -> Expression:
        """Return the definition."""
        return a ^ (-1 if a.dtype.kind == "i" else integer_limits(a.dtype)[1])


@dataclass(frozen=True, eq=False)
class BitShift(IntegerElements):
    """y[n] = A[n] shifted by B[n] places; 0 if these are as many as the bits of the type, or more.

    ONNX says nothing of so many places, of which ONNX Runtime gives what the processor's instruction gives.
    """

    ONNX = (("", "BitShift"),)
    errors = Ability[Errors](lambda layer: replace(IntegerElements.errors.func(layer), exact=not layer.can_be_beyond))
    types = (UINT8, UINT16, UINT32, UINT64)

    @staticmethod
    def value(a: Expression, b: Expression, left: int) -> Expression:
        """Return the definition."""
        x, count = unsigned(a), unsigned(b)
        is_inside = count < 8 * a.dtype.itemsize
        result = shifted("shift_left" if left else "shift_right", x, select(is_inside, count, 0))
        return converted(select(is_inside, result, 0), a.dtype)

    @classmethod
    def options_of(cls, node: Node) -> Options:
        """Return the direction."""
        direction = node.attributes({"direction": b""})["direction"]
        if direction not in {b"LEFT", b"RIGHT"}:
            raise node.refusal(f"direction is {direction.decode(errors='replace')!r}", "LEFT or RIGHT")
        return (("left", int(direction == b"LEFT")),)

    @property
    def can_be_beyond(self) -> bool:
        """True if a value can be shifted by as many places as the type has bits."""
        count = self.terms[1]
        return count is None or bool((count >= 8 * self.dtype.itemsize).any())

    def tolerance(self, inputs: Sequence[Array], output: Array) -> Array | None:
        """Return infinity where ONNX says nothing, else 0; None if every bit must agree."""
        if not self.can_be_beyond:
            return None
        count = self.arguments(inputs)["operand_2"]
        is_beyond = np.broadcast_to(count >= 8 * self.dtype.itemsize, (len(output), *self.output.shape))
        return np.where(is_beyond, np.inf, 0.0).reshape(output.shape)

    def wrong_definitions(self) -> Iterator[tuple[str, Expression]]:
        """Yield the other direction."""
        [(name, left)] = self.options
        yield "the direction is the other one", definition_of(self.operator, self.dtype, 2, ((name, 1 - left),))

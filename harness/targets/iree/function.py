"""Functions of one float32 in MLIR: an expression for each value."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.operators.elu import Elu
from harness.operators.exp import Exp
from harness.operators.hard_sigmoid import HardSigmoid
from harness.operators.hard_swish import ALPHA, BETA, HardSwish
from harness.operators.sigmoid import Sigmoid
from harness.operators.tanh import Tanh
from harness.targets.iree import elementary
from harness.targets.iree.builder import Block, Function, Scalar, Value
from harness.targets.iree.lowering import IreeLowering

L = TypeVar("L", bound=Layer)
ELEMENTARY: Mapping[type[Layer], Callable[[Block, Scalar], Scalar]] = {
    Exp: elementary.exp,
    Sigmoid: elementary.logistic,
    Tanh: elementary.tanh,
}


class FunctionLowering(IreeLowering[L]):
    """One value at a time."""

    def emit(self, layer: L, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations."""
        [x] = inputs
        return function.elementwise(
            layer.dtype, x.shape, [x], lambda block, value: self.compute(layer, block, value), products=True
        )

    @abstractmethod
    def compute(self, layer: L, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""


class ElementaryLowering(FunctionLowering[Layer]):
    """The operations of elementary.py."""

    operator = tuple(ELEMENTARY)

    def compute(self, layer: Layer, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        return ELEMENTARY[type(layer)](block, x)


class EluLowering(FunctionLowering[Elu]):
    """One value at a time; -0 stays."""

    operator = Elu

    def compute(self, layer: Elu, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        zero = block.number(0, name="zero")
        below = block.compare("olt", x, zero)
        less_one = elementary.exp_minus_one(block, block.select(below, x, zero))
        return block.select(below, block.product(block.number(layer.alpha, name="alpha"), less_one), x, name="y")


class HardSigmoidLowering(FunctionLowering[HardSigmoid]):
    """One value at a time."""

    operator = HardSigmoid

    def compute(self, layer: HardSigmoid, block: Block, x: Scalar) -> Scalar:
        """Add the operations on a value."""
        return hard_sigmoid(block, x, layer.alpha, layer.beta)


def hard_sigmoid(block: Block, x: Scalar, alpha: np.float32, beta: np.float32) -> Scalar:
    """Add max(0, min(1, alpha * x + beta))."""
    zero, one = block.number(0, name="zero"), block.number(1, name="one")
    scaled = block.product(block.number(alpha, name="alpha"), x)
    v = block("arith.addf", scaled, block.number(beta, name="beta"))
    v = block.select(block.compare("ogt", v, one), one, v)
    return block.select(block.compare("olt", v, zero), zero, v)


class HardSwishLowering(FunctionLowering[HardSwish]):
    """One value at a time."""

    operator = HardSwish

    def compute(self, layer: HardSwish, block: Block, x: Scalar) -> Scalar:  # noqa: ARG002 - it has no constants
        """Add the operations on a value."""
        return block.product(x, hard_sigmoid(block, x, ALPHA, BETA), name="y")

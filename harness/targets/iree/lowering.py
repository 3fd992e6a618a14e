"""Lowerings of the target iree: the MLIR operations of a layer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from harness.operators.base import Layer
from harness.operators.obligations import StageKind
from harness.targets.base import Lowering
from harness.targets.iree.builder import Block, Function, Scalar, Value

L = TypeVar("L", bound=Layer)


class Part(NamedTuple):
    """A function of a layer: it reads the inputs, or the values of the part before."""

    kind: StageKind
    emit: Callable[[Function, Sequence[Value]], Value]


class IreeLowering(Lowering[L]):
    """The operations of one layer."""

    def parts(self, layer: L) -> tuple[Part, ...]:
        """Return the functions that compute the layer one after the other: the stages of a proof."""
        return (Part(StageKind.COMPUTE, lambda function, inputs: self.emit(layer, function, inputs)),)

    @abstractmethod
    def emit(self, layer: L, function: Function, inputs: Sequence[Value]) -> Value:
        """Add the operations and return the output, (vectors, *shape of the output)."""


def quantised(block: Block, v: Scalar, zero_point: int, dtype: np.dtype[Any]) -> Scalar:
    """Return saturate(round_half_even(v) + zero_point) of a float32; NaN gives the least code.

    The zero point is added to an integer: no float32 product is part of a sum.
    """
    limits = np.iinfo(dtype)
    low = block.number(limits.min - zero_point, name="low")
    high = block.number(limits.max - zero_point, name="high")
    v = block.select(block.compare("ogt", v, low), v, low)
    v = block.select(block.compare("olt", v, high), v, high)
    whole = block("arith.fptosi", block("math.roundeven", v, name="rounded"), to="i32", name="whole")
    code = block("arith.addi", whole, block.number(zero_point, "i32", name="zero_point"), name="code")
    return block("arith.trunci", code, to="i8", name="y")


def centred(block: Block, code: Scalar, dtype: np.dtype[Any], zero_point: int) -> Scalar:
    """Return code - zero_point in int32."""
    wide = block.wide(code, dtype)
    return block("arith.subi", wide, block.number(zero_point, "i32", name="zero_point"), name="centred")


def order(dtype: np.dtype[Any]) -> str:
    """Return the first letter of a predicate: signed, unsigned, or ordered floats."""
    return {"i": "s", "u": "u", "f": "o"}[dtype.kind]


def ends(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and the greatest value."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def chosen(block: Block, value: Scalar, found: Scalar, dtype: np.dtype[Any], *, largest: bool) -> Scalar:
    """Return the value if it is beyond the one that was found, else the latter."""
    predicate = order(dtype) + ("gt" if largest else "lt")
    return block.select(block.compare(predicate, value, found), value, found, name="best")

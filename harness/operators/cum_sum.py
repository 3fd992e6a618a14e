"""CumSum (ONNX), float32 or integers: the sums of all values up to each place along an axis, from the first one on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from harness.core.arrays import Array
from harness.operators.base import Ability, Constants, Layer, fields
from harness.operators.exact.expression import converted, literal
from harness.operators.exact.modular import wide
from harness.operators.exact.stages import Axis, Source, Stage, array, place, recurrence
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import gamma
from harness.operators.node import Node
from harness.operators.reduce import LONG
from harness.operators.rules import Rules
from harness.operators.staged import OfIntegers, Staged, described, errors_of
from harness.operators.tensor import FLOAT32, INT32, INT64, LARGEST

FLAGS = {"flags": "int32 (1, 2): 1 if exclusive, 1 if reverse"}


def definition(shape: tuple[int, int, int], *, exclusive: bool, reverse: bool, dtype: np.dtype[Any] = FLOAT32) -> Stage:
    """Return the definition along the second of three axes; an exclusive sum leaves out the value at its place."""
    outer, time, inner, k = (Axis(name, size) for name, size in zip("otik", (*shape, shape[1]), strict=True))
    x, last, zero = Source("x", (outer, time, inner), dtype), shape[1] - 1, literal(0, wide(dtype))
    at, before = (place(time) * -1 + last, place(k) * -1 + last) if reverse else (place(time), place(k))
    [s] = recurrence(
        time,
        {"s": ((outer, inner), zero)},
        lambda s: s[outer, inner] + converted(x[outer, at, inner], zero.dtype),
    )
    return array("y", (outer, k, inner), converted(s[before + (0 if exclusive else 1), outer, inner], dtype))


@dataclass(frozen=True, eq=False)
class CumSum(Staged):
    """y[o, k, i] = x[o, 0, i] + ... + x[o, k, i]; `reverse` adds from the last one on."""

    ONNX: ClassVar[tuple[tuple[str, str], ...]] = (("", "CumSum"),)
    text = Staged.text.but(
        **described("CumSum", definition((2, 2, 2), exclusive=False, reverse=False), FLAGS), roles=("x", "axis")
    )
    errors = Ability(lambda layer: replace(errors_of(layer), rising=True))

    axis: int
    exclusive: bool
    reverse: bool

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay."""
        node.same(node.x, node.y)

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node with a constant axis behind that of the vectors."""
        node.require_inputs(2, 2)
        attributes = node.attributes({"exclusive": 0, "reverse": 0})
        source, axis = node.activation(0, [FLOAT32, *LONG]), int(node.single(1, "axis", [INT64, INT32]))
        rank = 1 + len(source.shape)
        if axis % rank == 0 or not -rank <= axis < rank:
            raise node.refusal(f"axis is {axis}", f"axes 1 to {rank - 1}: the first one is the vectors")
        exclusive, reverse = (bool(value) for value in attributes.values())
        flags: dict[str, Any] = {"axis": axis % rank - 1, "exclusive": exclusive, "reverse": reverse}
        if source.dtype != FLOAT32:
            return IntegerCumSum(**fields(node, [source], source.shape, source.dtype), **flags)
        count = source.shape[axis % rank - 1]
        bound = count * source.bound * (1 + 2 * gamma(count))
        written = fields(node, [source], source.shape, FLOAT32, bound if bound < LARGEST else math.inf,
                         negative_zero=source.negative_zero)  # fmt: skip
        return cls(**written, **flags)

    def definition(self) -> Stage:
        """Return the definition for the shape of the input."""
        shape, axis = self.input.shape, self.axis
        sizes = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        return definition(sizes, exclusive=self.exclusive, reverse=self.reverse, dtype=self.input.dtype)

    def constants(self) -> Constants:
        """Return the attributes, and the sizes with 1 along the axis of the sums."""
        sizes = [1 if axis == self.axis else size for axis, size in enumerate(self.input.shape)]
        flags = np.array([self.exclusive, self.reverse], np.int32)
        return {"flags": flags, "axes": np.array([self.input.shape, sizes], np.int32)}

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the sums from the other end, and the mutants of the definition."""
        other = replace(self, reverse=not self.reverse)
        yield FaultModel("reverse is the opposite", "values are added in the order", other.prepare()(*inputs))
        yield from super().fault_models(*inputs)


@dataclass(frozen=True, eq=False)
class IntegerCumSum(OfIntegers, CumSum):
    """The same of integers, modulo 2^n."""

    ONNX = ()
    errors = OfIntegers.errors
    text = Staged.text.but(
        **described("CumSum", definition((2, 2, 2), exclusive=False, reverse=False, dtype=INT32), FLAGS, "integers"),
        roles=("x", "axis"),
    )

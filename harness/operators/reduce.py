"""ReduceSum, ReduceMean, ReduceMax and ReduceMin (ONNX), float32, over axes of a vector.

The values x[0], x[1], ... of an output are those along the reduced axes, row by row.

ReduceSum     s = 0, then s = s + x[k] for each                    one IEEE 754 addition each
ReduceMean    y = s / count                                        one IEEE 754 division
ReduceMax     y = x[0], then y = x[k] if x[k] > y (ReduceMin: <) else y      the first of equal values stays
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.fault_models import FaultModel
from harness.operators.float_errors import UNDERFLOW, Perturbed, gamma, within_range
from harness.operators.float_samples import of_samples
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation
from harness.operators.rules import Rules
from harness.operators.sum_orders import OrderedSum
from harness.operators.tensor import FLOAT32, INT64, LARGEST
from harness.operators.text import Fragment

COUNT = "    count: tensor<scalar>,                  # float32 (1, 1): the number of values\n"


def _fragment(operator: str, order: int, comment: str, numbers: str = "") -> Fragment:
    name = f"reduce_{operator.lower()}_float32"
    return Fragment(
        name,
        order,
        f"""\
# ONNX Reduce{operator}: {comment}
fragment {name}(
    x: tensor<scalar>,                      # float32 (vectors, N)
{numbers}    axes: tensor<integer>,                  # int32 (2, axes): their sizes, and 1 for those that are reduced
    columns: integer[],                     # which N columns of its layer: the first, and the first behind them
    type: string)
-> (y: tensor<scalar>);
""",
    )


FRAGMENTS = {
    "ReduceSum": _fragment("Sum", 111, "values along axes are added row by row, from 0 on, each rounded to float32."),
    "ReduceMean": _fragment("Mean", 112, "the sum of ReduceSum, divided by the number of values.", COUNT),
    "ReduceMax": _fragment("Max", 113, "the largest value along axes, of equal ones the first."),
    "ReduceMin": _fragment("Min", 114, "the smallest value along axes, of equal ones the first."),
}


@dataclass(frozen=True, eq=False)
class Reduce(Layer):
    """One value of those along `axes`, numbers of axes of a vector from 0 on, in their order."""

    rising = True
    ONNX = tuple(("", name) for name in FRAGMENTS)
    elementwise = False
    formula = """\
s = 0, then s = s + x for the values along the axes, row by row       ReduceSum: y = s, ReduceMean: y = s / count
y = the first value, then y = x if x > y, else y                      ReduceMax; of ReduceMin x < y"""
    roles = ("x", "axes")
    fragments = tuple(FRAGMENTS.values())

    axes: tuple[int, ...]

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that axes get the size 1, or vanish."""
        node.same_type(node.x, node.y)
        keeps_all = bool(node.attribute("noop_with_empty_axes", 0))
        node.reduces(node.parameter("axes", 1, ()), keep=bool(node.attribute("keepdims", 1)), keeps_all=keeps_all)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node with constant axes, the vectors not among them."""
        node.require_inputs(1, 2)
        attributes = node.attributes({"axes": [], "keepdims": 1, "noop_with_empty_axes": 0})
        source = node.activation(0, [FLOAT32])
        rank = 1 + len(source.shape)
        given = node.constant(1, "axes", [INT64]).tolist() if node.has(1) else attributes["axes"]
        axes = sorted({axis % rank for axis in given if -rank <= axis < rank})
        if not axes or len(axes) != len(given) or axes[0] == 0:
            raise node.refusal(f"axes is {given}", f"some of the axes 1 to {rank - 1}: the values of one vector")
        sizes = [1 if axis + 1 in axes else size for axis, size in enumerate(source.shape)]
        shape = tuple(size for axis, size in enumerate(sizes) if attributes["keepdims"] or axis + 1 not in axes)
        if not shape:
            raise node.refusal("it leaves no axis but the vectors", "keepdims 1")
        written = fields(node, [source], shape, FLOAT32, source.bound, negative_zero=source.negative_zero)
        layer = cls(**written, axes=tuple(axis - 1 for axis in axes))
        return layer if layer.chooses else layer._with_bound_of_sum()

    def _with_bound_of_sum(self) -> Self:
        [source], is_mean = self.inputs, self.operator == "ReduceMean"
        largest = self.count * source.bound * (1 + gamma(self.count))
        bound = largest / (self.count if is_mean else 1) * (1 + gamma(1)) if largest < LARGEST else math.inf
        # A sum from 0 on is no -0; a negative mean can be so small that it becomes one.
        return replace(self, output=replace(self.output, bound=bound, negative_zero=is_mean))

    @property
    def chooses(self) -> bool:
        """True for ReduceMax and ReduceMin, which round nothing."""
        return self.operator in ("ReduceMax", "ReduceMin")

    @property
    def count(self) -> int:
        """The number of values of an output."""
        return math.prod(self.input.shape[axis] for axis in self.axes)

    @property
    def fragment(self) -> Fragment:
        """The operation of the operator."""
        return FRAGMENTS[self.operator]

    def constants(self) -> Constants:
        """Return the divisor of ReduceMean, and the axes."""
        kept = [1 if axis in self.axes else size for axis, size in enumerate(self.input.shape)]
        return self.facts() | {"axes": np.array([self.input.shape, kept], np.int32)}

    def facts(self) -> dict[str, Any]:
        """Return the divisor of ReduceMean."""
        return {"count": np.array([self.count], np.float32)} if self.operator == "ReduceMean" else {}

    def summary(self) -> tuple[str, ...]:
        """Return the number of values of an output."""
        return (f"{self.count} values",)

    def values(self, x: Array) -> Array:
        """Return the values of each output in their order, (n, size, count), for values (n, size of the input)."""
        kept = [axis for axis in range(len(self.input.shape)) if axis not in self.axes]
        images = x.reshape(len(x), *self.input.shape)
        order = (0, *(1 + axis for axis in (*kept, *self.axes)))
        return images.transpose(order).reshape(len(x), self.size, self.count)

    def prepare(self) -> Evaluate:
        """Return the function that adds or compares one value after the other."""
        return lambda x: self._of_values(self.values(x))

    def _of_values(self, values: Array) -> Array:
        with np.errstate(all="ignore"):
            if self.chooses:
                return reduce(self._chosen, np.moveaxis(values, -1, 0))
            return self._divided(self._total(values))

    @staticmethod
    def _total(values: Array) -> Array:
        return reduce(np.add, np.moveaxis(values, -1, 0), np.zeros(values.shape[:2], np.float32))

    def _chosen(self, y: Array, x: Array) -> Array:
        return np.where(x > y if self.operator == "ReduceMax" else x < y, x, y)

    def _divided(self, sums: Array) -> Array:
        found: Array = sums / np.float32(self.count) if self.operator == "ReduceMean" else sums
        return found.astype(np.float32, copy=False)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - as of the base
        """Return where the output is a number."""
        return ~np.isnan(expected)

    def tolerance(self, inputs: Sequence[Array], output: Array) -> npt.NDArray[np.float64]:
        """Return the bounds of two orders of a sum, one of which may be multiplied by 1 / count; 0 for zeros' signs."""
        if self.chooses:
            return np.zeros(output.shape)
        magnitudes = self.values(np.abs(inputs[0].astype(np.float64))).sum(axis=2)
        means = magnitudes / (self.count if self.operator == "ReduceMean" else 1)
        return within_range((gamma(self.count) + gamma(self.count + 1)) * means + UNDERFLOW, magnitudes)

    def change(self, at: Perturbed) -> Array:
        """Return the sum, the mean or, as an extreme value changes by no more, the largest of the errors."""
        sums = self.linear(at.errors)
        return self.values(at.errors[0]).max(axis=2) if sums is None else sums

    def linear(self, rows: Sequence[Array]) -> Array | None:
        """Return sums or means of the changes; None for extreme values."""
        sums: Array = self.values(rows[0]).sum(axis=2) / (self.count if self.operator == "ReduceMean" else 1)
        return None if self.chooses else sums

    def ordered_sum(self, *inputs: Array) -> OrderedSum | None:
        """Return the sums, which begin at 0, so that none is -0; None for extreme values."""
        terms = np.moveaxis(self.values(inputs[0]), -1, 0)
        return None if self.chooses else OrderedSum(terms, lambda sums: self._divided(sums + np.float32(0)))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other orders, roundings, divisors and comparisons, and values that are left out."""
        [x] = inputs
        right, values = "the values along the axes, row by row", self.values(x)
        last = "the last value is left out"
        if self.count > 1:
            yield FaultModel(last, right, self._of_values(values[..., :-1]))
            yield FaultModel("the values are those of other axes", right, self._of_values(x.reshape(values.shape)))
        with np.errstate(all="ignore"):
            if self.chooses:
                signed = np.float32(1 if self.operator == "ReduceMax" else -1)
                found = -signed * (-signed * values).max(axis=2)
                yield FaultModel("the value at the other end is taken", right, found)
                yield FaultModel("of equal zeros the last one stays", right, self._of_values(values[..., ::-1]))
                return
            yield from self.sum_faults(x)
            exact = self._divided(values.astype(np.float64).sum(axis=2))
            yield FaultModel("the operations are in double precision", right, exact)
            if self.operator == "ReduceMean":
                added: Array = self._total(values)
                inverse = added * (np.float32(1) / np.float32(self.count))
                yield FaultModel("the sum is multiplied by 1 / count", "it is divided", inverse)
                yield FaultModel("the sum is not divided", "it is divided by the number of values", added)

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no codes
        """Yield samples."""
        verb = "compared" if self.chooses else "added"
        return of_samples(self, f"the values along the axes are {verb} row by row, and each operation is rounded")

    def assumptions(self) -> Iterator[str]:
        """Yield that comparisons, sums and quotients are samples."""
        if self.chooses:
            yield f"{self.operator} only compares values: random and special numbers were tried."
        else:
            yield (
                f"{self.operator} adds and divides as IEEE 754 requires, in the stated order for all inputs: the order "
                "was tried with random and special numbers."
            )

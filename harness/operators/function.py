"""Base class of operators with a function of one float32 value.

y[n] = f(x[n]), by float32 operations in a stated order, each rounded half to even
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from harness.core.arrays import Array
from harness.operators import text
from harness.operators.base import Ability, Evaluate, Layer, fields
from harness.operators.contracted import CONTRACTED, contracted
from harness.operators.counters import Stimuli
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel, Real, Single, through_float16
from harness.operators.node import Node
from harness.operators.obligations import (
    MIXED,
    SPREAD_VALUES,
    VECTORS,
    Extent,
    Numbers,
    Obligation,
    Outputs,
    ProofStep,
    StageKind,
    mixed,
)
from harness.operators.region import UNIFORM
from harness.operators.rules import Rules
from harness.operators.softfloat import INFINITY_BITS
from harness.operators.sweeps import NEGATIVE, Sweep
from harness.operators.tensor import FLOAT32, LARGEST, Tensor
from harness.operators.text import Text

LEAST_NORMAL = float(np.finfo(np.float32).tiny)
ORDER = "every operation is rounded to float32, in the order of the specification"


class Range(NamedTuple):
    """The largest |value| of an output, and whether a value can be -0."""

    bound: float
    negative_zero: bool


@dataclass(frozen=True, eq=False)
class Function(Layer):
    """A layer with a function of one float32 value; the fields of a subclass are its attributes in ONNX."""

    text = Text(
        roles=("x",),
        summary_of=lambda layer: tuple(f"{name} {text.floats(number)}" for name, number in layer.constants().items()),
    )
    division = Ability(UNIFORM)
    stimuli = Ability(lambda layer: Stimuli(boundaries=layer.boundaries, representable=lambda: layer.interval))
    defaults: ClassVar[Mapping[str, float]] = {}
    """The attributes, which must be finite, with the values that ONNX gives them."""
    interval: ClassVar[tuple[float, float]]
    """Inputs that reach all outputs but those in the limit."""
    places: ClassVar[tuple[float, ...]]
    """Inputs at which the formula changes, besides 0."""
    least: ClassVar[float] = -math.inf
    """The least number for which the function is defined; nodes that can read a lower one are refused."""

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State that type and shape stay."""
        node.same(node.x, node.y)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node of float32 values of any shape."""
        node.require_inputs(1, 1)
        numbers: dict[str, Any] = {name: np.float32(value) for name, value in node.attributes(cls.defaults).items()}
        source = node.activation(0, [FLOAT32])
        for name, number in numbers.items():
            if not np.isfinite(number):
                raise node.refusal(f"{name} is {number}", "a finite number")
        bound, negative_zero = cls.range_of(node, source, numbers)
        written = fields(node, [source], source.shape, FLOAT32, bound, negative_zero=negative_zero)
        return cls(**written, **numbers)

    @classmethod
    @abstractmethod
    def range_of(cls, node: Node, source: Tensor, numbers: Mapping[str, np.float32]) -> Range:
        """Return the range of the output for this input; refuse the node if a value could be NaN."""

    @abstractmethod
    def function(self, x: Single) -> Single:
        """Return the function of float32 numbers of any shape."""

    @abstractmethod
    def wrong_functions(self, x: Single) -> Iterator[FaultModel]:
        """Yield other functions and attributes."""

    def prepare(self) -> Evaluate:
        """Return the function, whose float32 operations are numpy's."""
        return self.function

    def constants(self) -> Mapping[str, np.float32]:
        """Return the attributes."""
        return {name: getattr(self, name) for name in self.defaults}

    def boundaries(self) -> tuple[Array, Array]:
        """Return 0 and the places at which the formula changes, with their neighbours; nothing is quantised."""
        keys = ordered(np.array([0, *self.places], np.float32))
        return from_ordered(np.unique(keys[:, None] + np.arange(-1, 2))), np.empty(0, np.float32)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:
        """Return where input and output are no NaN."""
        return ~(np.isnan(inputs[0]) | np.isnan(expected))

    def obligations(self, extent: Extent) -> Iterator[Obligation]:
        """Yield all floats or numbers of all magnitudes, and the independence of columns."""
        numbers = self._numbers()
        if extent.all_floats:
            infinite = np.array([np.inf, -np.inf], np.float32)
            count = INFINITY_BITS + (not np.isnan(self.function(infinite)).any())
            signs = {"positive": 0} if self.least >= 0 else {"positive": 0, "negative": NEGATIVE}
            for sign, start in signs.items():
                sweep = _shared_sweep(start, count, self.size)
                yield Obligation(
                    ProofStep.OTHERS,
                    StageKind.COMPUTE,
                    f"every {sign} float32 becomes the number of the specification",
                    f"all {count:,} bit patterns pass through the deployed code; all outputs are compared",
                    sweep.cases,
                    Numbers(sweep, lambda bits: self.function(bits.astype(np.uint32).view(np.float32))),
                )
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "numbers become those of the specification, in every column",
            f"{len(numbers):,} numbers of all magnitudes, among them those where the formula changes, pass through "
            f"every column; {MIXED}{'' if extent.all_floats else '; not complete'}",
            (len(numbers) + VECTORS) * self.size,
            Outputs(
                lambda: [np.repeat(numbers[:, None], self.size, axis=1), mixed(numbers, self.size)], self.prepare()
            ),
            complete=extent.all_floats,
        )

    def _numbers(self) -> Single:
        """Return inputs whose outputs are no NaN: around the places, of all magnitudes, and special ones."""
        patterns = np.linspace(0, (1 << 32) - 1, max(SPREAD_VALUES // self.size, 1024)).astype(np.uint32)
        within = np.linspace(*self.interval, max(SPREAD_VALUES // self.size, 1024), dtype=np.float32)
        special = np.array([0, -0.0, LARGEST, -LARGEST, np.inf, -np.inf], np.float32)
        numbers: Single = np.concatenate([self.boundaries()[0], within, patterns.view(np.float32), special])
        specified: Single = numbers[~np.isnan(numbers) & ~np.isnan(self.function(numbers))]
        return specified

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that operations are rounded as IEEE 754 requires."""
        yield (
            f"{type(self).__name__} rounds each operation of its formula to float32, as IEEE 754 requires, in the "
            "order of the formula: unless all floats were asked for, numbers of all magnitudes were tried."
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield other functions, contracted operations, and results in other formats."""
        [x] = inputs
        with np.errstate(all="ignore"):
            yield from self.wrong_functions(x)
            y = self.function(x)
            yield FaultModel(CONTRACTED, ORDER, contracted(self.function, x))
            flushed = np.where(np.abs(y) < np.float32(LEAST_NORMAL), y * np.float32(0), y)
            yield FaultModel("a subnormal result is flushed to zero", "it is kept", flushed)
            small = np.where(np.abs(x) < np.float32(LEAST_NORMAL), x * np.float32(0), x)
            yield FaultModel("a subnormal input is read as zero", "it is kept", self.function(small))
            yield FaultModel("the result is rounded to float16", "to float32", through_float16(y))


def ulp_of(y: Single) -> Real:
    """Return the distance from each float32 to the next one away from 0, float64; that of infinity is 0."""
    magnitude = np.maximum(np.abs(y.astype(np.float64)), LEAST_NORMAL)
    return np.where(np.isinf(y), 0, 2.0 ** (np.frexp(magnitude)[1] - 24.0))


def _shared_sweep(start: int, count: int, columns: int) -> Sweep:
    """Return `count` integers from `start` on, shared among the columns; none continues past the last integer."""
    each = -(-count // columns)
    starts = start + np.minimum(np.arange(columns, dtype=np.int64) * each, count - each)
    return Sweep(starts, np.full(columns, each, np.int64))

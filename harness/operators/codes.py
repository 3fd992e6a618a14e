"""Base classes of operators on codes: an output is a function of one code, or of two, at its place.

Such a function has 256 or 65,536 inputs.  `unrounded` holds the float32 that each of them is rounded from, computed in
integer arithmetic; the specification looks outputs up, and a proof enumerates all inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array
from harness.operators import softfloat
from harness.operators.base import Evaluate, FindTies, Layer
from harness.operators.counters import Counter, LayerCoverage, RoundingCounter
from harness.operators.exact import CACHED_LAYERS, bits_of, saturate
from harness.operators.fault_models import Codes, FaultModel, Single, wrong_roundings
from harness.operators.node import Node
from harness.operators.obligations import all_codes


class Affine(NamedTuple):
    """The quantisation of an activation: a code stands for scale * (code - zero_point)."""

    scale: np.float32
    zero_point: int

    @classmethod
    def read(cls, node: Node, position: int, of: str, dtype: np.dtype[Any]) -> Affine:
        """Read the scale at `position` and the zero point after it, which is 0 if it is not given."""
        zero_point = node.single(position + 1, f"zero point of {of}", [dtype]) if node.has(position + 1) else 0
        return cls(node.scale(position, f"scale of {of}"), int(zero_point))

    def differences(self, dtype: np.dtype[Any]) -> Single:
        """Return code - zero_point for all codes, which float32 holds exactly."""
        return (all_codes(dtype).astype(np.int64) - self.zero_point).astype(np.float32)

    def dequantised(self, dtype: np.dtype[Any]) -> Single:
        """Return float32(scale * (code - zero_point)) for all codes."""
        bits = softfloat.product(bits_of(self.differences(dtype)), bits_of(np.atleast_1d(self.scale)))
        return bits.view(np.float32)

    def divided(self, values: Single) -> Single:
        """Return float32(value / scale)."""
        return softfloat.quotient(bits_of(values), bits_of(np.atleast_1d(self.scale))).view(np.float32)


def rounded(v: Single, zero_point: int, dtype: np.dtype[Any]) -> Array:
    """Return saturate(round_half_even(v) + zero_point), by integer arithmetic; no v is NaN."""
    limits, bits = np.iinfo(dtype), bits_of(v)
    magnitude = softfloat.round_to_integer(softfloat.decode(bits))
    codes: Array = np.where(bits & softfloat.SIGN_BIT, -magnitude, magnitude) + zero_point
    return codes.clip(limits.min, limits.max).astype(dtype)


def rounded_classes(v: Single, codes: Codes) -> Single:
    """Return one of the numbers for each way to be rounded: to which integer, exactly half way or not."""
    clamped = np.clip(v, np.float32(codes.low - codes.zero_point - 1), np.float32(codes.high - codes.zero_point + 1))
    halves = np.where(clamped - np.floor(clamped) == 0.5, clamped, np.rint(clamped))
    _, first = np.unique(halves, return_index=True)
    return v.reshape(-1)[first]


class _Counter(Counter):
    """Counter of the float32 that are rounded; reachable is what all codes of the inputs give."""

    def __init__(self, layer: CodeFunction) -> None:
        self._layer = layer
        self._met, self._all = (RoundingCounter(layer.output, layer.added_zero_point) for _ in range(2))
        for row in layer.reachable():
            self._all.add(row[None])
        self.reachable = self._all

    def add(self, *values: Array) -> None:
        self._met.add(self._layer.rounded_from(*values[:-1]))

    def result(self) -> LayerCoverage:
        return self._met.result_of(self._all)


@dataclass(frozen=True, eq=False)
class CodeFunction(Layer):
    """A layer whose outputs are rounded from float32 that depend on the codes at the same place alone."""

    @property
    @abstractmethod
    def added_zero_point(self) -> int:
        """The number that is added after the rounding."""

    @abstractmethod
    def compute(self) -> Single:
        """Return the float32 that are rounded, for all codes of each operand: (256,) or (256, 256)."""

    @abstractmethod
    def places(self, *inputs: Array) -> npt.NDArray[np.integer[Any]]:
        """Return the places of the inputs' codes, (vectors, size), in flat tables."""

    @abstractmethod
    def reachable(self) -> Iterator[Single]:
        """Yield rows (N,) of float32 that are rounded, so that together they contain all classes of them."""

    @abstractmethod
    def wrong_tables(self) -> Iterator[FaultModel]:
        """Yield the operator's own faults, each with a table in place of an output."""

    @lru_cache(maxsize=CACHED_LAYERS)  # noqa: B019 - layers live as long as their network
    def unrounded(self) -> Single:
        """Return the float32 that are rounded, computed once."""
        return self.compute()

    @property
    def zero_of_output(self) -> int | None:
        """The zero point of y."""
        return self.added_zero_point

    def rounded_from(self, *inputs: Array) -> Single:
        """Return the float32 that each output is rounded from."""
        return self.unrounded().take(self.places(*inputs))

    def table(self) -> Array:
        """Return the outputs for all codes of each operand."""
        return rounded(self.unrounded(), self.added_zero_point, self.dtype)

    def compute_in_float32(self) -> Single:
        """Return the same as `compute`, in this machine's floating point, for a target that deploys the table."""
        raise NotImplementedError

    def check_table(self, table: Array) -> tuple[int, str]:
        """Compare the outputs for all codes, of any 8-bit type."""
        found = table.view(self.dtype)
        with np.errstate(over="ignore"):
            expected = saturate(self.compute_in_float32(), self.dtype, self.added_zero_point)
        if found.shape != expected.shape:
            return 0, f"the table has shape {found.shape}, not {expected.shape}"
        for at in np.argwhere(found != expected):
            place = tuple(at.tolist())
            return (
                found.size,
                f"the codes at {place} become {found[place]} by the table, {expected[place]} by the formula",
            )
        return found.size, ""

    def prepare(self) -> Evaluate:
        """Return the function that looks outputs up."""
        table = self.table()
        return lambda *inputs: table.take(self.places(*inputs))

    def counter(self, room: int) -> Counter:  # noqa: ARG002 - it has no accumulators
        """Count values, ties and saturation."""
        return _Counter(self)

    def find_ties(self) -> FindTies:
        """Find float32 half way between two values."""
        evaluate, limits, v = self.prepare(), np.iinfo(self.dtype), self.unrounded()
        low, high = limits.min - self.added_zero_point, limits.max - self.added_zero_point
        with np.errstate(invalid="ignore"):  # infinity is no tie
            ties = (v - np.floor(v) == 0.5) & (v > low) & (v < high)
        return lambda *inputs: (evaluate(*inputs), ties.take(self.places(*inputs)))

    def before_rounding(self, *inputs: Array) -> Single:
        """Return the float32 that each output is rounded from, clamped."""
        return self.codes.clamp(self.rounded_from(*inputs))

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong roundings, and the operator's own faults."""
        places = self.places(*inputs)
        with np.errstate(all="ignore"):
            for model in (*wrong_roundings(self.unrounded().reshape(-1), self.codes), *self.wrong_tables()):
                yield model._replace(output=model.output.take(places))

    @property
    def codes(self) -> Codes:
        """The codes that float32 are rounded to."""
        return Codes(self.added_zero_point, self.dtype)

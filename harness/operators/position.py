"""Position (harness) of each float32 among the ascending cuts of its axis, -> uint8.

y[n] = (the number of cuts c of axis n with c <= x[n]) + (the number with c < x[n]); 255 if x[n] is NaN or infinite

Below all cuts it is 0, on cut i (from 0 on) 2 i + 1, between the cuts i and i + 1 it is 2 i + 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import onnx

from harness.core.arrays import Array
from harness.operators import onnx_function, sweeps
from harness.operators.base import Constants, Evaluate, Layer, fields
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.obligations import MIXED, VECTORS, Obligation, Outputs, ProofStep, StageKind, Steps, mixed
from harness.operators.softfloat import INFINITY_BITS
from harness.operators.sweeps import StepFunction
from harness.operators.tensor import FLOAT32, LARGEST, UINT8
from harness.operators.text import Fragment

NOT_FINITE = 255
MOST_CUTS = 127
"""The position above the last of so many cuts is 254."""
NEIGHBOURS = 3
SPREAD_VALUES = 1 << 20
"""Evenly spread bit patterns, over all columns."""
SPECIAL = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF], np.uint32)

FORMULA = """\
y[n] = (number of cuts[n, i] <= x[n]) + (number of cuts[n, i] < x[n])
       255 if x[n] is NaN or infinite                          cuts behind the last one are infinite"""
BODY = """\
    largest = Constant <value_float = 3.4028234663852886e38> ()
    not_finite = Constant <value_int = 255> ()
    new_axis = Constant <value_ints = [-1]> ()
    number = Unsqueeze (x, new_axis)
    is_reached = LessOrEqual (cuts, number)
    is_passed = Less (cuts, number)
    reached = Cast <to = 7> (is_reached)
    passed = Cast <to = 7> (is_passed)
    both = Add (reached, passed)
    count = ReduceSum <keepdims = 0> (both, new_axis)
    magnitude = Abs (x)
    finite = LessOrEqual (magnitude, largest)
    position = Where (finite, count, not_finite)
    y = Cast <to = 2> (position)
"""
FRAGMENT = Fragment(
    "position",
    120,
    """\
# The position of each value among the ascending cuts of its axis: one for each cut <= x, one more for each cut < x.
fragment position(
    x: tensor<scalar>,                      # float32 (vectors, N)
    cuts: tensor<scalar>,                   # float32 (N, cuts), infinite behind the last one of an axis
    type: string)
-> (y: tensor<scalar>);
""",
)


@dataclass(frozen=True, eq=False)
class Position(Layer):
    """The position of each value among `cuts`, float32 (N, M), whose rows end with infinities."""

    ONNX = ((onnx_function.DOMAIN, "Position"),)
    takes_every_input = True
    formula = FORMULA
    roles = ("x", "cuts")
    fragments = (FRAGMENT,)

    cuts: npt.NDArray[np.float32]

    @classmethod
    def function(cls, inputs: int, opset: int) -> onnx.FunctionProto | None:  # noqa: ARG003 - of the base
        """Return the ONNX function."""
        return onnx_function.function("Position", ["x", "cuts"], BODY, opset)

    @classmethod
    def read(cls, node: Node) -> Self:
        """Read a node whose rows of cuts increase."""
        node.require_inputs(2, 2)
        node.attributes({})
        source = node.vector(0, [FLOAT32])
        cuts = node.constant(1, "cuts", [FLOAT32])
        if cuts.ndim != 2 or len(cuts) != source.size or cuts.shape[1] == 0:
            raise node.refusal(f"the cuts have shape {cuts.shape}", f"({source.size}, cuts): a row for each input")
        for number, row in enumerate(cuts):
            known = row[: np.count_nonzero(row < np.inf)]
            if not (
                np.isfinite(known).all() and (known[1:] > known[:-1]).all() and np.isposinf(row[len(known) :]).all()
            ):
                raise node.refusal(f"the cuts of input {number} do not increase", "ascending cuts, then infinities")
            if len(known) > MOST_CUTS:
                raise node.refusal(f"input {number} has {len(known)} cuts", f"at most {MOST_CUTS}")
        return cls(**fields(node, [source], source.shape, UINT8), cuts=cuts)

    def constants(self) -> Constants:
        """Return the cuts."""
        return {"table": self.cuts}

    def summary(self) -> tuple[str, ...]:
        """Return the number of cuts."""
        return (f"{np.count_nonzero(np.isfinite(self.cuts)):,} cuts",)

    def prepare(self) -> Evaluate:
        """Return the function that counts comparisons, which round nothing."""
        return lambda x: _counted(x, self.cuts[None] <= x[:, :, None], self.cuts[None] < x[:, :, None])

    def boundaries(self) -> tuple[Array, Array]:
        """Return each cut with its neighbours; nothing is quantised."""
        return self._near(1), np.empty(0, np.float32)

    def representable(self) -> tuple[float, float]:
        """Return the first and the last cut."""
        known = self.cuts[np.isfinite(self.cuts) & (np.abs(self.cuts) < np.float32(LARGEST))]
        return (float(known.min()), float(known.max())) if known.size else super().representable()

    def obligations(self, *, all_floats: bool, random_vectors: int) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield all floats or the neighbours of the cuts, and the independence of columns."""
        if all_floats:
            sweep = sweeps.Sweep(np.zeros(self.size, np.int64), np.full(self.size, sweeps.FLOATS))
            yield Obligation(
                ProofStep.OTHERS,
                StageKind.COMPUTE,
                "every float32, NaN and infinities included, has the specified position in every column",
                "all 2^32 bit patterns pass through every column; every place where a position changes is compared",
                sweep.cases,
                Steps(lambda: [self._step_function(row) for row in self.cuts], sweep, _float_text),
            )
        numbers = self._notable(SPREAD_VALUES // self.size)
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "the position changes exactly at the cuts, in every column",
            f"{2 * NEIGHBOURS + 1} neighbours of every cut of any column, special values and evenly spread bit patterns"
            f" ({len(numbers):,} numbers) pass through every column; between two cuts no comparison changes",
            numbers.size * self.size,
            Outputs(lambda: [np.repeat(numbers[:, None], self.size, axis=1)], self.prepare()),
        )
        yield Obligation(
            ProofStep.OTHERS,
            StageKind.COMPUTE,
            "a position does not depend on what other columns hold",
            f"{MIXED}, NaN and infinities among them",
            VECTORS * self.size,
            Outputs(lambda: [mixed(self._notable(1024), self.size)], self.prepare()),
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield cuts that belong to one side only, cuts that are one unit in the last place off, NaN as a number."""
        [x] = inputs
        reached, passed = self.cuts[None] <= x[:, :, None], self.cuts[None] < x[:, :, None]
        yield FaultModel("a cut belongs to the interval above only", "to both", _counted(x, reached, reached))
        yield FaultModel("a cut belongs to the interval below only", "to both", _counted(x, passed, passed))
        for step, cause in ((1, "above"), (-1, "below")):
            moved = from_ordered(np.clip(ordered(self.cuts) + step, -INFINITY_BITS, INFINITY_BITS))[None]
            wrong = _counted(x, moved <= x[:, :, None], moved < x[:, :, None])
            yield FaultModel(f"each cut is one float32 {cause} the right one", "the cuts of the model", wrong)
        unchecked = (reached.sum(axis=2) + passed.sum(axis=2)).astype(np.uint8)
        yield FaultModel("NaN and infinities are compared like numbers", "they have position 255", unchecked)

    def _near(self, distance: int) -> npt.NDArray[np.float32]:
        keys = np.unique(ordered(self.cuts[np.isfinite(self.cuts)]))
        near = np.unique(keys[:, None] + np.arange(-distance, distance + 1))
        return from_ordered(near[np.abs(near) < INFINITY_BITS])

    def _notable(self, spread: int) -> npt.NDArray[np.float32]:
        evenly = np.linspace(0, sweeps.FLOATS - 1, max(spread, 1024)).astype(np.uint32).view(np.float32)
        special = np.append(SPECIAL, SPECIAL | np.uint32(sweeps.NEGATIVE)).view(np.float32)
        return np.concatenate([self._near(NEIGHBOURS), evenly, special])

    def _step_function(self, row: npt.NDArray[np.float32]) -> StepFunction:
        """Return the positions along the bits of a float32: the positive numbers from 0 up, then the negative ones."""
        keys = ordered(row[np.isfinite(row)])
        near = np.unique(keys[:, None] + np.arange(-1, 2))
        rising, falling = near[near >= 0], sweeps.NEGATIVE - near[near <= 0]
        edges = [0, INFINITY_BITS, sweeps.NEGATIVE, sweeps.NEGATIVE + INFINITY_BITS]
        starts = np.unique(np.concatenate([edges, rising, falling]))
        x = starts.astype(np.uint32).view(np.float32)
        codes = _counted(x[:, None], row[None, None] <= x[:, None, None], row[None, None] < x[:, None, None])
        return sweeps.merged(starts, codes[:, 0].astype(np.int64), UINT8)


def _counted(x: Array, reached: Array, passed: Array) -> Array:
    """Return the positions for the results of both comparisons, bool (vectors, N, M)."""
    count = reached.sum(axis=2, dtype=np.int64) + passed.sum(axis=2, dtype=np.int64)
    return np.where(np.isfinite(x), count, NOT_FINITE).astype(np.uint8)


def _float_text(bits: int) -> str:
    return f"{np.uint32(bits).view(np.float32)!s} ({bits:#010x})"

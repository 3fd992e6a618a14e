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

from harness.core.arrays import Array
from harness.operators import onnx_function, sweeps
from harness.operators.base import Ability, Constants, Evaluate, fields
from harness.operators.counters import DEFAULT_BOX, Stimuli
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel
from harness.operators.node import Node
from harness.operators.obligations import MIXED, VECTORS, Extent, Obligation, Outputs, computed, mixed
from harness.operators.rules import Rules
from harness.operators.softfloat import INFINITY_BITS
from harness.operators.tensor import FLOAT32, LARGEST, UINT8
from harness.operators.text import Fragment, Text
from harness.operators.traits import Trait

NOT_FINITE = 255
MOST_CUTS = 127
"""The position above the last of so many cuts is 254."""
NEIGHBOURS = 3
SPREAD_VALUES = 1 << 22
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
class Position(onnx_function.Hybrid):
    """The position of each value among `cuts`, float32 (N, M), whose rows end with infinities."""

    ONNX = ((onnx_function.DOMAIN, "Position"),)
    traits = Trait.ELEMENTWISE | Trait.QUANTISER
    stimuli = Ability(
        lambda layer: Stimuli(
            boundaries=layer.boundaries, representable=layer.representable, checks_input=True, takes_every_input=True
        )
    )
    text = Text(
        FORMULA,
        ("x", "cuts"),
        (FRAGMENT,),
        facts_of=lambda layer: {"cuts": np.isfinite(layer.cuts).sum(axis=1).tolist()},
        summary_of=lambda layer: (f"{np.count_nonzero(np.isfinite(layer.cuts)):,} cuts",),
    )
    body = BODY

    cuts: npt.NDArray[np.float32]

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State a row of cuts for each value, and the positions, uint8 of the same shape."""
        cuts = node.input(1)
        node.is_type(node.x, np.float32).is_type(cuts, np.float32).is_type(node.y, np.uint8).same_shape(node.x, node.y)
        node.all_equal(node.x.rank, cuts.rank, 2).equals(node.x.size(1), cuts.size(0))

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

    def prepare(self) -> Evaluate:
        """Return the function that counts comparisons, which round nothing."""
        return lambda x: _positions(x, *_counts(x, self.cuts))

    def boundaries(self) -> tuple[Array, Array]:
        """Return each cut with its neighbours; nothing is quantised."""
        return self._near(1), np.empty(0, np.float32)

    def representable(self) -> tuple[float, float]:
        """Return the first and the last cut."""
        known = self.cuts[np.isfinite(self.cuts) & (np.abs(self.cuts) < np.float32(LARGEST))]
        return (float(known.min()), float(known.max())) if known.size else DEFAULT_BOX

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield the neighbours of all cuts, and the independence of columns."""
        numbers = self._notable(SPREAD_VALUES // self.size)
        yield computed(
            "the position changes exactly at the cuts, in every column",
            f"{2 * NEIGHBOURS + 1} neighbours of every cut of any column, special values and evenly spread bit patterns"
            f" ({len(numbers):,} numbers) pass through every column; not complete",
            numbers.size * self.size,
            Outputs(lambda: [np.repeat(numbers[:, None], self.size, axis=1)], self.prepare()),
            complete=False,
        )
        yield computed(
            "a position does not depend on what other columns hold",
            f"{MIXED}, NaN and infinities among them",
            VECTORS * self.size,
            Outputs(lambda: [mixed(self._notable(1024), self.size)], self.prepare()),
        )

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that numbers are only compared."""
        yield (
            "Position compares numbers with its cuts and does nothing else with them: the neighbours of every cut and "
            "numbers of all magnitudes were tried in every column."
        )

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield cuts that belong to one side only, cuts that are one unit in the last place off, NaN as a number."""
        [x] = inputs
        reached, passed = _counts(x, self.cuts)
        yield FaultModel("a cut belongs to the interval above only", "to both", _positions(x, reached, reached))
        yield FaultModel("a cut belongs to the interval below only", "to both", _positions(x, passed, passed))
        for step, cause in ((1, "above"), (-1, "below")):
            moved = from_ordered(np.clip(ordered(self.cuts) + step, -INFINITY_BITS, INFINITY_BITS))
            wrong = _positions(x, *_counts(x, moved))
            yield FaultModel(f"each cut is one float32 {cause} the right one", "the cuts of the model", wrong)
        unchecked = (reached + passed).astype(np.uint8)
        yield FaultModel("NaN and infinities are compared like numbers", "they have position 255", unchecked)

    def _near(self, distance: int) -> npt.NDArray[np.float32]:
        keys = np.unique(ordered(self.cuts[np.isfinite(self.cuts)]))
        near = np.unique(keys[:, None] + np.arange(-distance, distance + 1))
        return from_ordered(near[np.abs(near) < INFINITY_BITS])

    def _notable(self, spread: int) -> npt.NDArray[np.float32]:
        evenly = np.linspace(0, sweeps.FLOATS - 1, max(spread, 1024)).astype(np.uint32).view(np.float32)
        special = np.append(SPECIAL, SPECIAL | np.uint32(sweeps.NEGATIVE)).view(np.float32)
        return np.concatenate([self._near(NEIGHBOURS), evenly, special])


def _counts(x: Array, cuts: npt.NDArray[np.float32]) -> tuple[Array, Array]:
    """Return how many cuts of its axis are <= each value, and how many are below it, int64 (vectors, N)."""
    both = np.empty((2, *x.shape), np.int64)
    for column, row in enumerate(cuts):
        both[:, :, column] = [np.searchsorted(row, x[:, column], side) for side in ("right", "left")]
    return both[0], both[1]


def _positions(x: Array, reached: Array, passed: Array) -> Array:
    return np.where(np.isfinite(x), reached + passed, NOT_FINITE).astype(np.uint8)

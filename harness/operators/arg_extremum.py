"""ArgMax and ArgMin (ONNX) over the values of one vector, -> int64.

y = the index of the largest (ArgMax) or smallest (ArgMin) value; of equal values the first wins, or the last
if select_last_index is 1
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.operators.arg_rows import ArgRows
from harness.operators.base import Ability, Constants, Evaluate, Layer, fields
from harness.operators.counters import Counter, LayerCoverage, Met, Quantity, Stimuli, count
from harness.operators.exact import from_ordered, ordered
from harness.operators.fault_models import FaultModel, as_other_type, tails
from harness.operators.float_errors import Errors, Perturbed
from harness.operators.node import Node
from harness.operators.obligations import Extent, Obligation, Outputs, computed, samples
from harness.operators.rules import Rules
from harness.operators.softfloat import Integers
from harness.operators.tensor import CODES, FLOAT32, INT64
from harness.operators.text import Fragment, Text
from harness.operators.traits import Trait


def _fragment(order: int, operation: str, extreme: str, reduce: str) -> Fragment:
    text = f"""\
# ONNX {operation} over the columns, -> int64: of several columns with the {extreme} value the first, or the last.
fragment {operation.lower()}(
    x: tensor<scalar>,                      # (vectors, width)
    width: integer,
    select_last_index: logical,
    type: string)
-> (y: tensor<scalar>)
{{
    column = constant<scalar>(shape = [1, width], value = [for n in range_of([0] * width) yield scalar(n)]);
    is_other = cast<scalar>(x != {reduce}(x, axes = [1]));      # 0.0 in the columns with the {extreme} value, else 1.0
    first = min_reduce(column + scalar(width) * is_other, axes = [1]);
    last = max_reduce(column - scalar(width) * is_other, axes = [1]);
    y = last if select_last_index else first;
}}
"""
    return Fragment(operation.lower(), order, text, columns=1)


ARGMAX = _fragment(60, "ArgMax", "greatest", "max_reduce")
ARGMIN = _fragment(61, "ArgMin", "least", "min_reduce")

EXTREMES = {"ArgMax": "largest", "ArgMin": "smallest"}
ORDERED_WIDTH = 6
"""Up to this number of columns, all orders of their values are tried: 4,683 for six columns."""
NEIGHBOURS_OF = np.array([2.0**-149 * 64, 1e-30, 1, 1e30, 3.4e38], np.float32)
"""Numbers around which ArgMax and ArgMin are given adjacent floats: subnormal, small, large, nearly the largest."""
BINADES = 255
NEAR_BITS = 16
"""Floats near each other are up to 2^15 units in the last place apart."""


@dataclass(frozen=True, eq=False)
class ArgExtremum(Layer):
    """The index of the extreme value; `last` is ONNX's select_last_index."""

    ONNX = (("", "ArgMax"), ("", "ArgMin"))
    errors = Ability(
        lambda layer: Errors(layer, specified=layer.specified, bounds=layer.output_bounds, distance=layer.distance)
    )
    traits = Trait.INDEX
    text = Text(
        lambda operator: (
            f"y = the column of the {EXTREMES[operator]} value, the first of equal ones, or the last where "
            "select_last_index is 1"
        ),
        ("data",),
        (ARGMAX, ARGMIN),
        chosen=lambda layer: not layer.largest,
        facts_of=lambda layer: {"of_equal_values": "the last" if layer.last else "the first"},
        summary_of=lambda layer: (f"of equal values the {'last' if layer.last else 'first'}",),
    )
    stimuli = Ability(lambda layer: Stimuli(lambda _: _Counter(layer.input.size)))

    largest: bool
    last: bool

    @classmethod
    def rules(cls, node: Rules) -> None:
        """State int64 indices, and that the axis gets the size 1, or vanishes."""
        node.is_type(node.y, np.int64)
        node.reduces(node.parameter("axis", 1, 0), keep=bool(node.attribute("keepdims", 1)))

    @classmethod
    def read(cls, node: Node) -> Layer:
        """Read a node over an axis of a vector; along one of several axes, it is an ArgRows."""
        rows = ArgRows.read(node)
        if len(rows.input.shape) > 1 or rows.input.dtype not in (*CODES, FLOAT32):
            return rows
        return cls(**fields(node, rows.inputs, (1,), INT64), largest=rows.largest, last=rows.last)

    def output_bounds(self, low: Sequence[Array], high: Sequence[Array]) -> tuple[Array, Array]:  # noqa: ARG002 - all are possible
        """Return the first and the last index."""
        return np.zeros((1, 1), np.int64), np.full((1, 1), self.input.size - 1, np.int64)

    def constants(self) -> Constants:
        """Return the number of values, and which of equal ones is chosen."""
        return {"width": self.input.size, "select_last_index": self.last}

    def prepare(self) -> Evaluate:
        """Return the function that compares floats as integers, so that both zeros are equal."""

        def search(values: Array) -> Array:
            keys = ordered(values) if values.dtype == np.float32 else values.astype(np.int64)
            keys = keys if self.largest else -keys
            forward = keys[:, ::-1] if self.last else keys
            column: Integers = forward.argmax(axis=1, keepdims=True)
            return self.input.size - 1 - column if self.last else column

        return search

    def distance(self, at: Perturbed) -> Array:
        """Return 0 where the chosen value is beyond all others for all inputs, else infinity."""
        [values], [errors] = at.values, at.errors
        ranked = values.astype(np.float64) * (1 if self.largest else -1)
        chosen = np.arange(self.input.size) == at.output
        least, others = (ranked - errors)[chosen], np.where(chosen, -np.inf, ranked + errors).max(axis=1)
        return np.where(least > others, 0, np.inf)[:, None]

    def fault_models(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield wrong tie rules, extremes, counts and types."""
        [values] = inputs
        rule = "of equal values the {} column wins"
        right, wrong = ("last", "first") if self.last else ("first", "last")
        yield FaultModel(rule.format(wrong), rule.format(right), _searched(self, values, last=not self.last))
        extremes = ("largest", "smallest") if self.largest else ("smallest", "largest")
        other = _searched(self, values, largest=not self.largest)
        yield FaultModel(f"the {extremes[1]} value is searched", f"the {extremes[0]}", other)
        yield FaultModel("columns are counted from 1", "from 0", _searched(self, values) + 1)
        for tail in tails(self.input.size):
            if tail < self.input.size:
                shorter = replace(self, inputs=(replace(self.input, shape=(self.input.size - tail,)),))
                searched = shorter.prepare()(values[:, :-tail])
                yield FaultModel(f"the last {tail} of the columns are not looked at", "all are", searched)
        if values.dtype != np.float32:
            misread = as_other_type(values)
            cause = f"the codes are read as {misread.dtype}"
            other = replace(self, inputs=(replace(self.input, dtype=misread.dtype),)).prepare()(misread)
            yield FaultModel(cause, str(values.dtype), other)

    def specified(self, inputs: Sequence[Array], expected: Array) -> Array:  # noqa: ARG002 - of the interface
        """Return the vectors whose values are finite."""
        finite: Array = np.asarray(np.isfinite(inputs[0]).all(axis=1, keepdims=True))
        return finite

    def obligations(self, extent: Extent) -> Iterator[Obligation]:  # noqa: ARG002 - no sums
        """Yield every order of the values, or of many values some orders."""
        complete = self.input.size <= ORDERED_WIDTH
        inputs = orders(self) if complete else some_orders(self)
        method = (
            "every order of the columns' values, equal ones included: adjacent floats or codes at several magnitudes "
            "of both signs, both zeros, values far apart; floats near each other in every binade"
            if complete
            else "the extreme value, once and twice, in pairs of columns, and random orders; not complete"
        )
        tie = "last" if self.last else "first"
        extreme = "largest" if self.largest else "smallest"
        statement = f"the column of the {extreme} value is chosen, of equal ones the {tie}"
        shown = Outputs(lambda: [inputs], self.prepare())
        yield computed(statement, method, len(inputs) * self.size, shown, complete=complete)

    def assumptions(self) -> Iterator[str]:
        """Yield the assumption that values are only compared."""
        tried = "every order was" if self.input.size <= ORDERED_WIDTH else "some orders were"
        yield f"ArgMax and ArgMin compare values and do nothing else with them: {tried} tried, with some values each."


def _searched(layer: ArgExtremum, values: Array, **changes: Any) -> Array:
    """Return the choice of the layer with these changes, int64 (vectors, 1)."""
    return replace(layer, **changes).prepare()(values)


class _Counter(Counter):
    """The indices chosen; of equal values the last is never chosen, or the first if `last`."""

    def __init__(self, size: int) -> None:
        self._chosen, self._tied = (np.zeros(size, np.int64) for _ in range(2))

    def add(self, *values: Array) -> None:
        candidates, chosen = values
        equal = candidates == np.take_along_axis(candidates, chosen, axis=1)
        tied = chosen[np.count_nonzero(equal, axis=1) > 1]
        self._chosen += np.bincount(chosen.ravel(), minlength=len(self._chosen))
        self._tied += np.bincount(tied.ravel(), minlength=len(self._tied))

    def result(self) -> LayerCoverage:
        return {
            Quantity.CHOSEN: Met(count(self._chosen), len(self._chosen), int(self._chosen.sum())),
            Quantity.CHOSEN_OF_EQUALS: Met(count(self._tied), len(self._tied) - 1, int(self._tied.sum())),
        }


def orders(layer: ArgExtremum) -> Array:
    """Return values in every order that N columns can have, equal ones included, (orders, N)."""
    width = layer.input.size
    ranks = itertools.product(range(width), repeat=width)
    weak = np.array([rank for rank in ranks if set(rank) == set(range(max(rank) + 1))])
    return _values(layer, weak, width - 1)


def some_orders(layer: ArgExtremum) -> Array:
    """Return the two extreme values in pairs of columns, equal and not, and random orders with many equal values.

    In all pairs of up to a hundred columns, of more in some.
    """
    width = layer.input.size
    ranks, pairs = min(width, 128), width * (width - 1)
    rng = np.random.default_rng(0)
    chosen = np.arange(pairs) if pairs <= samples(width) else rng.integers(0, pairs, samples(width))
    first, second = np.divmod(chosen, width - 1)
    second += second >= first
    rows = np.arange(len(chosen))
    once = rng.integers(1, ranks, (len(rows), width), np.int16)
    once[rows, first], once[rows, second] = 0, 1
    twice = once.copy()
    twice[rows, second] = 0
    drawn = rng.integers(0, ranks, (samples(width), width), np.int16)
    smallest = np.concatenate([once, twice, drawn])
    return np.concatenate([_values(layer, smallest, ranks), _values(layer, ranks - smallest, ranks)])


def _values(layer: ArgExtremum, ranks: Array, last: int) -> Array:
    """Return values of the layer's type in the order of the ranks 0 to `last`.

    Near to each other and far apart, around 0 and at the ends of the type; one of them 0, where floats have two zeros.
    """
    if layer.input.dtype != np.float32:
        limits = np.iinfo(layer.input.dtype)
        lows = [(limits.min, 1), ((limits.min + limits.max - last) // 2, 1), (limits.max - last, 1)]
        affine = [*lows, (limits.min, (limits.max - limits.min) // max(last, 1))]
        return np.concatenate([(low + step * ranks).astype(layer.input.dtype) for low, step in affine])
    middle = (ranks - last // 2).astype(np.float32)
    alternating = np.broadcast_to(np.arange(ranks.shape[1]) % 2 == 1, ranks.shape)
    mixed = np.where((middle == 0) & alternating, np.float32(-0.0), middle)
    tiny, large = np.float32(2.0**-149), np.float32(2.0**120)
    centres = ordered(np.append(NEIGHBOURS_OF, -NEIGHBOURS_OF))
    adjacent = [from_ordered(centre + ranks - last // 2) for centre in centres]
    near = _of_every_binade(ranks - last // 2)
    return np.concatenate([middle, mixed, -mixed, middle * tiny, middle * large, *adjacent, near])


def _of_every_binade(ranks: Array) -> Array:
    """Return floats near each other, (n, N), in orders drawn from `ranks`, in each binade of both signs."""
    rng, count = np.random.default_rng(0), samples(ranks.shape[1])
    binades = np.arange(count) % (2 * BINADES)
    magnitudes = binades // 2 << 23 | rng.integers(0, 1 << 23, count)
    centres = np.where(binades % 2, -magnitudes, magnitudes)
    steps = 1 << rng.integers(0, NEAR_BITS, count)
    moved = centres[:, None] + steps[:, None] * ranks[rng.integers(0, len(ranks), count)]
    limit = ordered(np.array([np.finfo(np.float32).max]))[0]
    return from_ordered(np.clip(moved, -limit, limit))

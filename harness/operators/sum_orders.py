"""Other orders of float32 sums: fault models of every layer that adds in a stated order, and vectors that show them.

A layer describes its sums by `OrderedSum`: the terms in their order, and the function from the sums to the output.
Orders that give the same sum for every input, as those of two terms do, are no faults.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from harness.core.arrays import Array
from harness.operators.exact import CACHED_LAYERS, fused
from harness.operators.fault_models import FaultModel, PlacedFault, Real, Single
from harness.operators.obligations import Obligation, Outputs, ProofStep, StageKind

if TYPE_CHECKING:
    from harness.operators.base import Layer

LANES = 2, 4, 8, 16
"""Partial sums of vector units."""
TERMS_AT_ONCE = 1 << 20
SEARCHED_TERMS = 1 << 20
"""Terms of the sums of all candidates of a search."""
SEARCHED_TERMS_OF_CODES = 1 << 22
"""The same for codes, to which most different sums are rounded alike."""
CANDIDATES_AT_ONCE = 1 << 18
"""Terms of the candidates that are compared together."""
STATED = "the terms are added in the stated order, each sum rounded to float32"
ONE_CONTRACTED = "product is contracted with its addition (one FMA)"
IN_DOUBLE = "the sum is computed in double precision"

Terms: TypeAlias = Any
"""A sequence of values that can be added, such as the float32 arrays along the first axis of another."""
Order: TypeAlias = Callable[[Terms, Terms], Any]
"""Function from the terms, and from the start of the sum or nothing, to the sum."""


@dataclass(frozen=True, eq=False)
class OrderedSum:
    """The sums ((start + terms[0]) + terms[1]) + ... of some vectors, each addition rounded to float32.

    `terms` is float32 (count, *sums), `start` broadcasts to (*sums); without it a sum begins with the first term.
    `finish` returns the output, (vectors, size), for other sums, float32 (*sums).  Where terms are products, `exact`
    returns those of one place before they are rounded, float64 (*sums).
    """

    terms: Single
    finish: Callable[[Array], Array]
    start: Single | None = None
    exact: Callable[[int], Real] | None = None

    def by(self, order: Order) -> Array:
        """Return the output with the sums of another order."""
        return self.finish(order(self.terms, self._begin))

    def exchanged(self, place: int) -> Array:
        """Return the output where the terms of a place and of the next one are exchanged."""
        before, after = self.terms[:place], self.terms[place + 2 :]
        return self.finish(from_first([*self._begin, *before, self.terms[place + 1], self.terms[place], *after]))

    def contracted(self, place: int) -> Array:
        """Return the output where the product of one place is not rounded before it is added, as by an FMA."""
        if not self.exact:
            return self.by(stated)
        before = [*self._begin, *self.terms[:place]]
        addend = from_first(before) if before else np.zeros_like(self.terms[0])
        addend = np.broadcast_to(addend, self.terms[0].shape)
        return self.finish(from_first([fused(self.exact(place), np.float32(1), addend), *self.terms[place + 1 :]]))

    @property
    def _begin(self) -> list[Single]:
        return [] if self.start is None else [self.start]


def from_first(terms: Terms) -> Any:
    """Return the sum that begins with the first term."""
    return reduce(operator.add, terms)


def in_pairs(terms: Terms) -> Any:
    """Return the sum of pairs of neighbours, then of pairs of these, an odd last one kept."""
    while len(terms) > 1:
        paired = list(map(operator.add, terms[::2], terms[1::2]))
        terms = [*paired, *terms[2 * len(paired) :]]
    return terms[0]


def in_halves(terms: Terms) -> Any:
    """Return the sum of the first half and the second half, value by value, then of the halves of these."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        added = list(map(operator.add, terms[:half], terms[half:]))
        terms = [*added, *terms[len(added) : half]]
    return terms[0]


def stated(terms: Terms, start: Terms) -> Any:
    """Return the sum in the stated order."""
    return from_first([*start, *terms])


def _from_last(terms: Terms, start: Terms) -> Any:
    return from_first([*start, *terms[::-1]])


def _as_tree(terms: Terms, start: Terms) -> Any:
    return from_first([in_pairs(terms), *start])


def _in_lanes(lanes: int, combine: Callable[[Terms], Any], terms: Terms, start: Terms) -> Any:
    parts = [from_first(terms[lane::lanes]) for lane in range(min(lanes, len(terms)))]
    return from_first([combine(parts), *start])


def _in_double(terms: Terms, start: Terms) -> Single:
    total: Single = from_first([np.sum(terms, axis=0, dtype=np.float64), *start]).astype(np.float32)
    return total


ORDERS: Mapping[str, Order] = {
    "the terms are added from the last to the first": _from_last,
    "the terms are added pairwise, as a tree": _as_tree,
    **{f"{lanes} partial sums are added at the end": partial(_in_lanes, lanes, from_first) for lanes in LANES},
    **{f"{lanes} partial sums are added at the end, in pairs": partial(_in_lanes, lanes, in_pairs)
       for lanes in LANES[1:]},
    **{f"{lanes} partial sums are added at the end, in halves": partial(_in_lanes, lanes, in_halves)
       for lanes in LANES[1:]},
}  # fmt: skip


@dataclass(frozen=True)
class _Symbol:
    """A sum as the number of an expression; addition commutes, but is not associative."""

    number: int
    numbers: dict[tuple[int, int], int]

    def __add__(self, other: _Symbol) -> _Symbol:
        pair = min(self.number, other.number), max(self.number, other.number)
        return _Symbol(self.numbers.setdefault(pair, -1 - len(self.numbers)), self.numbers)


@cache
def other_orders(count: int, *, started: bool) -> Mapping[str, Order]:
    """Return the orders of `count` terms that differ from the stated one, and from each other, for some terms."""
    numbers: dict[tuple[int, int], int] = {}
    terms, start = [_Symbol(place, numbers) for place in range(count)], [_Symbol(count, numbers)] * started
    orders: dict[int, tuple[str, Order]] = {stated(terms, start).number: ("", stated)}
    for cause, order in ORDERS.items():
        orders.setdefault(order(terms, start).number, (cause, order))
    others = {cause: order for cause, order in orders.values() if cause}
    return others | ({IN_DOUBLE: _in_double} if count + started > 2 else {})


@dataclass(frozen=True, eq=False)
class SumOrder:
    """The ability of a layer to be tried with other orders of its float32 sums.

    `ordered` returns the sums whose order the specification states, for inputs (vectors, size); None without.  Their
    number of terms depends on the layer alone.  `more` yields further faults of these sums.
    """

    layer: Layer
    ordered: Callable[..., OrderedSum | None] = lambda *_: None
    more: Callable[..., Iterator[FaultModel]] = lambda *_: iter(())

    def faults(self, *inputs: Array) -> Iterator[FaultModel]:
        """Yield the outputs with the terms of the sums in another order, or with one product contracted."""
        if not (first := self.ordered(*(values[:1] for values in inputs))):
            return
        wrong_sums: dict[str, Callable[[OrderedSum], Array]] = {
            cause: partial(OrderedSum.by, order=order)
            for cause, order in other_orders(len(first.terms), started=first.start is not None).items()
        }
        for name, place in (("first", 0), ("last", len(first.terms) - 1)):
            if first.exact and (place or first.start is not None):  # no addition rounds what begins a sum
                wrong_sums[f"the {name} {ONE_CONTRACTED}"] = partial(OrderedSum.contracted, place=place)
        outputs: dict[str, list[Array]] = {cause: [] for cause in wrong_sums}
        parts = min(-(-len(inputs[0]) * first.terms.size // TERMS_AT_ONCE), len(inputs[0]))
        with np.errstate(all="ignore"):
            for rows in np.array_split(np.arange(len(inputs[0])), parts):
                sums = self.ordered(*(values[rows] for values in inputs)) or first
                for cause, wrong in wrong_sums.items():
                    outputs[cause].append(wrong(sums))
        for cause, output in outputs.items():
            yield FaultModel(cause, STATED, np.concatenate(output))
        yield from self.more(*inputs)


def placed_faults(layer: Layer, inputs: Sequence[Array]) -> Iterator[PlacedFault]:
    """Yield faults at one place of the sums: two exchanged terms, and one contracted product."""
    if layer.sums:
        yield from layer.sums.placed_faults(*inputs)
    with np.errstate(all="ignore"):
        sums = layer.sum_order.ordered(*inputs)
    if sums:
        count = len(sums.terms)
        yield PlacedFault("two neighbouring terms of the sum are exchanged", STATED, count - 1, sums.exchanged)
        if sums.exact:
            yield PlacedFault(f"one {ONE_CONTRACTED}", STATED, count, sums.contracted)


@lru_cache(maxsize=CACHED_LAYERS)
def obligations(layer: Layer) -> tuple[Obligation, ...]:
    """Return that no known wrong sum passes vectors at which they differ; nothing without sums in a stated order.

    The vectors are searched here, for each wrong sum and each column.
    """
    sizes, dtype = [tensor.size for tensor in layer.inputs], layer.input.dtype
    sums = layer.sum_order.ordered(*(np.zeros((1, size), dtype) for size in sizes))
    if not sums or not other_orders(len(sums.terms), started=sums.start is not None):
        return ()
    rng, ends, searched = np.random.default_rng(0), np.cumsum(sizes)[:-1], SEARCHED_TERMS
    if layer.dtype != np.float32:
        searched = SEARCHED_TERMS_OF_CODES
    most, at_once = (max(terms // sums.terms.size, 1) for terms in (searched, CANDIDATES_AT_ONCE))
    missing: dict[str, Array] = {}
    vectors, tried = np.empty((0, sum(sizes)), dtype), 0
    while tried < most and (not tried or any(columns.any() for columns in missing.values())):
        candidates = _candidates(rng, (min(at_once, most - tried), sum(sizes)), dtype)
        tried += len(candidates)
        inputs = np.split(candidates, ends, axis=1)
        with np.errstate(all="ignore"):
            expected = (layer.sum_order.ordered(*inputs) or sums).by(stated)
        specified, taken = layer.errors.specified(inputs, expected), np.zeros(len(candidates), np.bool_)
        for fault in layer.sum_order.faults(*inputs):
            differs = _bits(fault.output) != _bits(expected)
            if specified is not None:
                differs &= specified.all(axis=1, keepdims=True)
            columns = missing.setdefault(fault.cause, np.ones(layer.size, np.bool_))
            taken[differs.argmax(axis=0)[columns & differs.any(axis=0)]] = True
            columns &= ~differs.any(axis=0)
        vectors = np.concatenate([vectors, candidates[taken]])
    unseparated = tuple(cause for cause, columns in missing.items() if columns.all())
    everywhere = sum(not columns.any() for columns in missing.values())
    claim = Obligation(
        ProofStep.OTHERS,
        StageKind.COMPUTE,
        "no known wrong sum gives the bits of the specified one",
        f"{len(vectors):,} vectors, of {tried:,}, at which {len(missing) - len(unseparated)} of {len(missing)} "
        f"other orders and roundings of the sum differ, {everywhere} in every column; not complete",
        len(vectors) * layer.size,
        Outputs(lambda: [vectors], side_by_side(layer)),
        complete=False,
        unseparated=unseparated,
    )
    return (claim,)


def _candidates(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Return codes near each other and far apart, or numbers of like size and of exponents -12 to 12."""
    count, _ = shape
    if dtype != np.float32:
        width = 1 << rng.integers(3, 9, (count, 1))
        codes = rng.integers(0, 257 - width) + rng.integers(0, width, shape)
        return (codes + np.iinfo(dtype).min).astype(dtype)
    alike = rng.normal(size=shape) * 2.0 ** rng.integers(-6, 7, (count, 1))
    mixed = np.ldexp(rng.uniform(-1, 1, shape), rng.integers(-12, 13, shape))
    return np.where(np.arange(count)[:, None] % 2, mixed, alike).astype(np.float32)


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def side_by_side(layer: Layer) -> Callable[[Array], Array]:
    """Return the function of a layer from its inputs, (n, sizes of all), to its output."""
    evaluate, ends = layer.prepare(), np.cumsum([tensor.size for tensor in layer.inputs])[:-1]

    def expected(values: Array) -> Array:
        with np.errstate(all="ignore"):
            return evaluate(*np.split(values, ends, axis=1))

    return expected

"""The operators without sums of products: DequantizeLinear, ArgMax, ArgMin, Add."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from harness.analysis.proof import columns
from harness.analysis.proof.claims import Question, Side, Step
from harness.analysis.proof.rounding import differing_output
from harness.core.arrays import Array
from harness.execution.probe import Probe
from harness.operators import Add, ArgExtremum, DequantizeLinear, specification
from harness.reference import generated
from harness.targets import Stage

ORDERED_WIDTH = 6
"""Up to so many columns all orders of their values are tried: 4,683 of six."""
VALUES = 1 << 20
"""Over all columns, of each kind of sample."""
RANDOM_VECTORS = 65_536
KINDS_OF_PAIRS = 5
NEIGHBOURS_OF = np.array([2.0**-149 * 64, 1e-30, 1, 1e30, 3.4e38], np.float32)
"""Numbers around which ArgMax and ArgMin are given adjacent floats: subnormal, small, large, nearly the largest."""
BINADES = 255
NEAR_BITS = 16
"""Floats near each other are up to 2^15 units in the last place apart."""
SPECIAL_TERMS = np.array([0, 1e-45, 2.0**-126, 1, 1 + 2.0**-23, 1e38], np.float32)
SPECIAL_TERMS = np.append(SPECIAL_TERMS, -SPECIAL_TERMS)


def question(layer: DequantizeLinear | ArgExtremum | Add, stage: Stage, probe: Probe | None) -> Question:
    """That the deployed code gives the right outputs."""
    if isinstance(layer, DequantizeLinear):
        pairs = sum(each.count for each in generated.pair_vectors(layer.input_width))
        vectors = 256 + pairs + columns.VECTORS
        return _question(layer, stage, probe, vectors, lambda: _codes(layer), "every code becomes the right number",
                         "all 256 codes pass through every column, and any two columns have every pair of codes "
                         f"(orthogonal array over GF(256)); {columns.METHOD}", complete=True)  # fmt: skip
    if isinstance(layer, ArgExtremum):
        return _arg_extremum(layer, stage, probe)
    special = len(SPECIAL_TERMS) ** len(layer.sources)
    pairs = KINDS_OF_PAIRS * _samples(layer.width) + special + columns.VECTORS
    return _question(layer, stage, probe, pairs, lambda: terms(layer), "sums are rounded to float32 as IEEE 754 says",
                     f"{pairs:,} pairs a column: random bits, ties, cancellation, subnormals, zeros; {columns.METHOD}; "
                     "not complete", complete=False)  # fmt: skip


def _samples(width: int) -> int:
    """How many vectors of this width are drawn."""
    return max(min(RANDOM_VECTORS, VALUES // width), 1)


def _arg_extremum(layer: ArgExtremum, stage: Stage, probe: Probe | None) -> Question:
    complete = layer.input_width <= ORDERED_WIDTH
    inputs = orders(layer) if complete else some_orders(layer)
    method = (
        "every order of the columns' values, equal ones included: adjacent floats or codes at several magnitudes of "
        "both signs, both zeros, values far apart; floats near each other in every binade"
        if complete
        else "the extreme value, once and twice, in pairs of columns, and random orders; not complete"
    )
    tie = "last" if layer.last else "first"
    extreme = "largest" if layer.largest else "smallest"
    statement = f"the column of the {extreme} value is chosen, of equal ones the {tie}"
    return _question(layer, stage, probe, len(inputs), lambda: inputs, statement, method, complete=complete)


def _question(
    layer: DequantizeLinear | ArgExtremum | Add,
    stage: Stage,
    probe: Probe | None,
    vectors: int,
    inputs: Callable[[], Array],
    statement: str,
    method: str,
    *,
    complete: bool,
) -> Question:
    """`inputs` gives that many vectors, when they are needed: they are many."""
    operate = specification.operator(layer)
    expected: Callable[[Array], Array] = operate
    if isinstance(layer, Add) and layer.addend is None:
        expected = lambda both: operate(both[:, : layer.width], both[:, layer.width :])  # noqa: E731
    return Question(
        Step.OTHERS,
        Side.BOARD,
        layer.name,
        statement,
        method,
        vectors * layer.width,
        complete=complete,
        answer=lambda note: differing_output(stage, inputs(), expected, probe, note),
    )


def _codes(layer: DequantizeLinear) -> Array:
    """All codes in every column, every pair of codes in any two columns, and columns of few different codes."""
    every, width = every_code(layer), layer.input_width
    pairs = [generated.pairs(width, each.seed).view(layer.input_dtype) for each in generated.pair_vectors(width)]
    return np.concatenate([every, *pairs, columns.mixed(every[:, 0], width)])


def every_code(layer: DequantizeLinear) -> Array:
    """All codes in every column, (256, N)."""
    limits = np.iinfo(layer.input_dtype)
    codes = np.arange(limits.min, limits.max + 1).astype(layer.input_dtype)
    return np.repeat(codes[:, None], layer.input_width, axis=1)


def orders(layer: ArgExtremum) -> Array:
    """Values in every order that N columns can have, equal ones included, (orders, N)."""
    width = layer.input_width
    ranks = itertools.product(range(width), repeat=width)
    weak = np.array([each for each in ranks if set(each) == set(range(max(each) + 1))])
    return _values(layer, weak, width - 1)


def some_orders(layer: ArgExtremum) -> Array:
    """The two extreme values in pairs of columns, equal and not, and random orders with many equal values.

    In all pairs of up to a hundred columns, of more in some.
    """
    width = layer.input_width
    ranks, pairs = min(width, 128), width * (width - 1)
    rng = np.random.default_rng(0)
    chosen = np.arange(pairs) if pairs <= _samples(width) else rng.integers(0, pairs, _samples(width))
    first, second = np.divmod(chosen, width - 1)
    second += second >= first
    rows = np.arange(len(chosen))
    once = rng.integers(1, ranks, (len(rows), width), np.int16)
    once[rows, first], once[rows, second] = 0, 1
    twice = once.copy()
    twice[rows, second] = 0
    drawn = rng.integers(0, ranks, (_samples(width), width), np.int16)
    smallest = np.concatenate([once, twice, drawn])
    return np.concatenate([_values(layer, smallest, ranks), _values(layer, ranks - smallest, ranks)])


def _values(layer: ArgExtremum, ranks: Array, last: int) -> Array:
    """Values of the layer's type in the order of the ranks 0 to `last`.

    Near to each other and far apart, around 0 and at the ends of the type; one of them 0, where floats have two zeros.
    """
    if layer.input_dtype != np.float32:
        limits = np.iinfo(layer.input_dtype)
        lows = [(limits.min, 1), ((limits.min + limits.max - last) // 2, 1), (limits.max - last, 1)]
        affine = [*lows, (limits.min, (limits.max - limits.min) // max(last, 1))]
        return np.concatenate([(low + step * ranks).astype(layer.input_dtype) for low, step in affine])
    middle = (ranks - last // 2).astype(np.float32)
    alternating = np.broadcast_to(np.arange(ranks.shape[1]) % 2 == 1, ranks.shape)
    mixed = np.where((middle == 0) & alternating, np.float32(-0.0), middle)
    tiny, large = np.float32(2.0**-149), np.float32(2.0**120)
    centres = specification.ordered(np.append(NEIGHBOURS_OF, -NEIGHBOURS_OF))
    adjacent = [specification.from_ordered(centre + ranks - last // 2) for centre in centres]
    near = _of_every_binade(ranks - last // 2)
    return np.concatenate([middle, mixed, -mixed, middle * tiny, middle * large, *adjacent, near])


def _of_every_binade(ranks: Array) -> Array:
    """Return floats near each other, (n, N), in orders drawn from `ranks`, in each binade of both signs."""
    rng, count = np.random.default_rng(0), _samples(ranks.shape[1])
    binades = np.arange(count) % (2 * BINADES)
    magnitudes = binades // 2 << 23 | rng.integers(0, 1 << 23, count)
    centres = np.where(binades % 2, -magnitudes, magnitudes)
    steps = 1 << rng.integers(0, NEAR_BITS, count)
    moved = centres[:, None] + steps[:, None] * ranks[rng.integers(0, len(ranks), count)]
    limit = specification.ordered(np.array([np.finfo(np.float32).max]))[0]
    return specification.from_ordered(np.clip(moved, -limit, limit))


def terms(layer: Add) -> Array:
    """Pairs of finite terms whose sum is finite: (n, 2 N), or (n, N) where the second is a constant."""
    rng = np.random.default_rng(0)
    shape = _samples(layer.width), layer.width
    first = _finite(rng, shape)
    special = np.stack(np.meshgrid(*[SPECIAL_TERMS] * len(layer.sources)), axis=-1).reshape(-1, len(layer.sources))
    everywhere = np.repeat(special, layer.width, axis=1)
    if layer.addend is not None:
        alike = columns.mixed(_finite(rng, (1024, 1))[:, 0], layer.width)
        return np.concatenate([first, *_near(layer.addend, first), everywhere, alike])
    others = [_finite(rng, shape), *_near(first, _finite(rng, shape))]
    alike = columns.mixed(_finite(rng, (1024, 1))[:, 0], 2 * layer.width)
    return np.concatenate([*(np.concatenate([first, other], axis=1) for other in others), everywhere, alike])


def _finite(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Random signs, exponents below the largest, and fractions, subnormal numbers among them."""
    bits = rng.integers(0, 0xFE << 23, shape, dtype=np.uint32) | rng.integers(0, 2, shape, dtype=np.uint32) << 31
    return bits.view(np.float32) * np.float32(0.25)


def _near(to: Array, shaped: Array) -> Iterator[Array]:
    """Terms that cancel with `to` or nearly so, and such that lie half way between two sums."""
    opposite = np.broadcast_to(-to, shaped.shape).astype(np.float32)
    yield opposite
    yield np.nextafter(opposite, np.float32(0))
    yield (np.spacing(np.abs(opposite)) * np.float32(0.5)).astype(np.float32)
    yield (np.spacing(np.abs(opposite)) * np.float32(1.5)).astype(np.float32)

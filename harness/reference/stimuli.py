"""The vectors of a run: seeded, or from a file.

Seeded vectors depend only on the network, the seed and their index: any slice can be generated again, in chunks of any
size.  Their kinds are interleaved in a fixed pattern, so every chunk contains all of them.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import MEMORY_BUDGET, Array, vectors_at_once
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import FindTies
from harness.reference import draws
from harness.reference.draws import InputDraws

Vectors: TypeAlias = Array
"""Rows as `Network.vector` describes them."""
Places: TypeAlias = npt.NDArray[np.intp]


class VectorKind(enum.Enum):
    """The purpose of a vector; the value describes it."""

    UNIFORM = "uniform over the input box"
    CORNER = "corners and edges of the input box"
    BOUNDARY = "inputs next to a boundary between two codes"
    INPUT_TIE = "inputs exactly half way between two codes"
    ACCUMULATOR_TIE = "a layer's product or sum exactly half way between two codes"
    SPECIAL = "one input NaN, infinite, zero or beyond the box"
    FINITE_SPECIAL = "one input zero, subnormal or beyond the box"


# Vector i is of kind PATTERN[i % 16], and every 64th is SPECIAL if requested.  Uniform vectors replace ties and
# boundaries that a network lacks.  If a layer other than QuantizeLinear reads the input, FINITE_SPECIAL replaces
# SPECIAL: a NaN that such a layer computes has no defined sign and payload.
PATTERN = (
    VectorKind.UNIFORM, VectorKind.ACCUMULATOR_TIE, VectorKind.BOUNDARY, VectorKind.UNIFORM,
    VectorKind.CORNER, VectorKind.INPUT_TIE, VectorKind.UNIFORM, VectorKind.ACCUMULATOR_TIE,
    VectorKind.UNIFORM, VectorKind.BOUNDARY, VectorKind.UNIFORM, VectorKind.CORNER,
    VectorKind.ACCUMULATOR_TIE, VectorKind.UNIFORM, VectorKind.INPUT_TIE, VectorKind.BOUNDARY,
)  # fmt: skip
SPECIAL_PERIOD = 64

# Vectors per random stream; fewer for wide vectors, a multiple of SPECIAL_PERIOD.
BLOCK = 4096
BYTES_AN_INPUT = 16  # two float64 random numbers
NUMBERS_OF_A_STEP = 4  # of Philox; a block has a multiple of SPECIAL_PERIOD vectors, so of these

# Limits of the search for accumulators half way: activations, blocks of vectors, finds.
SEARCHED_ACTIVATIONS = 12_000_000
SEARCHED_BLOCKS = 64
SEARCH_BLOCK = 1024
BYTES_AN_ACTIVATION = 4
SEARCH_KEY = 0x7469_6573  # independent of the seed: the bank belongs to the network
LARGEST_BANK = 8192


class Stimuli(ABC):
    """`count` vectors of `width` values (`Network.vector`); `origin` says where they come from."""

    count: int
    width: int
    origin: str

    @abstractmethod
    def chunk(self, start: int, stop: int) -> Vectors:
        """Return vectors start to stop (at most `count`), (stop - start, width), C order."""

    @abstractmethod
    def describe(self) -> dict[str, int]:
        """Return the number of vectors of each kind."""


def stimuli(network: Network, count: int, seed: int, *, special: bool = False) -> Stimuli:
    """Return seeded vectors for a network; `special` adds numbers beyond the box, NaN and infinities if allowed.

    A network that checks its input has them always.  The first n vectors are the same for every count.  Raises
    RequestError for a count below 1 or a seed that is no uint64.
    """
    if count < 1:
        raise RequestError(f"{count} vectors", "ask for 1 or more")
    if not 0 <= seed < 1 << 64:
        raise RequestError(f"seed {seed}", "a seed is an integer from 0 to 2**64 - 1")
    return _Seeded(network, count, seed, special=special)


def random_stream(seed: int, block: int) -> np.random.Generator:
    """Return the random numbers of one block, another stream for every pair of uint64."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, block], np.uint64)))


class _Seeded(Stimuli):
    def __init__(self, network: Network, count: int, seed: int, *, special: bool) -> None:
        self.count, self.width = count, network.vector.size
        self.origin = f"seed {seed}"
        self._network, self._seed, self._special = network, seed, special or network.checks_input
        self._special_kind = VectorKind.SPECIAL if network.takes_every_input else VectorKind.FINITE_SPECIAL
        self._draws = {tensor.name: InputDraws(network, tensor) for tensor in network.inputs}
        self._values = sum(tensor.size for tensor in network.inputs)
        periods = MEMORY_BUDGET // (BYTES_AN_INPUT * SPECIAL_PERIOD * self._values)
        self._block_size = max(min(BLOCK, periods * SPECIAL_PERIOD), SPECIAL_PERIOD)
        self._last = -1, np.empty((0, self.width), network.vector.dtype)  # the number and the vectors of the last block

    def chunk(self, start: int, stop: int) -> Vectors:
        stop, size = min(stop, self.count), self._block_size
        first = start // size
        blocks = [self._block(index, min(size, stop - index * size)) for index in range(first, -(-stop // size))]
        empty = np.empty((0, self.width), self._network.vector.dtype)
        return np.concatenate([empty, *blocks])[start - first * size : stop - first * size]

    def describe(self) -> dict[str, int]:
        periods, rest = divmod(self.count, SPECIAL_PERIOD)
        counts = Counter({kind: periods * times for kind, times in self._pattern(SPECIAL_PERIOD).items()})
        counts += self._pattern(rest)
        surplus = max(counts[VectorKind.ACCUMULATOR_TIE] - len(tie_bank(self._network)), 0)
        counts += Counter({VectorKind.UNIFORM: surplus})
        counts -= Counter({VectorKind.ACCUMULATOR_TIE: surplus})
        return {kind.value: counts[kind] for kind in VectorKind if counts[kind]}

    def _pattern(self, count: int) -> Counter[VectorKind]:
        """Return how many of the first `count` vectors are of each kind if the bank of ties is unlimited."""
        return Counter(self._kind(index) for index in range(count))

    def _kind(self, index: int) -> VectorKind:
        draws = self._draws.values()
        if self._special and index % SPECIAL_PERIOD == 0 and any(len(draw.special) for draw in draws):
            return self._special_kind
        kind = PATTERN[index % len(PATTERN)]
        is_missing = {
            VectorKind.INPUT_TIE: not any(len(draw.ties) for draw in draws),
            VectorKind.BOUNDARY: not any(len(draw.boundaries) for draw in draws),
        }
        return VectorKind.UNIFORM if is_missing.get(kind) else kind

    def _block(self, block: int, rows: int) -> Vectors:
        """Return the first `rows` vectors of a block; the last one stays in memory, as a chunk is a part of it."""
        number, vectors = self._last
        if number != block or len(vectors) < rows:
            vectors = self._drawn(block, rows)
            self._last = block, vectors
        return vectors[:rows]

    def _drawn(self, block: int, rows: int) -> Vectors:
        """Return vectors of a block from one stream: the numbers u of all vectors, then those v."""
        u = random_stream(self._seed, block).random((rows, self._values))
        later = random_stream(self._seed, block)
        later.bit_generator.advance(self._block_size * self._values // NUMBERS_OF_A_STEP)  # type: ignore[attr-defined]
        v = later.random((rows, self._values))
        values, first = {}, 0
        for tensor in self._network.inputs:
            columns = slice(first, first + tensor.size)
            values[tensor.name] = self._values_of(self._draws[tensor.name], u[:, columns], v[:, columns])
            first += tensor.size
        self._place_special(values, u[:, 0], v[:, 0])
        vectors = self._network.vectors(values)
        self._place_ties(vectors, block)
        return vectors

    def _values_of(self, draw: InputDraws, u: Array, v: Array) -> Array:
        """Return the values of one input, but for special ones and ties of accumulators."""
        values = draw.uniform(u)
        corner, boundary, tie = (
            self._places(kind, len(values)) for kind in (VectorKind.CORNER, VectorKind.BOUNDARY, VectorKind.INPUT_TIE)
        )
        values[corner] = draw.corners(values[corner], v[corner])
        values[boundary] = draw.from_grid(draw.boundaries, values[boundary], v[boundary])
        values[tie] = draw.from_grid(draw.ties, values[tie], v[tie])
        return values

    def _place_special(self, values: Mapping[str, Array], u: Array, v: Array) -> None:
        """Replace one value of each special vector by a number beyond the box, among the inputs that have such."""
        rows = self._places(self._special_kind, len(u))
        names = [name for name, draw in self._draws.items() if len(draw.special)]
        places = [(name, column) for name in names for column in range(values[name].shape[1])] if len(rows) else []
        for row in rows:
            name, column = places[int(v[row] * len(places))]
            special = self._draws[name].special
            values[name][row, column] = special[int(u[row] * len(special))]

    def _place_ties(self, vectors: Vectors, block: int) -> None:
        """Place every vector of the bank once, at the places of ACCUMULATOR_TIE from the first block on."""
        places = self._places(VectorKind.ACCUMULATOR_TIE, self._block_size)
        ties = tie_bank(self._network)[block * len(places) : (block + 1) * len(places)]
        places = places[: len(ties)]
        inside = places < len(vectors)
        vectors[places[inside]] = ties[inside]

    def _places(self, kind: VectorKind, rows: int) -> Places:
        """Return the vectors of this kind among the first ones of a block."""
        period = [self._kind(index) is kind for index in range(SPECIAL_PERIOD)]
        return np.flatnonzero(np.tile(period, self._block_size // SPECIAL_PERIOD)[:rows])


def uniform(network: Network, seed: int, count: int) -> Vectors:
    """Return vectors that are uniform over the input box, (count, width), without the other kinds of `stimuli`."""
    return _uniform(network, random_stream(seed, 0), count)


def _uniform(network: Network, random: np.random.Generator, count: int) -> Vectors:
    u = random.random((count, sum(tensor.size for tensor in network.inputs)))
    boxes, values, first = network.values(network.box), {}, 0
    for tensor in network.inputs:
        values[tensor.name] = draws.uniform(boxes[tensor.name], u[:, first : first + tensor.size])
        first += tensor.size
    return network.vectors(values)


@lru_cache(maxsize=4)
def tie_bank(network: Network) -> Vectors:
    """Return vectors that each cause a tie in a layer that does not read an input, (found, width).

    A search of bounded effort over uniform vectors: ties are about one in a million activations with ordinary
    scales, and the rule with powers of two.
    """
    none = np.empty((0, network.vector.size), network.vector.dtype)
    later = [layer for layer in network.layers if layer not in network.readers]
    searches = {layer.name: find for layer in later if (find := layer.stimuli.find_ties)}
    if not searches:
        return none
    finders = [searches[layer.name]() if layer.name in searches else _without_ties(layer) for layer in network.layers]
    activations = sum(layer.size for layer in network.layers)
    block_size = max(min(SEARCH_BLOCK, MEMORY_BUDGET // (BYTES_AN_ACTIVATION * activations)), 1)
    rows = vectors_at_once(max(layer.size for layer in network.layers))
    found = [none]
    for block in range(min(SEARCHED_BLOCKS, 1 + SEARCHED_ACTIVATIONS // (activations * block_size))):
        rng = random_stream(SEARCH_KEY, block)
        for first in range(0, block_size, rows):
            count = min(rows, block_size - first)
            vectors = _uniform(network, rng, count)
            found.append(vectors[_meets_tie(network, finders, vectors)])
        if sum(map(len, found)) >= LARGEST_BANK:
            break
    return np.concatenate(found)


def _meets_tie(network: Network, finders: list[FindTies], vectors: Vectors) -> npt.NDArray[np.bool_]:
    values = network.values(vectors)
    met = np.zeros(len(vectors), np.bool_)
    for layer, find in zip(network.layers, finders, strict=True):
        values[layer.output.name], ties = find(*(values[source] for source in layer.sources))
        met |= ties.any(axis=1)
    return met


def _without_ties(layer: Layer) -> FindTies:
    """Return the function of a layer that reads the input: its ties are a kind of vectors of their own."""
    evaluate = layer.prepare()
    return lambda *values: (evaluate(*values), np.zeros((len(values[0]), 1), np.bool_))

"""The vectors of a run: seeded, or from a file.

Seeded vectors depend only on the network, the seed and their index: any slice can be generated again, in chunks of any
size.  Their kinds are interleaved in a fixed pattern, so every chunk contains all of them.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from harness.core.arrays import MEMORY_BUDGET, Array, vectors_at_once
from harness.core.errors import RequestError
from harness.core.safe_io import load_array
from harness.model.network import Network
from harness.operators.base import Layer
from harness.operators.counters import FindTies

Vectors: TypeAlias = npt.NDArray[np.float32]
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
SPECIAL_VALUES = np.array(
    [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38], np.float32
)

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
    """`count` vectors of `width` float32 values; `origin` says where they come from."""

    count: int
    width: int
    origin: str

    @abstractmethod
    def chunk(self, start: int, stop: int) -> Vectors:
        """Return vectors start to stop (at most `count`), float32 (stop - start, width), C order."""

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


def from_file(path: Path, network: Network, origin: str = "") -> Stimuli:
    """Return the vectors of a .npy file, memory-mapped: float32 (n, ...) of K values each; its path is their origin.

    `origin` names the original of a copied file.  Raises RequestError for another type or shape, for a file that
    is cut short, pickled or not .npy, and for NaN or an infinity that no QuantizeLinear reads: IEEE 754 leaves sign and
    payload of the NaN that comes out open, so there is no value to compare with.
    """
    try:
        array = load_array(path)
    except OSError as error:
        hint = HOW_TO_SAVE if path.suffix == ".npy" else "give a whole number of vectors, or the path of a .npy file"
        raise RequestError(f"vectors {path}: {error.strerror or error}", hint) from error
    except ValueError as error:
        raise RequestError(f"vectors {path}: not a complete .npy file: {error}", HOW_TO_SAVE) from error
    if array.dtype != np.dtype("<f4"):
        raise RequestError(f"vectors {path}: {array.dtype.str}, not float32", HOW_TO_SAVE)
    if array.ndim == 0 or len(array) == 0 or array.size != len(array) * network.input.size:
        raise RequestError(
            f"vectors {path}: shape {array.shape}",
            f"shape (n, {network.input.size}), or (n, ...) with as many values, with n of 1 or more",
        )
    array = array.reshape(len(array), network.input.size)
    if not network.takes_every_input:
        _require_finite(array, path, network)
    return _FromFile(array, origin or str(path))


def _require_finite(array: Vectors, path: Path, network: Network) -> None:
    for start in range(0, len(array), BLOCK):
        for vector, place in np.argwhere(~np.isfinite(array[start : start + BLOCK])):
            reader = next(layer for layer in network.readers if not layer.stimuli.takes_every_input)
            raise RequestError(
                f"vectors {path}: input {place} of vector {start + vector} is {array[start + vector, place]}, "
                f"and layer {reader.name!r} ({reader.operator}) reads it",
                "give finite numbers: only QuantizeLinear defines a result for NaN and infinities, bit for bit",
            )


HOW_TO_SAVE = "save them with numpy.save(path, vectors.astype(numpy.float32)): little endian, shape (n, inputs)"


class _FromFile(Stimuli):
    def __init__(self, array: Vectors, origin: str) -> None:
        self._array = array
        self.count, self.width = array.shape
        self.origin = origin

    def chunk(self, start: int, stop: int) -> Vectors:
        return np.array(self._array[start:stop], order="C")

    def describe(self) -> dict[str, int]:
        return {"from file": self.count}


class _Seeded(Stimuli):
    def __init__(self, network: Network, count: int, seed: int, *, special: bool) -> None:
        self.count, self.width = count, network.input.size
        self.origin = f"seed {seed}"
        self._network, self._seed, self._special = network, seed, special or network.checks_input
        self._special_kind = VectorKind.SPECIAL if network.takes_every_input else VectorKind.FINITE_SPECIAL
        self._boundaries, self._ties = network.boundaries()
        periods = MEMORY_BUDGET // (BYTES_AN_INPUT * SPECIAL_PERIOD * self.width)
        self._block_size = max(min(BLOCK, periods * SPECIAL_PERIOD), SPECIAL_PERIOD)
        self._last = -1, np.empty((0, self.width), np.float32)  # the number and the vectors of the last block

    def chunk(self, start: int, stop: int) -> Vectors:
        stop, size = min(stop, self.count), self._block_size
        first = start // size
        blocks = [self._block(index, min(size, stop - index * size)) for index in range(first, -(-stop // size))]
        empty = np.empty((0, self.width), np.float32)
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
        if self._special and index % SPECIAL_PERIOD == 0:
            return self._special_kind
        kind = PATTERN[index % len(PATTERN)]
        grids = {VectorKind.INPUT_TIE: self._ties, VectorKind.BOUNDARY: self._boundaries}
        return VectorKind.UNIFORM if kind in grids and not len(grids[kind]) else kind

    def _block(self, block: int, rows: int) -> Vectors:
        """Return the first `rows` vectors of a block; the last one stays in memory, as a chunk is a part of it."""
        number, vectors = self._last
        if number != block or len(vectors) < rows:
            vectors = self._drawn(block, rows)
            self._last = block, vectors
        return vectors[:rows]

    def _drawn(self, block: int, rows: int) -> Vectors:
        """Return vectors of a block from one stream: the numbers u of all vectors, then those v."""
        box = self._network.box
        u = random_stream(self._seed, block).random((rows, self.width))
        later = random_stream(self._seed, block)
        later.bit_generator.advance(self._block_size * self.width // NUMBERS_OF_A_STEP)  # type: ignore[attr-defined]
        v = later.random((rows, self.width))
        vectors = _uniform(box, u)
        kinds = (VectorKind.CORNER, VectorKind.BOUNDARY, VectorKind.INPUT_TIE, self._special_kind)
        corner, boundary, tie, special = (places[places < rows] for places in map(self._places, kinds))
        vectors[corner] = _corners(box, vectors[corner], v[corner])
        if len(boundary):
            vectors[boundary] = _from_grid(self._boundaries, box, v[boundary], vectors[boundary])
        if len(tie):
            vectors[tie] = _from_grid(self._ties, box, v[tie], vectors[tie])
        values = (
            SPECIAL_VALUES if self._special_kind is VectorKind.SPECIAL else SPECIAL_VALUES[np.isfinite(SPECIAL_VALUES)]
        )
        vectors[special] = _special(values, vectors[special], u[special], v[special])
        self._place_ties(vectors, block)
        return vectors

    def _place_ties(self, vectors: Vectors, block: int) -> None:
        """Place every vector of the bank once, at the places of ACCUMULATOR_TIE from the first block on."""
        places = self._places(VectorKind.ACCUMULATOR_TIE)
        ties = tie_bank(self._network)[block * len(places) : (block + 1) * len(places)]
        places = places[: len(ties)]
        inside = places < len(vectors)
        vectors[places[inside]] = ties[inside]

    def _places(self, kind: VectorKind) -> Places:
        """Return the vectors of a block that are of this kind."""
        period = [self._kind(index) is kind for index in range(SPECIAL_PERIOD)]
        return np.flatnonzero(np.tile(period, self._block_size // SPECIAL_PERIOD))


def uniform(box: Vectors, seed: int, count: int) -> Vectors:
    """Return vectors that are uniform over the input box, float32 (count, K), without the other kinds of `stimuli`."""
    return _uniform(box, random_stream(seed, 0).random((count, box.shape[1])))


def _uniform(box: Vectors, u: Array) -> Vectors:
    low, high = box.astype(np.float64)
    inside: npt.NDArray[np.float64] = np.clip(low + (high - low) * u, low, high)
    return inside.astype(np.float32)


def _corners(box: Vectors, vectors: Vectors, v: Array) -> Vectors:
    """Return two inputs of five at their lower bound, two at their upper, the fifth unchanged."""
    return np.where(v < 0.4, box[0], np.where(v < 0.8, box[1], vectors))


def _from_grid(grid: Vectors, box: Vectors, v: Array, vectors: Vectors) -> Vectors:
    """Return for each input a value of the sorted grid within the box; without one, the input unchanged."""
    first = np.searchsorted(grid, box[0], side="left")
    count = np.searchsorted(grid, box[1], side="right") - first
    index = first + (v * count).astype(np.int64)
    return np.where(count > 0, grid[np.minimum(index, len(grid) - 1)], vectors)


def _special(values: Vectors, vectors: Vectors, u: Array, v: Array) -> Vectors:
    """Return the vectors with one input each replaced by one of the special values."""
    column = (v[:, 0] * vectors.shape[1]).astype(np.int64)
    vectors[np.arange(len(vectors)), column] = values[(u[:, 0] * len(values)).astype(np.int64)]
    return vectors


@lru_cache(maxsize=4)
def tie_bank(network: Network) -> Vectors:
    """Return vectors that each cause a tie in a layer that does not read the input, float32 (found, K).

    A search of bounded effort over uniform vectors: ties are about one in a million activations with ordinary
    scales, and the rule with powers of two.
    """
    none = np.empty((0, network.input.size), np.float32)
    later = [layer for layer in network.layers if network.input.name not in layer.sources]
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
            vectors = _uniform(network.box, rng.random((count, network.input.size)))
            found.append(vectors[_meets_tie(network, finders, vectors)])
        if sum(map(len, found)) >= LARGEST_BANK:
            break
    return np.concatenate(found)


def _meets_tie(network: Network, finders: list[FindTies], vectors: Vectors) -> npt.NDArray[np.bool_]:
    values: dict[str, Array] = {network.input.name: vectors}
    met = np.zeros(len(vectors), np.bool_)
    for layer, find in zip(network.layers, finders, strict=True):
        values[layer.output.name], ties = find(*(values[source] for source in layer.sources))
        met |= ties.any(axis=1)
    return met


def _without_ties(layer: Layer) -> FindTies:
    """Return the function of a layer that reads the input: its ties are a kind of vectors of their own."""
    evaluate = layer.prepare()
    return lambda *values: (evaluate(*values), np.zeros((len(values[0]), 1), np.bool_))

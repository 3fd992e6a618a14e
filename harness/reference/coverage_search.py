"""Vectors until a share of all codes is covered: seeded ones first, then those that a directed search finds.

The search starts from earlier vectors: for an uncovered code, it takes the vector that produced the next code of the
same column and moves its inputs by small or large steps.  It keeps only vectors that produce a new code, so there are
never more of them than codes.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.model.network import Network
from harness.operators.counters import VALUES
from harness.operators.softfloat import Integers
from harness.reference.coverage import require_codes
from harness.reference.specification import SpecificationReference
from harness.reference.stimuli import Stimuli, Vectors, random_stream, stimuli

# Candidates that are judged together, from one random stream; fewer if they have more than INPUTS_AT_ONCE inputs.
BLOCK = 4096
INPUTS_AT_ONCE = 1 << 22
FEWEST_OF_A_BLOCK = 64

# Activations that are computed together.
VALUES_AT_ONCE = 1 << 22

# The first vectors are the plain seeded ones, all of them: corners, boundaries and ties are worth having, too.
SEEDED = 2 * BLOCK

SEARCHED = "searched for, each the first to meet a code"

# The search ends after this number of consecutive candidates without a new code.
PATIENCE = 8 * BLOCK

# An input moves by up to its whole range, or that range halved up to eight times.
HALVINGS = 9
FIRST_STREAM = 1 << 63  # the seeded vectors have those from 0 on


class StopReason(enum.Enum):
    """The reason for the end of the search; the value describes it."""

    MET = "the share is met"
    LIMIT = "no more vectors were allowed"
    NOTHING_NEW = f"{PATIENCE:,} candidates in a row met no new code"


class Covering(Stimuli):
    """Vectors that were made to meet codes, first those of `seeded`; `origin` says how far they came."""

    def __init__(self, vectors: Vectors, seeded: Stimuli, origin: str) -> None:
        self._vectors, self._seeded, self.origin = vectors, seeded, origin
        self.count, self.width = vectors.shape

    def chunk(self, start: int, stop: int) -> Vectors:
        """Return vectors start to stop, float32 (stop - start, width), C order."""
        return self._vectors[start:stop].copy()

    def describe(self) -> dict[str, int]:
        """Return the kinds of the seeded ones, and how many were searched for."""
        searched = self.count - self._seeded.count
        return self._seeded.describe() | ({SEARCHED: searched} if searched else {})


class Search:
    """The search for vectors that meet a share of all (layer, column, code) that the layers could write.

    These are `reachable_codes`: of each layer by itself.  No input of the network may lead to some of them, so that
    few networks can have a share of 1; the search then ends when it finds nothing new, or has made `limit` vectors.
    These are a function of the arguments alone.  Raises RequestError if no layer rounds to codes.
    """

    def __init__(self, network: Network, limit: int, seed: int, share: float) -> None:
        require_codes(network)
        source = network.float_input("--cover")
        self._network, self._limit, self._seed, self._share = network, limit, seed, share
        self._reference = SpecificationReference(network)
        counters = {index: layer.stimuli.counter(0) for index, layer in enumerate(network.layers)}
        self._rounding = {index: counter for index, counter in counters.items() if counter.reachable}
        tables = [counter.reachable.codes for counter in self._rounding.values() if counter.reachable]
        self._reachable = np.flatnonzero(np.vstack(tables))
        columns = np.cumsum([0, *map(len, tables)])
        self._columns = list(itertools.starmap(np.arange, itertools.pairwise(columns)))
        self._first_vector = np.full(columns[-1] * VALUES, -1)  # that met each code, as an index of `_vectors`
        self._vectors = np.empty((0, source.size), np.float32)
        self._met = self._in_vain = 0
        self.needed = math.ceil(share * len(self._reachable))

    def blocks(self) -> Iterator[int]:
        """Search to the end, block by block: how many codes each block was the first to meet."""
        seeded = stimuli(self._network, min(SEEDED, self._limit), self._seed)
        size = min(BLOCK, max(INPUTS_AT_ONCE // self._network.vector.size, FEWEST_OF_A_BLOCK))
        for start in range(0, seeded.count, size):
            if self._ending is None:
                yield self._take(seeded.chunk(start, start + size), everything=True)
        for block in itertools.count():
            if self._ending is not None:
                return
            rng = random_stream(self._seed, FIRST_STREAM + block)
            parents = self._vectors[rng.choice(self._frontier(), size)]
            yield self._take(_moved(parents, self._network.box, rng), everything=False)

    def result(self) -> Covering:
        """Return the vectors found so far."""
        seeded = stimuli(self._network, min(SEEDED, len(self._vectors)), self._seed)
        asked = f"{seeded.origin}, until {100 * self._share:.4g} % of the reachable codes are met"
        ended = self._ending.value if self._ending else "searching"
        return Covering(self._vectors, seeded, f"{asked}: {self._met:,} of {len(self._reachable):,} are; {ended}")

    @property
    def _ending(self) -> StopReason | None:
        if self._met >= self.needed:
            return StopReason.MET
        if len(self._vectors) >= self._limit:
            return StopReason.LIMIT
        return StopReason.NOTHING_NEW if self._in_vain >= PATIENCE else None

    def _take(self, candidates: Vectors, *, everything: bool) -> int:
        """Keep those that meet something new, or all, but no more than are needed; return how many codes are new."""
        codes, first = self._new(candidates)
        gain = np.bincount(first, minlength=len(candidates))
        kept = np.arange(len(candidates)) if everything else np.flatnonzero(gain)
        enough = 1 + int(np.searchsorted(np.cumsum(gain[kept]), self.needed - self._met))
        kept = kept[: min(enough, self._limit - len(self._vectors))]
        place = np.searchsorted(kept, first)
        is_kept = place < len(kept)
        self._first_vector[codes[is_kept]] = len(self._vectors) + place[is_kept]
        self._vectors = np.concatenate([self._vectors, candidates[kept]])
        self._met += int(is_kept.sum())
        self._in_vain = 0 if len(codes) else self._in_vain + len(candidates)
        return int(is_kept.sum())

    def _new(self, candidates: Vectors) -> tuple[Integers, Integers]:
        """Return the codes of all columns that nothing met before, and for each the first candidate that meets it."""
        at_once = max(VALUES_AT_ONCE // sum(layer.size for layer in self._network.layers), 1)
        parts = range(0, len(candidates), at_once)
        found = [pair for first in parts for pair in self._unmet(candidates[first : first + at_once], first)]
        codes, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
        new, at = np.unique(codes, return_index=True)
        return new, numbers[at]

    def _unmet(self, candidates: Vectors, first: int) -> Iterator[tuple[Integers, Integers]]:
        """Yield for each layer codes that nothing met before, and the candidates that meet them, counted from `first`.

        A code may come several times, with the earliest candidate first.
        """
        activations = self._reference.activations(candidates)
        for (index, counter), columns in zip(self._rounding.items(), self._columns, strict=True):
            rows = counter.by_column(activations[index])
            codes = rows - np.int64(np.iinfo(rows.dtype).min) + columns * VALUES
            row, column = np.nonzero(self._first_vector[codes] < 0)
            yield codes[row, column], first + row // (len(rows) // len(candidates))

    def _frontier(self) -> Integers:
        """Return for every unmet code the vector that met an adjacent reachable code, if one did."""
        first, column = self._first_vector[self._reachable], self._reachable // VALUES
        same_column = column[1:] == column[:-1]
        below = np.append(-1, np.where(same_column, first[:-1], -1))
        above = np.append(np.where(same_column, first[1:], -1), -1)
        neighbour = np.where(below >= 0, below, above)[first < 0]
        return neighbour[neighbour >= 0]


def _moved(vectors: Vectors, box: Vectors, rng: np.random.Generator) -> Vectors:
    """Return every vector with its inputs moved within the box, all by steps of one order of magnitude."""
    low, high = box.astype(np.float64)
    reach = np.ldexp(high - low, -rng.integers(0, HALVINGS, (len(vectors), 1)))
    moved = vectors + reach * (2 * rng.random(vectors.shape) - 1)
    inside: npt.NDArray[np.float64] = np.clip(moved, low, high)
    return inside.astype(np.float32)

"""Questions of a proof, the claims that their answers make, and the number of cases that a board is asked."""

from __future__ import annotations

import enum
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness import targets
from harness.model.network import Network
from harness.operators.obligations import Extent, ProofStep

Note: TypeAlias = Callable[[str], object]
"""Hears of each answer of the program that was found right, by its SHA-256."""


class Side(enum.Enum):
    """Source of an answer: the deployed program, its file, the reference here, or a ThreadSanitizer build."""

    BOARD = "program"
    FILE = "program file"
    REFERENCE = "reference"
    SANITIZER = "ThreadSanitizer build"


@dataclass(frozen=True)
class Question:
    """A query of a proof: `answer` returns the description of a counterexample, or nothing.

    On the way it notes what the program answered rightly.  `cases` is how many values are tried; `complete` says that
    they are all possible values.  `observed` lists, after the answer, further relevant observations.  `unseparated` are
    the fault models that give the right values for all of them.
    """

    step: ProofStep
    side: Side
    layer: str | None
    statement: str
    method: str
    cases: int
    complete: bool
    answer: Callable[[Note], str]
    observed: Callable[[], str] = str
    unseparated: tuple[str, ...] = ()

    def ask(self) -> Claim:
        """Return the answer, the hash of all that was found right on the way to it, and how long it took."""
        started, right = time.perf_counter(), hashlib.sha256()
        counterexample = self.answer(lambda sha256: right.update(sha256.encode()))
        return Claim(self, counterexample, time.perf_counter() - started, right.hexdigest(), self.observed())


@dataclass(frozen=True)
class Claim:
    """A question with its answer: it holds where there is no counterexample.

    `answers_sha256` is the SHA-256 of the SHA-256s, as text, of all answers that were right, in their order.
    """

    question: Question
    counterexample: str
    time_s: float
    answers_sha256: str = ""
    observed: str = ""

    @property
    def holds(self) -> bool:
        """Return whether no counterexample was found."""
        return not self.counterexample


MOST = 1 << 18
"""Executions in one process: more than a 16-bit counter counts.  On a stand-in: vectors, in larger blocks."""
OPERATIONS = 1 << 33
"""Operations for which a question to a stand-in has about as many vectors; it computes some 10^8 of them a second."""
FEWEST = 64
"""Number of vectors of a question, however large the network is."""


@dataclass(frozen=True)
class Effort:
    """Executions of each launch by item in `launches`, and of the whole `network` in blocks of at most `block` vectors.

    The network has fewer than its launches, of which it consists, as its hand-overs take most of the time.
    `random_vectors` pass through every sum of products, `overlapping` executions run with shifted items,
    and one in which each item in turn is `late_us` late.  Whole runs have at least `vectors` seeded vectors, and about
    `window` executions around each power of two (generated.windows).  `limits`
    are the numbers of vectors for which questions to each item have time, 0 for an item without a limit.
    """

    launches: Sequence[int]
    network: int
    block: int
    random_vectors: int
    overlapping: int
    late_us: int = 3_000_000
    vectors: int = 2000
    window: int = 256
    limits: Sequence[int] = ()

    def extent(self, item: int, *, all_floats: bool) -> Extent:
        """Return what is asked of the stages of an item, by its number."""
        if not self._is_limited(item):
            return Extent(all_floats, self.random_vectors)
        return Extent(all_floats, min(self.random_vectors, self.limits[item]), every_position=False)

    def of_launch(self, item: int) -> int:
        """Return the largest number of vectors of each drawn kind that a launch of an item gets."""
        return (
            min(MOST_OF_A_KIND, max(self.limits[item] // KINDS, FEWEST)) if self._is_limited(item) else MOST_OF_A_KIND
        )

    def executions(self, item: int, width: int) -> int:
        """Return the executions of a launch of an item, which writes `width` values, in one process."""
        return min(self.launches[item], MOST if width <= WIDE else MOST // 2)

    def largest_size(self, item: int, block: int, width: int) -> int:
        """Return the number up to which each number of vectors passes through a launch of an item in one execution.

        The launch writes `width` values for each vector.
        """
        limit = VALUES_OF_SIZES // width
        if self.limits and self.limits[item]:
            limit = self.limits[item] // KINDS
        return min(block, max(math.isqrt(2 * limit), SIZES))

    @property
    def limited(self) -> tuple[int, ...]:
        """The items whose stages are asked for less."""
        return tuple(item for item in range(len(self.limits)) if self._is_limited(item))

    def _is_limited(self, item: int) -> bool:
        return bool(self.limits) and 0 < self.limits[item] < DRAWN_VECTORS


WHOLE_RUNS = 4
"""Divisor of the number of vectors for runs of the whole network, of which a proof has about a dozen."""
MOST_OF_A_KIND = 4096
KINDS = 8
"""The kinds of vectors of a launch, roughly."""
WIDE = 1 << 10
"""Values of an output from which a launch on hardware has half of the executions, still more than 2^16."""
VALUES_OF_SIZES = 1 << 26
"""Values that a launch on hardware writes in executions of each size: wide outputs have fewer sizes."""
SIZES = 16
"""Numbers of vectors that every launch gets in an execution, on stand-ins of the largest networks, too."""
DRAWN_VECTORS = 1 << 16


def effort_of(ran_on: Sequence[str], network: Network) -> Effort:
    """Return the effort for a plan whose items ran on the devices `ran_on`; a stand-in of a large network has less."""
    vectors = max(OPERATIONS // max(network.operations, 1), FEWEST)
    limits = [0 if where == targets.HARDWARE else vectors for where in ran_on]
    launches = [_launch_executions(where, vectors) for where in ran_on]
    if not any(limits):
        return Effort(launches, network=70_000, block=4, random_vectors=1 << 20, overlapping=8192)
    return Effort(
        launches,
        network=min(20_000, vectors // 2),
        block=min(64, max(vectors // 2000, 2)),
        random_vectors=DRAWN_VECTORS,
        overlapping=min(4096, max(vectors // 4, FEWEST)),
        vectors=min(2000, max(vectors // WHOLE_RUNS, FEWEST)),
        window=16,
        limits=limits,
    )


def _launch_executions(where: str, vectors: int) -> int:
    """Return the number of executions of a launch on a device; a question has time for `vectors` vectors.

    A simulated accelerator takes a millisecond for each.  If `vectors` is small, a block has one or two vectors.
    """
    if where == targets.HARDWARE:
        return MOST
    most = MOST // 2 if where.startswith("emulated-cpu") else MOST // 64
    return min(most, vectors if vectors >= DRAWN_VECTORS else max(vectors // 2, FEWEST))

"""How many cases a proof sends to a board: as many as fit into its time, fewer where a stand-in takes longer.

The numbers follow from where the items ran, so that a verifier asks the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness import targets

MOST = 1 << 18
"""Executions in one process: more than a 16-bit counter counts.  On a stand-in as many vectors, in larger blocks."""


@dataclass(frozen=True)
class Effort:
    """Executions of each launch by item in `launches`, and of the whole `network` in blocks of at most `block` vectors.

    The network has fewer than its launches, of which it consists, as its hand-overs take most of the time.
    `random_vectors` pass through every sum of products, `overlapping` executions run with shifted items,
    and one in which each item in turn is `late_us` late.
    """

    launches: Sequence[int]
    network: int
    block: int
    random_vectors: int
    overlapping: int
    late_us: int = 3_000_000


def of(ran_on: Sequence[str]) -> Effort:
    """The effort for a plan whose items `ran_on` what this says."""
    slow = [where != targets.HARDWARE for where in ran_on]
    launches = [_launch_executions(where) for where in ran_on]
    if any(slow):
        return Effort(launches, network=20_000, block=64, random_vectors=1 << 16, overlapping=4096)
    return Effort(launches, network=70_000, block=4, random_vectors=1 << 20, overlapping=8192)


def _launch_executions(where: str) -> int:
    """What computes for an accelerator on a processor takes a millisecond for a launch."""
    if where == targets.HARDWARE:
        return MOST
    return MOST // 2 if where.startswith("emulated-cpu") else MOST // 64

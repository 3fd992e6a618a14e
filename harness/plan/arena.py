"""Offsets of buffers in one arena: two share bytes only if one is read for the last time before the other is written.

The algorithm is that of `GreedyMemoryPlanner` of TensorFlow Lite Micro: the largest buffer first, each at the lowest
offset where it fits between those placed before that it conflicts with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from harness import targets
from harness.plan.plan import Buffers, Plan, task_bytes

PERIOD = 256
"""Bytes: the program places every buffer at a multiple of it, so that the pattern with which
kernels/program/probe_launch.c fills buffers, which has this period, is the same in all buffers that share bytes."""


def unit(block: int) -> int:
    """Return the bytes per vector of which offsets are multiples: in a block of vectors they are of PERIOD."""
    return PERIOD // math.gcd(PERIOD, block)


def place(sizes: Mapping[int, int], conflicts: Mapping[int, int], alignment: int) -> dict[int, int]:
    """Return the offset of every buffer, all multiples of `alignment`.

    `sizes` are bytes by the number of a buffer, `conflicts` the set of buffers, as bits, with which one shares no byte.
    """
    offsets: dict[int, int] = {}
    for index in sorted(sizes, key=lambda index: (-sizes[index], index)):
        taken = sorted((at, at + sizes[other]) for other, at in offsets.items() if conflicts[index] >> other & 1)
        offset = 0
        for start, stop in taken:
            if offset + sizes[index] <= start:
                break
            offset = max(offset, -(-stop // alignment) * alignment)
        offsets[index] = offset
    return offsets


def conflicts(earlier: Sequence[int], readers: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return for every buffer, numbered as its task, the set of those with which it shares no byte, as bits.

    `earlier` is for every task the set of those that have ended in every interleaving when it begins, `readers` those
    that read its buffer.  A buffer that nobody reads is a result: it keeps its content until the execution ends.
    """
    count = len(earlier)
    last = [sum(1 << reader for reader in {index, *readers[index]}) for index in range(count)]

    def over(first: int, then: int) -> bool:
        return bool(readers[first]) and last[first] & ~earlier[then] == 0

    def conflict(one: int, other: int) -> bool:
        return not (over(one, other) or over(other, one))

    return {one: sum(1 << other for other in range(count) if conflict(one, other)) for one in range(count)}


def with_buffers(plan: Plan, block: int, buffers: Buffers) -> Plan:
    """Return the plan for this block; with "reuse", buffers with one copy share bytes if the targets permit it."""
    sizes = {
        index: task_bytes(plan.network, task)
        for index, task in enumerate(plan.tasks)
        if buffers == "reuse" and task.buffers == 1 and targets.shares_buffers(plan.items[task.item].target)
    }
    offsets = place(sizes, conflicts(plan.earlier, _readers(plan)), unit(block)) if sizes else {}
    tasks = tuple(dataclasses.replace(task, offset=offsets.get(index)) for index, task in enumerate(plan.tasks))
    return dataclasses.replace(plan, block=block, tasks=tasks)


def _readers(plan: Plan) -> list[list[int]]:
    """Return for every task those that read its buffer."""
    readers: list[list[int]] = [[] for _ in plan.tasks]
    for index, sources in enumerate(plan.reads):
        for source in sources:
            readers[source].append(index)
    return readers

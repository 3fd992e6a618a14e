"""Differences between two snapshots of a board; no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.boards.tuning.snapshot import Counts, Snapshot

MOST_NAMED = 5

Key = TypeVar("Key")


@dataclass(frozen=True)
class Differences:
    """Increases of a board's counters; counters that only one snapshot has are left out.

    `interrupts` are sums by core, `named_interrupts` the five kinds that came most, by core.  The kernel counts page
    faults of the whole system only, and switches by core only where it has schedstat; ticks are 1/100 s.
    """

    seconds: float
    interrupts: Counts
    named_interrupts: Mapping[str, Counts]
    switches: int | None
    core_switches: Counts
    faults: int | None
    major_faults: int | None
    busy_ticks: Counts
    stolen_ticks: Counts
    frequency_changes: Counts
    throttle_events: Mapping[str, int]


def differences(before: Snapshot, after: Snapshot) -> Differences:
    """Return the increases of all counters from `before` to `after`."""
    interrupts = {
        name: grown(before.interrupts.get(name, dict.fromkeys(counts, 0)), counts)
        for name, counts in after.interrupts.items()
    }
    most = sorted(interrupts, key=lambda name: (-sum(interrupts[name].values()), name))[:MOST_NAMED]
    return Differences(
        seconds=round(after.uptime_s - before.uptime_s, 2),
        interrupts=_by_core(interrupts),
        named_interrupts={name: interrupts[name] for name in most if any(interrupts[name].values())},
        switches=_more(before.switches, after.switches),
        core_switches=grown(before.core_switches, after.core_switches),
        faults=_more(before.faults, after.faults),
        major_faults=_more(before.major_faults, after.major_faults),
        busy_ticks=grown(before.busy_ticks, after.busy_ticks),
        stolen_ticks=grown(before.stolen_ticks, after.stolen_ticks),
        frequency_changes=grown(before.frequency_changes, after.frequency_changes),
        throttle_events=grown(before.throttle_events, after.throttle_events),
    )


def grown(before: Mapping[Key, int], after: Mapping[Key, int]) -> dict[Key, int]:
    """Return the increase of each counter."""
    return {key: count - before[key] for key, count in after.items() if key in before}


def _by_core(interrupts: Mapping[str, Counts]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for counts in interrupts.values():
        total.update(counts)
    return dict(sorted(total.items()))


def _more(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before

"""Detection of throttling during a measurement from its snapshots; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from harness.boards.tuning.interval import grown
from harness.boards.tuning.snapshot import Snapshot

# A measured frequency is off the nominal one by what the sensor and the divider make of it.
TOLERANCE = 0.02
TICKS_PER_S = 100


def throttled(snapshots: Sequence[Snapshot], wanted_khz: int | None = None) -> tuple[str, ...]:
    """Return sentences about causes of a slow-down, and about cores that did not run at the wanted frequency.

    An empty result does not prove a constant speed: `unseen` lists the facts that the board does not show.
    """
    return (
        *_events(snapshots),
        *_cooling(snapshots),
        *_fallen("core {}: the highest frequency permitted", "kHz", [snapshot.limit_khz for snapshot in snapshots]),
        *_fallen("{}: the highest frequency permitted", "Hz", [snapshot.device_limit_hz for snapshot in snapshots]),
        *(_varied(snapshots) if wanted_khz is None else _missed(snapshots, wanted_khz)),
    )


def unseen(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """Return sentences about the facts that the board does not show."""
    shown: dict[str, Callable[[Snapshot], object]] = {
        "throttling counters or cooling devices: whether it throttled": lambda each: (
            each.throttle_events or each.cooling
        ),
        "frequencies: whether they were constant": lambda each: each.frequency_khz,
        "temperatures: whether it was hot": lambda each: each.temperature_c,
    }
    return tuple(
        f"the board shows no {what} is unknown" for what, show in shown.items() if not any(map(show, snapshots))
    )


def _events(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    total: dict[str, int] = {}
    for before, after in pairwise(snapshots):
        for name, count in grown(before.throttle_events, after.throttle_events).items():
            total[name] = total.get(name, 0) + max(count, 0)
    for name, count in total.items():
        if count:
            yield f"{name} grew by {count}"


def _cooling(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    for name in dict.fromkeys(name for snapshot in snapshots for name in snapshot.cooling):
        states = [snapshot.cooling.get(name, 0) for snapshot in snapshots]
        if max(states) > 0:
            active = sum(1 for state in states if state > 0)
            yield f"{name} slowed down, up to step {max(states)}, in {active} of {len(states)} snapshots"


def _fallen(what: str, unit: str, series: Sequence[Mapping[Any, int]]) -> Iterator[str]:
    """Yield a limit that is anywhere lower than it was before."""
    highest: dict[Any, int] = {}
    lowest: dict[Any, int] = {}
    for values in series:
        for name, value in values.items():
            highest[name] = max(value, highest.get(name, value))
            if value < highest[name]:
                lowest[name] = min(value, lowest.get(name, value))
    for name, value in lowest.items():
        yield f"{what.format(name)} fell from {highest[name]} to {value} {unit}"


def _varied(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    for core, values in _frequencies(snapshots).items():
        if min(values) < max(values) * (1 - TOLERANCE):
            yield f"core {core}: the frequency was {min(values)} to {max(values)} kHz"


def _missed(snapshots: Sequence[Snapshot], wanted_khz: int) -> Iterator[str]:
    """Yield another frequency in a snapshot, or time in a lower one between the first and the last snapshot."""
    for core, values in _frequencies(snapshots).items():
        wrong = [value for value in values if abs(value - wanted_khz) > wanted_khz * TOLERANCE]
        if wrong:
            yield (
                f"core {core}: the frequency was {min(wrong)} to {max(wrong)} kHz, not {wanted_khz} kHz, "
                f"in {len(wrong)} of {len(values)} snapshots"
            )
    for core, after in snapshots[-1].state_ticks.items() if snapshots else ():
        spent = grown(snapshots[0].state_ticks.get(core, {}), after)
        slow = sum(ticks for khz, ticks in spent.items() if khz < wanted_khz * (1 - TOLERANCE))
        if slow:
            whole = sum(spent.values())
            yield f"core {core}: {slow / TICKS_PER_S:g} of {whole / TICKS_PER_S:g} s below {wanted_khz} kHz"


def _frequencies(snapshots: Sequence[Snapshot]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for snapshot in snapshots:
        for core, value in snapshot.frequency_khz.items():
            found.setdefault(core, []).append(value)
    return found

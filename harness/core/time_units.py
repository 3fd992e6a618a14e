"""Measured times for display: units and digits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """A unit of time."""

    name: str
    nanoseconds: float

    def text(self, time_ns: float | None) -> str:
        """Return a time in this unit without its name; empty for no time.

        It has three decimals, one for ns, none for a whole number of ns.
        """
        if time_ns is None:
            return ""
        places = 3 if self.nanoseconds > 1 else 0 if time_ns == round(time_ns) else 1
        return f"{time_ns / self.nanoseconds:,.{places}f}"


NS, US, MS = Unit("ns", 1), Unit("µs", 1e3), Unit("ms", 1e6)


def unit_of(largest_ns: float) -> Unit:
    """Return the unit in which times up to this one have few digits."""
    return NS if largest_ns < 1e4 else US if largest_ns < 1e7 else MS


def duration(time_ns: float) -> str:
    """Return a time with its unit, in three or four digits."""
    unit = next(unit for unit in (MS, US, NS) if abs(time_ns) >= unit.nanoseconds or unit is NS)
    return f"{time_ns / unit.nanoseconds:,.4g} {unit.name}" if time_ns < 1e10 else f"{time_ns / 1e9:,.0f} s"

"""Numbers as people write them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """In the two largest units, as 7.2s, 3m 20s, 30m, 1h 05m, 8h."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    unit, length_s, lesser, lesser_s = ("h", 3600, "m", 60) if whole >= 3600 else ("m", 60, "s", 1)
    rest = whole % length_s // lesser_s
    return f"{whole // length_s}{unit}" + (f" {rest:02}{lesser}" if rest else "")


def retries(count: int) -> str:
    """So many of them."""
    return f"{count} {'retry' if count == 1 else 'retries'}"

"""Numbers and durations for display, in the same form in every message, table and page."""

from __future__ import annotations

CUT = " [...] "


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, as a night's file accepts it: 7.2s, 3m 20s, 30m, 1h 05m, 8h.

    For measured times, use `harness.core.time_units.duration`, which keeps more digits.
    """
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    unit, length_s, lesser, lesser_s = ("h", 3600, "m", 60) if whole >= 3600 else ("m", 60, "s", 1)
    rest = whole % length_s // lesser_s
    return f"{whole // length_s}{unit}" + (f" {rest:02}{lesser}" if rest else "")


def plural(number: int, word: str, words: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {word if number == 1 else words or f'{word}s'}"


def retries(count: int) -> str:
    """Return a number of retries in words."""
    return plural(count, "retry", "retries")


def shortened(text: str, most: int = 300) -> str:
    """Shorten a text to at most `most` characters by removing its middle."""
    if len(text) <= most:
        return text
    half = (most - len(CUT)) // 2
    return f"{text[:half]}{CUT}{text[-half:]}"


def ordinal(number: int) -> str:
    """Return an ordinal number: 1st, 2nd, 3rd, 4th."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

"""Outcomes of a campaign's entries: the terms of all tables, reports and exit codes.

A wrong result, a failed part and an entry that was never started are always distinguished.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE

PARTS = ("board", "network", "tool", "reference")
"""Parts that a result depends on and that can fail."""


class Outcome(StrEnum):
    """A verdict of `run.json` or of the check of an assurance case, or the reason for a missing verdict."""

    IDENTICAL = "identical"
    WITHIN_BOUND = "within bound"
    MEASURED = "measured"
    VALID = "valid"
    DIFFERS = "differs"
    VARIES = "varies"
    REGRESSED = "regressed"
    NOT_VALID = "not valid"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run"

    @property
    def good(self) -> bool:
        """Return whether the outcome is the desired one; WITHIN_BOUND is not, unless a request accepts it."""
        return self in {Outcome.IDENTICAL, Outcome.MEASURED, Outcome.VALID}

    @property
    def sound(self) -> bool:
        """Return whether no wrong value was found: good, or within the bounds that targets claim."""
        return self.good or self is Outcome.WITHIN_BOUND

    @property
    def final(self) -> bool:
        """Return whether the outcome is a property of the program on the board; such an entry is not retried."""
        return self not in {Outcome.INCONCLUSIVE, Outcome.NOT_RUN}

    @property
    def exit_code(self) -> int:
        """Return the exit code of a command with this outcome."""
        if self.good:
            return EXIT_DONE
        return EXIT_DIFFERS if self.final else EXIT_INFRASTRUCTURE


@dataclass(frozen=True)
class Ending:
    """An outcome with its reason; `part` (of PARTS) is the failed part of an inconclusive outcome, otherwise empty."""

    outcome: Outcome
    reason: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.outcome} ({self.part})" if self.part else str(self.outcome)

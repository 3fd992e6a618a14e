"""How one entry of a campaign can end: the words of all tables, reports and exit codes.

A wrong result and a failed part are never shown as each other, and neither is what was never begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE

PARTS = ("board", "network", "tool", "reference")
"""What a result depends on, and what can fail."""


class Outcome(StrEnum):
    """A verdict of `run.json`, or why there is none."""

    IDENTICAL = "identical"
    MEASURED = "measured"
    DIFFERS = "differs"
    VARIES = "varies"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run"

    @property
    def good(self) -> bool:
        """Whether it is what a user hopes for."""
        return self in {Outcome.IDENTICAL, Outcome.MEASURED}

    @property
    def final(self) -> bool:
        """Whether it tells of the program on the board: what was found is found, nothing is tried again."""
        return self not in {Outcome.INCONCLUSIVE, Outcome.NOT_RUN}

    @property
    def exit_code(self) -> int:
        """Of a command that ends so."""
        if self.good:
            return EXIT_DONE
        return EXIT_DIFFERS if self.final else EXIT_INFRASTRUCTURE


@dataclass(frozen=True)
class Ending:
    """An outcome with its reason; `part` (of PARTS) is what failed where it is inconclusive, or else empty."""

    outcome: Outcome
    reason: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.outcome} ({self.part})" if self.part else str(self.outcome)

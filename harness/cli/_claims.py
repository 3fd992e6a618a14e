"""The claims that `harness verify` checked of evidence other than a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rich.text import Text

from harness.core.console import Console
from harness.core.errors import EXIT_DIFFERS, EXIT_DONE
from harness.core.table import Table


class Finding(Protocol):
    """A claim, whether it holds, and what was found."""

    @property
    def claim(self) -> str:
        """The claim."""

    @property
    def holds(self) -> bool:
        """True if it holds."""

    @property
    def finding(self) -> str:
        """The reason or the measure."""


def show(found: Sequence[Finding], subject: str, console: Console, note: str = "", **entries: Any) -> int:
    """Show each claim and whether `subject` is valid; print the document with `entries`; return the exit code."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("claim", "holds", "finding"):
        table.add_column(heading)
    for each in found:
        table.add_row(each.claim, "ok" if each.holds else "NOT ok", each.finding)
    valid = all(each.holds for each in found)
    console.show(table, Text(f"{subject} {'valid' if valid else 'NOT valid'}{note}"))
    claims = [{"claim": each.claim, "holds": each.holds, "finding": each.finding} for each in found]
    console.document({"valid": valid, **entries, "claims": claims})
    return EXIT_DONE if valid else EXIT_DIFFERS

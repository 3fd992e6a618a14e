"""Campaigns: every wrong program, fault, forgery and hostile file; most write a page of docs/."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.core.installation import revision


def today() -> str:
    """Return the day and the revision of the sources, which a page of a campaign states."""
    return f"{datetime.now(UTC):%Y-%m-%d}, revision {revision()}"


def dated(text: str, when: str) -> str:
    """Return the text of a page with `when`, a paragraph, between its title and the rest."""
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{when}\n\n{rest}"

"""Formats of times, names and addresses of the site."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from urllib.parse import quote

from harness.core.outcome import Outcome

TONES = {
    Outcome.IDENTICAL: "good",
    Outcome.WITHIN_BOUND: "bound",
    Outcome.MEASURED: "measured",
    Outcome.VALID: "good",
    Outcome.DIFFERS: "bad",
    Outcome.VARIES: "bad",
    Outcome.REGRESSED: "bad",
    Outcome.NOT_VALID: "bad",
    Outcome.INCONCLUSIVE: "unsure",
    Outcome.NOT_RUN: "idle",
}
SIGNS = {"good": "=", "bound": "≈", "measured": "~", "bad": "≠", "unsure": "?", "idle": "-"}


def moment(time_s: float) -> datetime:
    """Return a time in seconds since 1970 as UTC."""
    return datetime.fromtimestamp(time_s, UTC)


def day(time_s: float) -> str:
    """Format a time as 22 November 2026, 02:00 UTC."""
    found = moment(time_s)
    return f"{found.day} {found:%B %Y, %H:%M} UTC"


def file_name(text: str) -> str:
    """Return a name for a file or folder of the site; special characters are replaced, and a hash keeps it unique."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        return text
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:60].strip("-.") or "name"
    return f"{plain}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def link(*parts: str) -> str:
    """Return a relative address of these parts."""
    return "/".join(quote(part, safe="") for part in parts)


def tone(outcome: str) -> str:
    """Return the colour of a verdict."""
    return TONES[Outcome(outcome)] if outcome in list(Outcome) else "unsure"

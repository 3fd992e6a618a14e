"""Moments and names as the site writes them."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from urllib.parse import quote

from harness.core.outcome import Outcome

TONES = {
    Outcome.IDENTICAL: "good",
    Outcome.MEASURED: "good",
    Outcome.DIFFERS: "bad",
    Outcome.VARIES: "bad",
    Outcome.REGRESSED: "bad",
    Outcome.INCONCLUSIVE: "unsure",
    Outcome.NOT_RUN: "idle",
}
SIGNS = {"good": "=", "bad": "≠", "unsure": "?", "idle": "-"}


def moment(time_s: float) -> datetime:
    """Seconds since 1970, in UTC."""
    return datetime.fromtimestamp(time_s, UTC)


def day(time_s: float) -> str:
    """Format a time as 22 November 2026, 02:00 UTC."""
    found = moment(time_s)
    return f"{found.day} {found:%B %Y, %H:%M} UTC"


def file_name(text: str) -> str:
    """A name for a file or folder of the site; one that is not plain gets a part of its hash, and stays its own."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        return text
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:60].strip("-.") or "name"
    return f"{plain}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def link(*parts: str) -> str:
    """A relative address of these parts."""
    return "/".join(quote(part, safe="") for part in parts)


def tone(outcome: str) -> str:
    """The colour of a verdict's word, of whatever run."""
    return TONES[Outcome(outcome)] if outcome in list(Outcome) else "unsure"

"""docs/results/security.md, from what a campaign has found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.core.installation import ROOT
from tests.campaigns.security.campaign import Outcome
from tests.campaigns.security.worker import LIMIT_S, MEMORY_BYTES

PAGE = ROOT / "docs" / "results" / "security.md"
TEXT = Path(__file__).with_name("page.md")
TABLE = "| read by | inputs | accepted | refused with a message | anything else | longest | most memory |"


def page(outcomes: Sequence[Outcome], when: str) -> str:
    """Return the whole page; `when` is a sentence with day and revision."""
    counted = sum(outcome.inputs for outcome in outcomes)
    holes = [f"- {outcome.door}, {hole}" for outcome in outcomes for hole in outcome.holes]
    values = {
        "DATE": when,
        "INPUTS": f"{counted:,}",
        "LIMIT": f"{LIMIT_S:g}",
        "MEMORY": f"{MEMORY_BYTES >> 30}",
        "TABLE": "\n".join([TABLE, "|---|" + "---:|" * 6, *map(_row, outcomes)]),
        "HOLES": "\n".join(holes) or "Every file was accepted or refused with a message.",
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _row(outcome: Outcome) -> str:
    endings = outcome.endings
    cells = (outcome.inputs, endings["accepted"], endings["refused"], endings["hole"])
    numbers = " | ".join(f"{cell:,}" for cell in cells)
    return f"| {outcome.door} | {numbers} | {outcome.longest_s:.1f} s | {outcome.peak_mib:,} MiB |"

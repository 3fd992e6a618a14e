"""Snapshots without a board."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.boards.tuning.snapshot import Snapshot, snapshot_of

NOTHING = snapshot_of({}, 0.0)


def snapshot(uptime_s: float = 0.0, **changes: Any) -> Snapshot:
    """A snapshot of a board that shows only what is given."""
    return replace(NOTHING, uptime_s=uptime_s, **changes)

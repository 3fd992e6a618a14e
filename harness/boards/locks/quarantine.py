"""Quarantine of boards: records in the folder of locks, valid until a check passes, also after a reboot.

BOARD.health.UID has that user's last check.  No user can change another user's file in the common folder, so
that each has one, and the one with the highest sequence counts.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import dataclass

from harness.boards.locks.folder import Found
from harness.boards.locks.queue import Queue
from harness.boards.locks.ticket import LAST, clock, printable, user_name
from harness.core.safe_io import parse_json

LONGEST_REASON = 1000


@dataclass(frozen=True)
class Quarantine:
    """Reason of a quarantine, its start in seconds since 1970, and the user whose check failed."""

    reason: str
    since_s: float
    by: str

    def __str__(self) -> str:
        return f"quarantined since {clock(self.since_s)} by {self.by}: {self.reason}"


def find(queue: Queue) -> Quarantine | None:
    """Return the quarantine of the board; None if it is in use."""
    known = _records(queue)
    if not known:
        return None
    _, quarantine = max(known, key=lambda record: record[0])
    return quarantine if quarantine.reason else None


def put(queue: Queue, reason: str) -> None:
    """Take the board out of use, or with an empty `reason` back into it; BoardError if that cannot be kept."""
    before = find(queue)
    if not reason and before is None:
        return
    sequence = 1 + max((number for number, _ in _records(queue)), default=0)
    since_s = before.since_s if before and before.reason == reason else time.time()
    document = {"sequence": sequence, "reason": printable(reason, LONGEST_REASON), "since_s": since_s}
    queue.folder.replace(f"{queue.key}.health.{os.getuid()}", json.dumps(document, indent=1) + "\n")


def _records(queue: Queue) -> list[tuple[int, Quarantine]]:
    """Return the result of each user's last check, with its sequence number."""
    prefix = f"{queue.key}.health."
    names = [name for name in queue.folder.names() if name.startswith(prefix)]
    read = [_record(name.removeprefix(prefix), queue.folder.read(name)) for name in names]
    return [record for record in read if record]


def _record(uid: str, found: Found | None) -> tuple[int, Quarantine] | None:
    if found is None or not re.fullmatch(r"\d{1,10}", uid) or int(uid) != found.uid:
        return None
    try:
        document = parse_json(found.text)
        reason, since_s = printable(document["reason"], LONGEST_REASON), float(document["since_s"])
        if not math.isfinite(since_s):
            return None
        sequence = max(0, min(int(document["sequence"]), LAST))  # whatever it says, the next one can be written
        return sequence, Quarantine(reason, since_s, user_name(found.uid))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None

"""A place in the queue for a board: one file, written by its process or user.

    BOARD.000007.ticket           the first line is rewritten at every heartbeat, the rest is JSON for all to read
    BOARD.revoked.3f2a...         revokes the ticket with that token: by force, or because its holder hangs

A process's ticket is live while the process runs (the kernel's lock on its file) and its lease is valid: `lease_s`
seconds after the last heartbeat, on a clock that cannot be set and that stops, like the process, while the machine is
suspended.  A manual ticket has no process and is live until its end time.
"""

from __future__ import annotations

import json
import math
import os
import pwd
import re
import secrets
import shlex
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

from harness.boards.locks.folder import Found, SharedFolder
from harness.core.errors import BoardError
from harness.core.safe_io import one_line, parse_json

LONGEST_LEASE_S = 600.0  # whatever a file of another user says
LONGEST_WORDS = 200
LAST = 10**15 - 1
HEADER = "renewed {0:014.3f} {0:014.3f} s after boot, has it since {1:014.3f}\n"
_HEADER = re.compile(r"renewed ([0-9.]{14}) ([0-9.]{14}) s after boot, has it since ([0-9.]{14})\n")
_NAME = re.compile(r"\.(\d{6,15})\.ticket")


@dataclass(frozen=True)
class Now:
    """One moment: seconds since boot, those of them awake, the name of the boot, seconds since 1970.

    Read it before the tickets that it judges: if the process is stopped between the two, other tickets appear younger
    than they are, and no heartbeat is missed.
    """

    boot_s: float
    awake_s: float
    boot: str
    wall_s: float

    @classmethod
    def read(cls) -> Self:
        """Return the present."""
        boot_s, awake_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.clock_gettime(time.CLOCK_MONOTONIC)
        return cls(boot_s, awake_s, _boot(), time.time())


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class Owner:
    """User who has or waits for a board, and the purpose; `pid` is 0 for a manual lock."""

    user: str
    host: str
    pid: int
    command: str
    purpose: str

    @classmethod
    def me(cls, purpose: str) -> Self:
        """Return the present process."""
        command = printable(shlex.join(["harness", *sys.argv[1:]]))
        return cls(user_name(os.getuid()), socket.gethostname(), os.getpid(), command, printable(purpose))

    def __str__(self) -> str:
        process = f"pid {self.pid}, " if self.pid else ""
        return f"{self.user}@{self.host} ({process}{self.purpose})"


@dataclass(frozen=True)
class Ticket:
    """A ticket as read from its file.  Tickets with lower (`rank`, `number`) come first.

    `renewed_s` is `awake_s` of the last heartbeat; for a manual ticket, `boot_s` of its creation.

    `by_hand_s` is the duration of a manual ticket, None for a process's.  `has_it_s` is the time since which its owner
    has the board, 0 while waiting.  `revoked` states who revoked it and why.
    """

    number: int
    rank: int
    token: str
    uid: int
    owner: Owner
    boot: str
    lease_s: float
    by_hand_s: float | None
    renewed_s: float
    has_it_s: float
    locked: bool
    revoked: str = ""

    @classmethod
    def new(cls, number: int, rank: int, owner: Owner, lease_s: float, now: Now) -> Self:
        """Create a ticket of this process."""
        if number > LAST:
            raise BoardError(f"the queue is broken: somebody drew ticket {LAST}", "ask its owner to remove it")
        token, uid = secrets.token_hex(8), os.getuid()
        return cls(number, rank, token, uid, owner, now.boot, lease_s, None, now.awake_s, 0.0, locked=True)

    @property
    def is_mine(self) -> bool:
        """Return whether this process's user owns the ticket."""
        return self.uid == os.getuid()

    @property
    def order(self) -> tuple[int, int]:
        """Return its place among all."""
        return self.rank, self.number

    @property
    def until_s(self) -> float:
        """Return the end of a ticket by hand, in seconds since 1970."""
        return self.has_it_s + (self.by_hand_s or 0.0)

    def lives(self, now: Now) -> bool:
        """Return whether the ticket is live: it keeps other users from the board."""
        if self.by_hand_s is None:
            return self.locked and self._is_fresh(now)
        return not self.revoked and self._is_in_time(self.by_hand_s, now)

    def hangs(self, now: Now) -> bool:
        """Return whether the process of the ticket runs and has let its lease expire."""
        return self.by_hand_s is None and self.locked and not self._is_fresh(now)

    def _is_fresh(self, now: Now) -> bool:
        """Return whether the lease is valid; of a process on another machine, only its lock counts, not its clock."""
        return self.boot != now.boot or now.awake_s - self.renewed_s <= min(self.lease_s, LONGEST_LEASE_S)

    def _is_in_time(self, for_s: float, now: Now) -> bool:
        """Return whether the end time is ahead; after a reboot the wall clock decides, for at most twice the time."""
        if self.boot == now.boot:
            return now.boot_s - self.renewed_s <= for_s
        return now.wall_s <= self.until_s and now.boot_s <= for_s

    def describe(self, board: str) -> str:
        """Return a message that names the holder of the board."""
        if self.by_hand_s is not None:
            return f"board {board} is locked by {self.owner} since {clock(self.has_it_s)} until {clock(self.until_s)}"
        since = f" since {clock(self.has_it_s)}" if self.has_it_s else ""
        return f"board {board} is in use by {self.owner}{since}"


def printable(words: object, longest: int = LONGEST_WORDS) -> str:
    """Return another user's text in the form of a message."""
    return one_line(words, longest)


def user_name(uid: int) -> str:
    """Return the name of a user of this machine, or the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def clock(at_s: float) -> str:
    """Return a time of day, with its date if that is not today."""
    try:
        at = datetime.fromtimestamp(at_s).astimezone()
    except (ValueError, OverflowError, OSError):
        return "?"
    today = at.date() == datetime.now().astimezone().date()
    return at.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")


def header(renewed_s: float, has_it_s: float) -> str:
    """Return the first line, always of the same length: so a heartbeat needs no space on the disk.

    The time is written twice, so that a partly written line is detected.
    """
    return HEADER.format(renewed_s, has_it_s)


def text(ticket: Ticket) -> str:
    """Return the file of a ticket."""
    document = {
        "rank": ticket.rank,
        "token": ticket.token,
        **vars(ticket.owner),
        "boot": ticket.boot,
        "lease_s": ticket.lease_s,
        "by_hand_s": ticket.by_hand_s,
    }
    return header(ticket.renewed_s, ticket.has_it_s) + json.dumps(document, indent=1) + "\n"


def file_name(board: str, number: int) -> str:
    """Return the file name of a ticket for a board."""
    return f"{board}.{number:06}.ticket"


def revocation(board: str, token: str) -> str:
    """Return the name of the file that revokes the ticket of that token."""
    return f"{board}.revoked.{token}"


def read_all(folder: SharedFolder, board: str) -> list[Ticket]:
    """Return all readable tickets for a board in queue order, live or not."""
    numbered = [(name, _NAME.fullmatch(name.removeprefix(board))) for name in folder.names() if name.startswith(board)]
    found = [read(folder, board, int(match[1])) for _, match in numbered if match]
    return sorted(filter(None, found), key=lambda ticket: ticket.order)


def read(folder: SharedFolder, board: str, number: int) -> Ticket | None:
    """Return the ticket of that number; None if it is missing or the file is not a ticket."""
    for _ in range(3):  # a heartbeat may be under way
        found = folder.read(file_name(board, number))
        if found is None:
            return None
        ticket = _parse(found, number)
        if ticket is not None:
            return _with_revocation(ticket, folder, board)
    return None


def _parse(found: Found, number: int) -> Ticket | None:
    match = _HEADER.match(found.text)
    if not match or match[1] != match[2]:
        return None
    try:
        return _ticket(parse_json(found.text[match.end() :]), found, number, float(match[1]), float(match[3]))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _ticket(document: Any, found: Found, number: int, renewed_s: float, has_it_s: float) -> Ticket:
    """Check the fields of a ticket.  The file's owner owns the ticket; the content is not trusted."""
    by_hand_s = document["by_hand_s"]
    words = {key: printable(document[key]) for key in ("host", "command", "purpose")}
    numbers = (float(document["lease_s"]), renewed_s, has_it_s, 0.0 if by_hand_s is None else float(by_hand_s))
    if not all(math.isfinite(each) for each in numbers) or not re.fullmatch("[0-9a-f]{16}", document["token"]):
        raise ValueError(document)
    return Ticket(
        number,
        int(document["rank"]),
        document["token"],
        found.uid,
        Owner(user=user_name(found.uid), pid=int(document["pid"]), **words),
        str(document["boot"]),
        numbers[0],
        None if by_hand_s is None else numbers[3],
        renewed_s,
        has_it_s,
        found.locked,
    )


def _with_revocation(ticket: Ticket, folder: SharedFolder, board: str) -> Ticket:
    revoked = read_revocation(folder, board, ticket.token)
    return Ticket(**vars(ticket) | {"revoked": revoked}) if revoked else ticket


def read_revocation(folder: SharedFolder, board: str, token: str) -> str:
    """Return the user who revoked the ticket of this token, and the reason; empty if it is valid."""
    name = revocation(board, token)
    uid = folder.owner(name)
    if uid is None:
        return ""
    found = None
    with suppress(BoardError):  # that it is there says enough
        found = folder.read(name)
    words = printable(found.text, 3 * LONGEST_WORDS) if found else ""
    return words or f"{user_name(uid)} took it away"


def living(tickets: Sequence[Ticket], now: Now) -> list[Ticket]:
    """Return the tickets that block the board for others, in their order."""
    return [ticket for ticket in tickets if ticket.lives(now)]


def present(tickets: Sequence[Ticket], now: Now) -> list[Ticket]:
    """Return the tickets that are live or whose processes hang and may resume."""
    return [ticket for ticket in tickets if ticket.lives(now) or ticket.hangs(now)]


def blockers(ticket: Ticket, tickets: Sequence[Ticket], now: Now) -> list[Ticket]:
    """Return the live tickets before this one; a manual ticket does not block its own user's processes."""
    return [
        other
        for other in living(tickets, now)
        if other.order < ticket.order and not (other.by_hand_s is not None and other.uid == ticket.uid)
    ]


def having(tickets: Sequence[Ticket], now: Now) -> list[Ticket]:
    """Return the holders of the board: at most one user's ticket by hand and one ticket of that user's processes."""
    return [ticket for ticket in living(tickets, now) if not blockers(ticket, tickets, now)]


def waiting(tickets: Sequence[Ticket], now: Now) -> list[Ticket]:
    """Return the waiting processes in queue order."""
    return [ticket for ticket in living(tickets, now) if ticket.by_hand_s is None and blockers(ticket, tickets, now)]

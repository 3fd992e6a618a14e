"""The present process's place in the queue for a board.

Mutual exclusion.  A ticket appears complete and locked under an unused number (`link`), higher than every number that a
process holds; if a higher ticket exists already, the process discards its ticket and draws again.  Therefore a later
process sees all earlier tickets, and only the first live ticket has the board.  A process that passes a hanging holder
revokes the holder's ticket first and then checks again whether it still hangs; a holder that resumes renews its ticket
first and then checks whether it is revoked.  At least one of the two sees the other.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from harness.boards.locks import ticket as tickets
from harness.boards.locks.folder import SharedFolder
from harness.boards.locks.lease_guard import BoardLost
from harness.boards.locks.ticket import Now, Owner, Ticket
from harness.core.errors import BoardError, RequestError

DRAWS = 100
LOCK_WAIT = "HARNESS_LOCK_WAIT_S"
RENEW_S = 1.0  # not more often, however many calls a run makes


@dataclass(frozen=True)
class Terms:
    """A lease lasts `lease_s` seconds and is renewed every `beat_s`."""

    lease_s: float = 60.0
    beat_s: float = 10.0

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read HARNESS_LEASE_S; a short lease detects a hanging holder earlier."""
        given = environment.get("HARNESS_LEASE_S") or "60"
        if not re.fullmatch(r"\d{1,3}(\.\d+)?", given) or not 1 <= float(given) <= tickets.LONGEST_LEASE_S:
            raise RequestError(f"HARNESS_LEASE_S={given!r} is not a valid lease", "seconds, 1 to 600")
        return cls(float(given), float(given) / 6)


def longest_wait_s(environment: Mapping[str, str]) -> float:
    """Return the longest time to wait for a board, from HARNESS_LOCK_WAIT_S; infinite if it is not set."""
    given = environment.get(LOCK_WAIT) or "inf"
    if not re.fullmatch(r"\d{1,6}(\.\d+)?|inf", given):
        raise RequestError(f"{LOCK_WAIT}={given!r} is not a valid time to wait", "seconds")
    return float(given)


@dataclass(frozen=True)
class Queue:
    """The queue for one board: `key` names it in the folder, `board` in messages."""

    folder: SharedFolder
    key: str
    board: str

    def tickets(self) -> list[Ticket]:
        """Return all readable tickets, live or not."""
        return tickets.read_all(self.folder, self.key)

    def revoke(self, ticket: Ticket, why: str) -> None:
        """Revoke a ticket: at once if it is manual, else when its process detects it or its lease expires."""
        self.folder.replace(tickets.revocation(self.key, ticket.token), f"{why}\n")

    def remove(self, ticket: Ticket) -> None:
        """Remove a ticket of this user."""
        self.folder.remove(tickets.file_name(self.key, ticket.number))

    def sweep(self) -> None:
        """Remove the files of this user's ended processes."""
        now, found = Now.read(), self.tickets()
        for ticket in found:
            if ticket.uid == os.getuid() and not ticket.lives(now) and not ticket.hangs(now):
                self.folder.sweep(tickets.file_name(self.key, ticket.number))
        prefix, tokens = tickets.revocation(self.key, ""), {ticket.token for ticket in found}
        for name in self.folder.names():
            if name.startswith(prefix) and name.removeprefix(prefix) not in tokens:
                self.folder.sweep(name)


@dataclass
class QueuedTicket:
    """A ticket of this process; `descriptor` holds its file locked, -1 once it is given back."""

    queue: Queue
    terms: Terms
    ticket: Ticket
    descriptor: int

    @classmethod
    def drawn(cls, queue: Queue, purpose: str, terms: Terms, rank: int | None = None) -> Self:
        """Draw a ticket at the end of the queue, or after this user's ticket of `rank` or by hand.

        BoardError if none can be had.
        """
        for _ in range(DRAWS):
            queued = cls._draw(queue, purpose, terms, rank)
            if queued is None:
                continue
            with ExitStack() as stack:
                stack.callback(queued.release)
                if queued.is_valid:
                    stack.pop_all()
                    return queued
        raise BoardError(f"cannot get into the queue for board {queue.board}", f"look at {queue.folder.path}")

    @classmethod
    def _draw(cls, queue: Queue, purpose: str, terms: Terms, rank: int | None) -> Self | None:
        now, found = Now.read(), queue.tickets()
        number = 1 + max((each.number for each in tickets.present(found, now)), default=0)
        while queue.folder.owner(tickets.file_name(queue.key, number)) is not None:  # a dead one's
            number += 1
        if rank is None:
            own = [each.rank for each in tickets.living(found, now) if each.is_mine and each.by_hand_s is not None]
            rank = own[0] if own else number
        ticket = Ticket.new(number, rank, Owner.me(purpose), terms.lease_s, now)
        descriptor = queue.folder.create(tickets.file_name(queue.key, number), tickets.text(ticket))
        return cls(queue, terms, ticket, descriptor) if descriptor is not None else None

    @property
    def is_valid(self) -> bool:
        """Return whether no higher number was drawn meanwhile, and the ticket that it follows is still live."""
        own, now, found = self.ticket, Now.read(), self.queue.tickets()
        last = all(each.number <= own.number for each in tickets.present(found, now))
        family = [each for each in tickets.living(found, now) if each.is_mine and each.rank == own.rank]
        return last and (own.rank == own.number or any(each.number < own.number for each in family))

    def draw_again(self) -> None:
        """Draw a new ticket at the end of the queue."""
        self.release()
        again = self.drawn(self.queue, self.ticket.owner.purpose, self.terms)
        self.ticket, self.descriptor = again.ticket, again.descriptor

    def renew(self) -> None:
        """Renew the lease; BoardError if it cannot be written."""
        now = Now.read()
        self.ticket = replace(self.ticket, renewed_s=now.awake_s)
        self.queue.folder.rewrite(self.descriptor, tickets.header(now.awake_s, self.ticket.has_it_s))

    def take(self) -> None:
        """Record the time since which this process has the board."""
        self.ticket = replace(self.ticket, has_it_s=time.time())
        self.renew()

    def lost(self) -> str:
        """Return the reason why the ticket is no longer valid; empty if it is valid."""
        revoked = tickets.read_revocation(self.queue.folder, self.queue.key, self.ticket.token)
        if revoked:
            return revoked
        gone = not os.fstat(self.descriptor).st_nlink
        return f"somebody removed its ticket from {self.queue.folder.path}" if gone else ""

    def check(self) -> None:
        """Renew the lease if that is due; BoardLost if the board was taken away."""
        try:
            if Now.read().awake_s - self.ticket.renewed_s >= min(self.terms.beat_s, RENEW_S):
                self.renew()
            why = self.lost()
        except BoardError as error:
            why = f"its lease cannot be renewed: {error.message}"
        if why:
            raise BoardLost(
                f"board {self.queue.board} was taken away: {why}", "what was finished is kept; start the command again"
            )

    def pass_dead(self, queued: list[Ticket], now: Now) -> list[Ticket]:
        """Revoke the dead tickets before this one, which cannot come back; return those that hang."""
        earlier = [ticket for ticket in queued if ticket.order < self.ticket.order and not ticket.revoked]
        hanging = [ticket for ticket in earlier if ticket.hangs(now)]
        for ticket in hanging:
            lease = f"the lease of {ticket.owner} had run out, not renewed for {now.awake_s - ticket.renewed_s:.0f} s"
            self.queue.revoke(ticket, f"{self.ticket.owner} took it over: {lease}")
        for ticket in earlier:
            if ticket.by_hand_s is not None and not ticket.lives(now):
                self.queue.revoke(ticket, f"its time has ended; {self.ticket.owner} has it")
        return hanging

    def release(self) -> None:
        """Leave the queue; a second call has no effect."""
        if self.descriptor >= 0:
            if os.fstat(self.descriptor).st_nlink:
                self.queue.remove(self.ticket)
            os.close(self.descriptor)
            self.descriptor = -1

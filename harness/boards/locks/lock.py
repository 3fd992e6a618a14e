"""The lock of a board among all users of this machine: a queue of tickets (ticket.py, queue.py), with a lease.

A process locks a board; a user reserves it without one, releases it, or takes it from another user.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from harness.boards.locks import ticket as tickets
from harness.boards.locks.lease_guard import BoardBusy, Held
from harness.boards.locks.queue import Queue, QueuedTicket, Terms
from harness.boards.locks.ticket import Now, Owner, Ticket
from harness.boards.session import Deadline
from harness.core.errors import BoardError
from harness.core.text import ordinal

POLL_S = 0.2
TERMS = Terms()

Notify = Callable[[str], None]


@contextmanager
def locked(queue: Queue, purpose: str, wait_s: float, notify: Notify, terms: Terms = TERMS) -> Iterator[Held]:
    """Lock the board during the block.

    While others have it, `notify` receives the holder, the purpose and the position in the queue, after every change.
    BoardBusy if it is not free after `wait_s` seconds; BoardLost, instead of any other exception of the block, if it
    was taken away meanwhile.
    """
    queue.sweep()
    queued = QueuedTicket.drawn(queue, purpose, terms)
    try:
        _await(queued, wait_s, notify)
        with _beating(queued) as held:
            yield held
    finally:
        queued.release()


def _await(queued: QueuedTicket, wait_s: float, notify: Notify) -> None:
    """Take the board when the ticket is the first; draw a new ticket if this process hung and was passed."""
    deadline, shown = Deadline.after(wait_s), ""
    while True:
        queued.renew()
        if queued.lost():
            queued.draw_again()
        now, found = Now.read(), queued.queue.tickets()
        ahead = tickets.blockers(queued.ticket, found, now)
        hanging = [] if ahead else queued.pass_dead(found, now)
        if not ahead and not hanging:
            queued.take()
            if not queued.lost():  # it may have been passed since it looked
                return
        for each in hanging:
            notify(f"{each.describe(queued.queue.board)}, but hangs: taking over; its program may still run there")
        if ahead:
            shown = _tell(queued, ahead[0], found, now, deadline, shown, notify)
            time.sleep(min(POLL_S, deadline.remaining_s))


def _tell(
    queued: QueuedTicket, first: Ticket, found: list[Ticket], now: Now, deadline: Deadline, shown: str, notify: Notify
) -> str:
    """Report the holder and the position in the queue after a change; BoardBusy after the deadline."""
    in_use = first.describe(queued.queue.board)
    if deadline.passed:
        raise BoardBusy(in_use, deadline.timeout_s, "try again later, or end that job")
    order = [ticket.number for ticket in tickets.waiting(found, now)]
    if queued.ticket.number in order:
        in_use += f"; you are {ordinal(order.index(queued.ticket.number) + 1)} of {len(order)}"
    if in_use == shown or not first.has_it_s:  # the next user takes it before the next look
        return shown
    notify(f"{in_use}, waiting")
    return in_use


@contextmanager
def _beating(queued: QueuedTicket) -> Iterator[Held]:
    """Renew the lease periodically; when it is lost, end all sessions with the board, including new ones."""
    held, ended = Held(queued.check, queued.ticket.rank), threading.Event()

    def beat() -> None:
        while not ended.wait(queued.terms.beat_s):
            held.is_ours()

    thread = threading.Thread(target=beat, name=f"lease of {queued.queue.board}", daemon=True)
    thread.start()
    try:
        with held.kept():
            yield held
    finally:
        ended.set()
        thread.join()


def reserve(queue: Queue, purpose: str, for_s: float, wait_s: float, notify: Notify) -> Ticket:
    """Lock the board for this user for `for_s` seconds, without a process; return the new ticket.

    It replaces an earlier manual ticket of the user.  BoardError as for `locked`.
    """
    with locked(queue, purpose, wait_s, notify) as held:
        earlier = [other for other in queue.tickets() if other.is_mine and other.by_hand_s is not None]
        queued = QueuedTicket.drawn(queue, purpose, TERMS, held.rank)
        ticket = _without_process(queued.ticket, for_s)
        queue.folder.replace(tickets.file_name(queue.key, ticket.number), tickets.text(ticket))
        os.close(queued.descriptor)
        for other in earlier:
            queue.remove(other)
    return ticket


def _without_process(ticket: Ticket, for_s: float) -> Ticket:
    now, owner = Now.read(), replace(ticket.owner, pid=0)
    return replace(ticket, owner=owner, by_hand_s=for_s, renewed_s=now.boot_s, has_it_s=now.wall_s, locked=False)


def release(queue: Queue, *, force: bool) -> list[Ticket]:
    """Remove this user's manual ticket; with `force`, take the board from its holder.  Return the ended tickets.

    A process detects this within a heartbeat.  BoardError if another user has the board and `force` is not set.
    """
    having = tickets.having(queue.tickets(), Now.read())
    own = [ticket for ticket in having if ticket.is_mine and ticket.by_hand_s is not None]
    others = [ticket for ticket in having if ticket not in own]
    if others and not own and not force:
        raise BoardError(
            others[0].describe(queue.board), "ask its owner, or take it away, which stops what runs: --force"
        )
    revoked = others if force else []
    for ticket in own:
        queue.remove(ticket)
    for ticket in revoked:
        queue.revoke(ticket, f"{Owner.me('harness boards unlock --force')} took it away")
    return [*own, *revoked]

"""Locks without a process: a user reserves a board, releases it, or takes it from another user."""

from __future__ import annotations

import os
from dataclasses import replace

from harness.boards.locks import ticket as tickets
from harness.boards.locks.lock import TERMS, Notify, locked
from harness.boards.locks.queue import Queue, QueuedTicket
from harness.boards.locks.ticket import Now, Owner, Ticket
from harness.core.errors import BoardError


def reserve(queue: Queue, purpose: str, for_s: float, wait_s: float, notify: Notify) -> Ticket:
    """Lock the board for this user for `for_s` seconds, without a process; return the new ticket.

    It replaces an earlier manual ticket of the user.  BoardError as for `locked`.
    """
    with locked(queue, purpose, wait_s, notify) as held:
        before = [each for each in queue.tickets() if each.is_mine and each.by_hand_s is not None]
        queued = QueuedTicket.drawn(queue, purpose, TERMS, held.rank)
        ticket = _without_process(queued.ticket, for_s)
        queue.folder.replace(tickets.file_name(queue.key, ticket.number), tickets.text(ticket))
        os.close(queued.descriptor)
        for each in before:
            queue.remove(each)
    return ticket


def _without_process(ticket: Ticket, for_s: float) -> Ticket:
    now, owner = Now.read(), replace(ticket.owner, pid=0)
    return replace(ticket, owner=owner, by_hand_s=for_s, renewed_s=now.boot_s, has_it_s=now.wall_s, locked=False)


def release(queue: Queue, *, force: bool) -> list[Ticket]:
    """Remove this user's manual ticket; with `force`, take the board from its holder.  Return the ended tickets.

    A process detects this within a heartbeat.  BoardError if another user has the board and `force` is not set.
    """
    now, found = Now.read(), queue.tickets()
    having = tickets.having(found, now)
    own = [each for each in having if each.is_mine and each.by_hand_s is not None]
    others = [each for each in having if each not in own]
    if others and not own and not force:
        raise BoardError(
            others[0].describe(queue.board), "ask its owner, or take it away, which stops what runs: --force"
        )
    for each in own:
        queue.remove(each)
    for each in others if force else ():
        queue.revoke(each, f"{Owner.me('harness boards unlock --force')} took it away")
    return [*own, *(others if force else ())]

"""Locks of boards: the queue of this machine and, if the profile names one, the board's labgrid place."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.boards.connect import Connection, reach
from harness.boards.locks import labgrid, lock, quarantine
from harness.boards.locks import ticket as tickets
from harness.boards.locks.folder import opened
from harness.boards.locks.lease_guard import Held, right_to
from harness.boards.locks.lock import Notify
from harness.boards.locks.quarantine import Quarantine
from harness.boards.locks.queue import Queue, Terms, longest_wait_s
from harness.boards.locks.ticket import Now
from harness.boards.profile import Profile
from harness.boards.session import Board, Deadline
from harness.core.errors import ConnectionFailed

if TYPE_CHECKING:
    from harness.boards.ssh_address import Address

LONGEST_KEY = 200  # of the 255 bytes that a file's name may have


@contextmanager
def session(
    profile: Profile, folder: Path, cache: Path, purpose: str, wait_s: float, notify: Notify, *, counting: bool = False
) -> Iterator[Connection]:
    """Lock the board of `profile` (see `hold`) and open a session (see `reach`) that ends when the lock is lost."""
    with (
        hold(profile, folder, purpose, wait_s, notify) as held,
        reach(profile, cache, notify, counting=counting) as connection,
    ):
        yield replace(connection, board=held.guard(connection.board))


@contextmanager
def again(former: Board, profile: Profile, cache: Path, notify: Notify) -> Iterator[Connection]:
    """Replace the ended session `former` by a new one under the same lock; BoardLost if the lock has ended."""
    held = right_to(former)
    if held:
        held.check()
    with reach(profile, cache, notify) as connection:
        yield replace(connection, board=held.guard(connection.board)) if held else connection


@contextmanager
def hold(profile: Profile, folder: Path, purpose: str, wait_s: float, notify: Notify) -> Iterator[Held]:
    """Lock the board of `profile` during the block; `folder` contains its locks.

    `notify` receives the holder, the place in the queue, and a quarantine, which does not prevent use.
    HARNESS_LOCK_WAIT_S limits the wait as well.
    BoardBusy if the board is not free after `wait_s` seconds; BoardLost, instead of any other exception of the block,
    if the board was taken away meanwhile.
    """
    wait_s = min(wait_s, longest_wait_s(os.environ))
    with queue_of(profile, folder) as queue:
        ill = quarantine.find(queue)
        if ill:
            notify(f"warning: board {profile.name} is {ill}")
        deadline, terms = Deadline.after(wait_s), Terms.read(os.environ)
        while True:
            with ExitStack() as stack:
                held = stack.enter_context(lock.locked(queue, purpose, wait_s, notify, terms))
                try:
                    if profile.labgrid:
                        stack.enter_context(labgrid.acquired(profile.labgrid, queue, held, terms, deadline, notify))
                except labgrid.GivesWay:
                    wait_s = deadline.remaining_s
                    continue
                yield held
                return


@contextmanager
def queue_of(profile: Profile, folder: Path) -> Iterator[Queue]:
    """Provide the queue of this machine for a board; BoardError if `folder` cannot be used."""
    shared = not profile.emulated or profile.labgrid is not None
    with opened(folder, shared=shared) as files:
        yield Queue(files, key_of(profile), profile.name)


def in_use(profile: Profile, folder: Path) -> str:
    """Return the holder of the board if this user's commands would wait for it on this machine; else empty."""
    with queue_of(profile, folder) as queue:
        now = Now.read()
        having = tickets.having(queue.tickets(), now)
        others = [each for each in having if each.by_hand_s is None or not each.is_mine]
        return others[0].describe(queue.board) if others else ""


def quarantined(profile: Profile, folder: Path) -> Quarantine | None:
    """Return the quarantine of the board; None if it is in use.  BoardError if `folder` cannot be used."""
    with queue_of(profile, folder) as queue:
        return quarantine.find(queue)


def key_of(profile: Profile) -> str:
    """Return the key of the board for all users of this machine: its place, port or address, not its profile's name.

    The address is resolved with ~/.ssh/config; ConnectionFailed if that file cannot be used.
    This machine is one board under all its names and uses.
    """
    if profile.labgrid:
        return _short(f"place-{profile.labgrid.place}")
    if profile.local:
        return "this-machine"
    if profile.bare_metal is not None and profile.bare_metal.port is not None:
        port = profile.bare_metal.port
        place = port if "://" in port else os.path.realpath(port)  # udev gives a port several names
        return _short("port-" + re.sub(r"[^A-Za-z0-9.]+", "-", place))
    if profile.address is None:
        return _short(profile.name)
    from harness.boards.ssh_address import resolve

    return _plain(resolve(profile.address))


def key_or_name(profile: Profile) -> str:
    """Return the key of a board; its name if ~/.ssh/config cannot be used, which its own commands will report."""
    try:
        return key_of(profile)
    except ConnectionFailed:
        return profile.name


def _plain(address: Address) -> str:
    """Return a key that is the same for each name and user of the host; a ProxyCommand may differ between users."""
    via = f"-via-{_plain(address.jump)}" if address.jump else "-via-command" if address.proxy_command else ""
    return _short(re.sub(r"[^a-z0-9.-]", "_", f"{address.host.lower()}-{address.port}{via}"))


def _short(key: str) -> str:
    """Return `key` as part of a file name; a long key is cut and gets its hash."""
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[: LONGEST_KEY - 17]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

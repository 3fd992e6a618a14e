"""A board that is a place of a labgrid coordinator, for a laboratory of several hosts.

Its client is called as a command.  The queue of this machine comes first (lock.py); its first process reserves the
place and acquires it.  labgrid has no leases: a place stays acquired until a user releases it
(labgrid-project/labgrid issue 1739).  Therefore a watcher, a small separate process, releases the place when the holder
ends, is killed, or sends no heartbeat; and it informs the holder when a user kicks it.  After a crash of the whole host
the place is still acquired in the name of this host and user, and the watcher's record states that a run had it: the
next run takes it over.  A place that the user acquired manually is used and stays acquired; processes that are earlier
in the queue of this machine give way to avoid a deadlock.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.boards.locks import ticket as tickets
from harness.boards.locks.lease_guard import BoardBusy, BoardLost, Held
from harness.boards.locks.lock import Notify
from harness.boards.locks.queue import Queue, Terms
from harness.boards.locks.ticket import Now, printable
from harness.boards.profile import Labgrid
from harness.boards.session import Deadline
from harness.core.errors import BoardError, ConnectionFailed, RequestError, ToolError
from harness.core.text import ordinal

CALL_S = 30.0
WAIT_S = 10.0  # between two looks at who has the place
RELEASE_S = 30.0
WATCHER = Path(__file__).with_name("heartbeat.py")


def labgrid_command(labgrid: Labgrid, *words: str) -> tuple[str, ...]:
    """Return a call of labgrid's client about the place."""
    at = ("-x", labgrid.coordinator) if labgrid.coordinator else ()
    return (str(Path(labgrid.client).expanduser()), *at, "-p", labgrid.place, *words)


@dataclass(frozen=True)
class Client:
    """labgrid's client for one place, in the name of this host and user."""

    labgrid: Labgrid

    @property
    def me(self) -> str:
        """Return the name of this user on this machine for the coordinator."""
        host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
        return f"{host}/{os.environ.get('LG_USERNAME') or getpass.getuser()}"

    def call(self, *words: str, timeout_s: float = CALL_S) -> subprocess.CompletedProcess[str]:
        """Call the client; ToolError if it is missing or hangs, ConnectionFailed without a coordinator."""
        command = labgrid_command(self.labgrid, *words)
        if shutil.which(command[0]) is None:
            raise ToolError(
                f"{command[0]} is not on this machine",
                "make labgrid installs it into build/labgrid/bin; labgrid.client in the board's profile may name it",
            )
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"{' '.join(command)} did not end within {timeout_s:g} s") from error
        if "Could not connect to coordinator" in done.stderr:
            raise ConnectionFailed(
                f"labgrid's coordinator {self.labgrid.coordinator or 'of LG_COORDINATOR'} does not answer",
                "check labgrid-coordinator, and labgrid.coordinator in the board's profile",
            )
        return done

    def holder(self) -> str | None:
        """Return the holder of the place as HOST/USER, None if it is free; RequestError if there is no such place."""
        done = self.call("show")
        match = re.search(r"^  acquired: (.+)$", done.stdout, re.MULTILINE)
        if match is None:
            raise RequestError(
                f"labgrid has no place {self.labgrid.place}: {_said(done)}",
                "labgrid-client places lists them; correct labgrid.place in the board's profile",
            )
        return None if match[1] == "None" else printable(match[1])

    def acquire(self) -> str:
        """Acquire the place; return the reason of a refusal, or nothing."""
        done = self.call("acquire")
        return _said(done) if done.returncode else ""

    def reserve(self) -> str:
        """Join labgrid's queue for the place; return the token of the reservation."""
        done = self.call("reserve", "--shell", f"name={self.labgrid.place}")
        match = re.search(r"LG_TOKEN=([A-Z0-9]+)", done.stdout)
        if match is None:
            raise BoardError(f"labgrid does not reserve place {self.labgrid.place}: {_said(done)}")
        return match[1]

    def wait(self, token: str, timeout_s: float) -> bool:
        """Wait for a reservation; return whether it is still valid."""
        try:
            done = self.call("wait", token, timeout_s=timeout_s)
        except ToolError:  # still waiting
            return True
        return done.returncode == 0 and done.stdout.rpartition("state: ")[2].split()[0] in {"allocated", "acquired"}

    def waiting(self) -> list[str]:
        """Return the tokens of all waiting reservations of the place, the next first."""
        entries = self.call("reservations").stdout.split("Reservation ")[1:]
        asked = f"name={self.labgrid.place}"
        mine = [entry for entry in entries if asked in entry.split() and "state: waiting" in entry]
        return [match[1] for match in (re.match(r"'([A-Z0-9]+)'", each) for each in mine) if match]


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return printable(done.stderr or done.stdout) or "it said nothing"


class GivesWay(Exception):
    """Another process on this machine, later in the queue, has acquired the place by hand."""


class Watch:
    """The watcher of an acquired place, as its holder sees it."""

    def __init__(self, place: str, link: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._place = place
        self._link = link
        self._process = process
        self._said = b""

    def send(self, line: str) -> None:
        """Send a line to the watcher; every line is a heartbeat.  BoardLost if the watcher has given up."""
        try:
            self._link.sendall(f"{line}\n".encode(), socket.MSG_DONTWAIT)
            self._listen()
        except BlockingIOError:  # it has nothing to say, or has enough to read
            return
        except OSError:
            with suppress(OSError):
                self._listen()
        why = printable(self._said.decode(errors="replace")) or "the process that watches over it was ended"
        raise BoardLost(f"labgrid's place {self._place} was taken away: {why}", "start the command again")

    def _listen(self) -> None:
        self._said += self._link.recv(4096, socket.MSG_DONTWAIT)

    def check(self) -> None:
        """Send a heartbeat; raise BoardLost if another user has the place."""
        self.send("alive")

    def end(self) -> None:
        """Release the place."""
        self._link.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(RELEASE_S)


@contextmanager
def acquired(
    labgrid: Labgrid, queue: Queue, held: Held, terms: Terms, deadline: Deadline, notify: Notify
) -> Iterator[None]:
    """Acquire the place during the block, as the first in this machine's queue; `held` is the lock of the board.

    BoardBusy if it is not free at the `deadline`, GivesWay if another process here must have the board first,
    RequestError for an unknown place, ToolError and ConnectionFailed if labgrid's client or its coordinator is
    missing.  If the place is lost, `held` is lost too.
    """
    client = Client(labgrid)
    with _record(queue, labgrid.place) as record:
        holder, left = client.holder(), os.pread(record, 1, 0) != b""
        if holder != client.me:
            os.pwrite(record, f"acquired by pid {os.getpid()} for {client.me}\n".encode(), 0)
        watch = _watched(client, terms, record)
    try:
        with held.also(watch.check):
            if holder == client.me and left:
                watch.send("acquiring")
                notify(
                    f"place {labgrid.place} of labgrid was left acquired by a run of yours that is gone: it is taken"
                )
            else:
                _acquire(client, watch, queue, deadline, notify, holder)
            watch.send("acquired")
            yield
    finally:
        watch.end()


@contextmanager
def _record(queue: Queue, place: str) -> Iterator[int]:
    """Open this user's file for the place: locked while a watcher runs, empty when it has released the place."""
    descriptor = queue.folder.own(f"{queue.key}.acquired.{os.getuid()}")
    try:
        deadline = Deadline.after(RELEASE_S)
        while not _try(descriptor):
            if deadline.passed:
                raise BoardError(f"place {place} of labgrid is not released yet by your last run", "try again later")
            time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _watched(client: Client, terms: Terms, record: int) -> Watch:
    """Start the watcher; it inherits the locked record."""
    ours, theirs = socket.socketpair()
    asked: dict[str, Any] = {"command": labgrid_command(client.labgrid), "me": client.me, "place": client.labgrid.place}
    asked |= {"lease_s": terms.lease_s, "beat_s": terms.beat_s, "record": record}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", str(WATCHER), json.dumps(asked | {"link": theirs.fileno()})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # else who reads ours to its end would wait for the watcher
            pass_fds=(record, theirs.fileno()),
            start_new_session=True,
        )
    return Watch(client.labgrid.place, ours, process)


def _acquire(
    client: Client, watch: Watch, queue: Queue, deadline: Deadline, notify: Notify, holder: str | None
) -> None:
    """Acquire the place, waiting in labgrid's queue while another user, at first `holder`, has it.

    A place that the user has acquired manually, also during the wait, counts as acquired.
    """
    token, shown, place = "", "", client.labgrid.place
    while holder != client.me:
        watch.check()
        refused = "" if holder else _refused(client, watch)
        if not holder and not refused:
            return
        holder = holder or client.holder()  # it may have been quicker, or the place may be reserved
        if holder and _waits(holder, queue):
            raise GivesWay
        in_use = f"place {place} of labgrid is in use by {holder}" if holder else f"labgrid says: {refused}"
        if deadline.passed:
            raise _not_free(in_use, deadline, client.labgrid, holder)
        if not token:
            token = client.reserve()
            watch.send(f"reservation {token}")
        shown = _tell(in_use, token, client.waiting(), shown, notify)
        if not client.wait(token, min(WAIT_S, deadline.remaining_s + 1)):
            token = ""
        holder = client.holder()
    notify(f"place {place} of labgrid is yours already, and stays so")


def _refused(client: Client, watch: Watch) -> str:
    """Acquire the place; return the reason of a refusal, or nothing.  A place acquired by hand is not released."""
    watch.send("acquiring")
    refused = client.acquire()
    if refused:
        watch.send("refused")
    return refused


def _waits(holder: str, queue: Queue) -> bool:
    """Return whether a process of the place's holder waits for this one on this machine."""
    now, found = Now.read(), queue.tickets()
    return any(holder == f"{each.owner.host}/{each.owner.user}" for each in tickets.waiting(found, now))


def _tell(in_use: str, token: str, waiting: Sequence[str], shown: str, notify: Notify) -> str:
    if token in waiting:
        in_use += f"; you are {ordinal(waiting.index(token) + 1)} of {len(waiting)}"
    if in_use != shown:
        notify(f"{in_use}, waiting")
    return in_use


def _not_free(in_use: str, deadline: Deadline, labgrid: Labgrid, holder: str | None) -> BoardBusy:
    kick = " ".join(labgrid_command(labgrid, "release", "--kick"))
    hint = f"ask {holder}; if nothing of theirs runs there any more: {kick}" if holder else "labgrid-client resources"
    return BoardBusy(in_use, deadline.timeout_s, hint)

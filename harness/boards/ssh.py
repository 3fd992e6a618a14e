"""A board reached over SSH.

Programs and files go through `exec` channels alone: a board needs a POSIX shell with the usual tools and /proc, and
no SFTP server.  Over loopback, `cat` and AES-GCM bring 100 MB for 0.3 s of processor time where SFTP with prefetch
takes 0.9 s, and ten files of a chunk in half the time; and a failure comes in the words of the board's own tools
("No space left on device" instead of SFTP's "Failure").
"""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

import paramiko

from harness.boards.session import (
    OVERDUE,
    PIECE_BYTES,
    Board,
    Completed,
    Deadline,
    Fetch,
    extend,
    overdue,
    replacing,
    wrong_size,
)
from harness.boards.ssh_address import Address
from harness.boards.ssh_connect import BROKEN_LINK, Limits, StrictConnection, connect
from harness.core.errors import BoardError, ConnectionFailed, ToolError

__all__ = ["Address", "Limits", "SshBoard"]

DEFAULT_LIMITS = Limits()
# A transfer of n bytes fails unless it ends within BASE_SILENCES * silence_s + n / SLOWEST_BYTES_PER_S seconds.  A link
# or a stopped program is detected, and distinguished, within two silences.
BASE_SILENCES = 3
SLOWEST_BYTES_PER_S = 50_000
KILL_S = 30.0  # to look into all processes of a slow board takes seconds
NO_STATUS = -1
STOPPED = "check dmesg on the board: a program may be stopped, or its disk may hang"
TOO_SLOW = "check the network and the load of the board: transfers below {rate:,} bytes/s are stopped"

# Kill all processes that have a mark in their environment and are not older than `began` (field 22 of /proc/PID/stat,
# the 20th after the name): to look into each takes a process.  Three times, for one may fork while it is looked for.
KILL_MARKED = r"""
    for pass in 1 2 3; do
        for process in /proc/[0-9]*; do
            read -r stat <"$process/stat" || continue
            set -- ${stat##*) }
            [ "${20}" -ge "$began" ] || continue
            case $(tr '\0' '\n' <"$process/environ") in
                *"HARNESS_GUARD=/$mark/"*) kill -9 "${process#/proc/}" ;;
            esac
        done
    done
"""

# Run "$@" for as long as standard input stays open.  When it ends, because a deadline has passed here or the link is
# cut, kill all processes that descend from the program: they inherit the mark in their environment, whatever
# sessions and groups they made.
GUARDED_RUN = rf"""
exec 3<&0 </dev/null
mark=$$
HARNESS_GUARD=/$mark/ "$@" 3<&- &
program=$!
{{
    read -r end <&3
    trap '' TERM
    read -r stat <"/proc/$$/stat"
    set -- ${{stat##*) }}
    began=${{20}}
{KILL_MARKED}
}} >/dev/null 2>&1 &
guard=$!
exec 3<&-
wait "$program"
status=$?
{{ kill "$guard"; wait "$guard"; }} 2>/dev/null
exit "$status"
"""

# Kill what is left of a transfer, which has the mark $1.
END_TRANSFER = f"""
mark=$1 began=0
exec >/dev/null 2>&1
{KILL_MARKED}
"""

# $1: the mark that follows each of the files $2...  A file longer or shorter than expected puts it out of place.
MARKED_FILES = r"""
mark=$1
export HARNESS_GUARD="/$mark/"
shift
for file; do cat -- "$file" && printf %s "$mark" || exit; done
"""

# $1: mark, $2: destination, $3: size in bytes, $4: mode.  On a link that is cut, standard input ends too early.
RECEIVE = r"""
export HARNESS_GUARD="/$1/"
part=$2.part
cat >"$part" && [ -n "$(find "$part" -size "${3}c")" ] && chmod "$4" "$part" && mv -f "$part" "$2" && exit
rm -f "$part"
exit 1
"""


@dataclass
class _Transfer:
    """A transfer of `size` bytes: how many have moved, and when the last of them did."""

    what: str
    size: int
    deadline: Deadline
    done: int = 0
    moved_s: float = field(default_factory=time.monotonic)
    stuck: bool = False
    late: bool = False

    @property
    def given_up(self) -> bool:
        """Return whether this side has ended the session."""
        return self.stuck or self.late

    def move(self, count: int) -> None:
        """Note that `count` more bytes have moved."""
        self.done += count
        self.moved_s = time.monotonic()


class SshBoard(Board):
    """A session with a board over SSH; every wait is bounded by `Limits` or by the caller's deadline."""

    def __init__(self, connection: StrictConnection, limits: Limits) -> None:
        self.address = connection.address
        self._connection = connection
        self._transport: paramiko.Transport = connection.transport
        self._name = str(connection.address)
        self._limits = limits
        self._silent = False
        self._failure: ConnectionFailed | None = None

    @classmethod
    def connect(cls, address: Address, limits: Limits = DEFAULT_LIMITS) -> Self:
        """Open a session with the board at `address`; ConnectionFailed, or BoardError if it runs no commands."""
        board = cls(connect(address, limits), limits)
        try:
            board._check_shell()
        except BaseException:
            board.close()
            raise
        return board

    @property
    def host_key(self) -> str:
        """Return the SHA-256 fingerprint of the host key that the board has shown."""
        return self._transport.get_remote_server_key().fingerprint

    def close(self) -> None:
        """End the session, see `Board.close`; the guard on the board kills a running program."""
        self._connection.close()

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program, see `Board.run`."""
        deadline = Deadline.after(timeout_s)
        return self._finish(self._start(GUARDED_RUN, *argv), argv[0], deadline)

    def put(self, source: Path, destination: PurePosixPath) -> None:
        """Copy a file to the board, see `Board.put`."""
        status = source.stat()
        mode = "755" if status.st_mode & 0o100 else "644"
        mark = secrets.token_hex(16)
        transfer = self._transfer(f"writing {destination}", status.st_size)
        with self._closing(self._start(RECEIVE, mark, str(destination), str(status.st_size), mode)) as channel:
            self._send(channel, source, transfer, mark)
            completed = self._finish(channel, transfer.what, transfer.deadline, mark)
        if completed.status != 0:
            raise self._cannot("write", destination, completed)

    def get_many(self, files: Sequence[Fetch]) -> None:
        """Copy files from the board, see `Board.get_many`, all through one channel."""
        mark = secrets.token_hex(16)
        more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
        what = f"reading {files[0].source}{more}" if files else ""
        transfer = self._transfer(what, sum(fetch.size for fetch in files))
        with self._closing(self._start(MARKED_FILES, mark, *(str(fetch.source) for fetch in files))) as channel:
            for fetch in files:
                self._receive(channel, fetch, mark, transfer)

    def _transfer(self, what: str, size: int) -> _Transfer:
        timeout_s = BASE_SILENCES * self._limits.silence_s + size / SLOWEST_BYTES_PER_S
        return _Transfer(what, size, Deadline.after(timeout_s))

    def _check_shell(self) -> None:
        completed = self._finish(self._start("printf ready"), "a shell", Deadline.after(self._limits.connect_s))
        if completed.stdout != b"ready":
            said = (completed.stdout + completed.stderr).decode(errors="replace").strip()
            raise BoardError(
                f"{self._name} accepts the login but does not run commands unchanged; its output is {said!r}",
                "the user's login shell on the board must be a shell, and its startup files must print nothing",
            )

    def _start(self, script: str, *arguments: str) -> paramiko.Channel:
        """Start a shell script with arguments, through the user's login shell on the board."""
        if self._failure:
            raise self._failure
        command = "exec " + shlex.join(["sh", "-c", script, "sh", *arguments])
        try:
            with self._watchdog():
                channel = self._transport.open_session()
                channel.exec_command(command)
        except BROKEN_LINK as error:
            raise self._lost(error) from error
        return channel

    @contextmanager
    def _closing(self, channel: paramiko.Channel) -> Iterator[paramiko.Channel]:
        try:
            yield channel
        finally:
            self._close(channel)

    def _close(self, channel: paramiko.Channel) -> None:
        """Close a channel; ignore a cut link, which the next call will report."""
        with suppress(*BROKEN_LINK), self._watchdog():
            channel.close()

    @contextmanager
    def _watchdog(self) -> Iterator[None]:
        """Close the connection when the block, which waits without a time-out of its own, lasts for a silence."""
        timer = threading.Timer(self._limits.silence_s, self._bark)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _bark(self) -> None:
        self._silent = True
        self.close()

    @contextmanager
    def _moving(self, channel: paramiko.Channel, transfer: _Transfer, mark: str) -> Iterator[None]:
        """Limit the time of the block, which reports to `transfer` all bytes that move.

        BoardError when the deadline has passed, or when nothing has moved for a silence and the board answers; then
        the programs that have the mark are killed.  If the board does not answer either, the session ends.
        paramiko's own time-outs follow the time of day, which may be set meanwhile.
        """
        over = threading.Event()

        def watch() -> None:
            while (end_s := min(transfer.moved_s + self._limits.silence_s, transfer.deadline.at_s)) > time.monotonic():
                if over.wait(end_s - time.monotonic()):
                    return
            with suppress(ConnectionFailed):
                transfer.late = transfer.deadline.passed
                if not transfer.late:
                    self._check_alive()
                    transfer.stuck = True
                self._close(channel)

        transfer.move(0)
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            over.set()
            if transfer.given_up:
                self._end_transfer(mark)
                raise self._too_slow(transfer) if transfer.late else self._stuck(transfer)

    def _lost(self, error: Exception) -> ConnectionFailed:
        """End the session; return the failure that this and each later call raises."""
        if self._silent:
            reason = f"no sign of life for {self._limits.silence_s:g} s"
        else:
            reason = error.text if isinstance(error, paramiko.ChannelException) else "the connection was cut"
        self._failure = ConnectionFailed(
            f"lost the board {self._name}: {reason}", "check its power and network, then start the command again"
        )
        self.close()
        return self._failure

    def _check_alive(self) -> None:
        """Wait for an answer of the board, even a refusal; raise ConnectionFailed without one."""
        try:
            with self._watchdog():
                self._transport.open_session().close()
        except paramiko.ChannelException:
            pass
        except BROKEN_LINK as error:
            raise self._lost(error) from error

    def _finish(self, channel: paramiko.Channel, what: str, deadline: Deadline, mark: str = "") -> Completed:
        """Read the whole output of a program; raise BoardError if it has not ended by the deadline.

        It is then killed because its input ends; a program that ignores the end of its input has a `mark`.
        """
        with ThreadPoolExecutor(max_workers=3) as pool, self._closing(channel):
            channel.settimeout(None)
            status = pool.submit(channel.recv_exit_status)
            outputs = bytearray(), bytearray()
            stdout = pool.submit(_read_all, channel.recv, outputs[0])
            stderr = pool.submit(_read_all, channel.recv_stderr, outputs[1])
            if not self._ended((status, stdout, stderr), deadline):
                written = sum(map(len, outputs))
                self._end_input(channel)
                if mark:
                    self._end_transfer(mark)
                killed = self._ended((status, stdout, stderr), Deadline.after(self._limits.silence_s))
                hint = (STOPPED if mark else OVERDUE) if killed else "restart the board: it may still be busy with it"
                end = "was killed" if killed else "could not be killed"
                raise BoardError(overdue(what, self._name, deadline.timeout_s, written, end), hint)
        try:
            completed = Completed(status.result(), stdout.result(), stderr.result())
        except BROKEN_LINK as error:
            raise self._lost(error) from error
        if completed.status == NO_STATUS:
            self._check_alive()
            raise BoardError(
                f"{what} on {self._name} ended without an exit status",
                "check whether its shell was killed on the board",
            )
        return completed

    def _ended(self, parts: Sequence[Future[Any]], deadline: Deadline) -> bool:
        """Return whether a program's streams end by the deadline; ConnectionFailed if the board is silent meanwhile."""
        while True:
            done, pending = wait(parts, min(deadline.remaining_s, self._limits.silence_s), FIRST_EXCEPTION)
            if not pending or any(part.exception() for part in done):
                return True
            self._check_alive()
            if deadline.passed:
                return False

    def _end_transfer(self, mark: str) -> None:
        """Stop a transfer; a failure here must not hide the first cause."""
        with suppress(BoardError, ConnectionFailed):
            self._finish(self._start(END_TRANSFER, mark), "sh", Deadline.after(KILL_S))

    def _stuck(self, transfer: _Transfer) -> BoardError:
        return BoardError(
            f"{transfer.what} on {self._name} has come no further for {self._limits.silence_s:g} s, "
            f"though the board answers: {transfer.done:,} of {transfer.size:,} bytes came through",
            STOPPED,
        )

    def _too_slow(self, transfer: _Transfer) -> BoardError:
        return BoardError(
            f"{transfer.what} on {self._name}: {transfer.done:,} of {transfer.size:,} bytes came through within "
            f"{round(transfer.deadline.timeout_s, 1):g} s",
            TOO_SLOW.format(rate=SLOWEST_BYTES_PER_S),
        )

    def _send(self, channel: paramiko.Channel, source: Path, transfer: _Transfer, mark: str) -> None:
        """Send a file as a program's standard input; its exit status shows an early end of input or link."""
        with source.open("rb") as file, self._moving(channel, transfer, mark):
            while not channel.closed and (piece := memoryview(file.read(PIECE_BYTES))):
                with suppress(*BROKEN_LINK):
                    while piece and (sent := channel.send(piece)):  # type: ignore[arg-type]  # spares copies
                        piece = piece[sent:]
                        transfer.move(sent)
        self._end_input(channel)

    def _end_input(self, channel: paramiko.Channel) -> None:
        with suppress(*BROKEN_LINK), self._watchdog():
            channel.shutdown_write()

    def _receive(self, channel: paramiko.Channel, fetch: Fetch, mark: str, transfer: _Transfer) -> None:
        try:
            with replacing(fetch.destination) as file, self._moving(channel, transfer, mark):
                for piece in self._pieces(channel, fetch.size):
                    transfer.move(len(piece))
                    file.write(piece)
                following = b"".join(self._pieces(channel, len(mark)))
                if following != mark.encode() and not transfer.given_up:
                    file.seek(0)
                    raise self._not_as_asked(channel, fetch, file.read() + following, mark)
        except OSError as error:
            raise ToolError(
                f"this machine: cannot write {fetch.destination}: {error.strerror}",
                "check free space and rights of the runs folder",
            ) from error

    def _pieces(self, channel: paramiko.Channel, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes of a program's output, fewer only when it ends."""
        while size:
            try:
                piece = channel.recv(min(size, PIECE_BYTES))
            except BROKEN_LINK as error:
                raise self._lost(error) from error
            if not piece:
                return
            size -= len(piece)
            yield piece

    def _not_as_asked(self, channel: paramiko.Channel, fetch: Fetch, received: bytes, mark: str) -> BoardError:
        """Return the error for what came instead of a file's bytes and the mark after them."""
        arrived = received.find(mark.encode())
        if arrived < 0 and len(received) < fetch.size + len(mark):
            completed = self._finish(channel, f"reading {fetch.source}", Deadline.after(self._limits.silence_s))
            if completed.status != 0:
                return self._cannot("read", fetch.source, completed)
            arrived = len(received)
        return wrong_size(self._name, fetch, arrived if arrived >= 0 else fetch.size + 1)

    def _cannot(self, verb: str, path: PurePosixPath, completed: Completed) -> BoardError:
        reason = completed.stderr.decode(errors="replace").strip() or f"exit status {completed.status}"
        full, there = "No space left" in reason, shlex.quote(str(path.parent))
        return BoardError(
            f"cannot {verb} {path} on {self._name}: {reason}",
            f"the board's disk is full: df -h {there} there shows it" if full else f"see there: ls -ld {there}; dmesg",
        )


def _read_all(receive: Callable[[int], bytes], output: bytearray) -> bytes:
    """Read a stream to its end into `output`; raise BoardError if it is too long."""
    while piece := receive(PIECE_BYTES):
        extend(output, piece)
    return bytes(output)

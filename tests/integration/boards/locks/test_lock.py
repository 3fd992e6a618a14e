"""The lock of a board, held and awaited by real processes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.boards.locks import lock
from harness.boards.locks import ticket as tickets
from harness.boards.locks.lease_guard import BoardBusy, BoardLost, Held
from harness.boards.locks.queue import RENEW_S, QueuedTicket, Terms
from harness.boards.locks.ticket import Now, Ticket, user_name
from harness.boards.session import Board, Completed
from harness.core.errors import BoardError, ConnectionFailed, RequestError
from tests.support.locks.holder import LONG, SHORT, Holder, board, held_elsewhere, queue

ME = f"{user_name(os.getuid())}@{socket.gethostname()}"


def acquire(folder: Path, wait_s: float = 0, name: str = "xavier", terms: Terms = LONG) -> list[str]:
    """Take the lock and give it back; returns what was told meanwhile."""
    told: list[str] = []
    with queue(folder, name) as board, lock.locked(board, "measure", wait_s, told.append, terms):
        return told


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_free_board_is_taken_without_a_word_and_nothing_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    assert acquire(folder) == []
    assert names(folder) == []


def test_a_board_in_use_is_refused_and_its_holder_named(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as holder:
        at_s = time.time()
        began = time.monotonic()
        with pytest.raises(BoardError) as caught:
            acquire(tmp_path, wait_s=0.5)
        assert time.monotonic() - began >= 0.5
    expected = f"board xavier is in use by {ME} (pid {holder.pid}, run acas_coc) since "
    assert caught.value.message.startswith(expected)
    since, _, rest = caught.value.message.removeprefix(expected).partition(";")
    minutes = [tickets.clock(at_s - 60 * minute) for minute in range(5)]  # it was held in this one, or a little before
    assert (since in minutes, rest) == (True, " not free after 0.5 s")


def test_the_queue_is_in_the_order_of_arrival_and_every_change_is_told(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as first:
        second = Holder(tmp_path, "measure", 30)
        assert second.line().endswith("; you are 1st of 1, waiting")
        third = Holder(tmp_path, "prove", 30)
        told = third.line()
        assert f"(pid {first.pid}, run acas_coc)" in told
        assert told.endswith("; you are 2nd of 2, waiting")
        assert second.line().endswith("; you are 1st of 2, waiting")
        first.end()
        assert second.line() == "held"
        told = third.line()
        assert f"(pid {second.pid}, measure)" in told
        assert told.endswith("; you are 1st of 1, waiting")
        second.end()
        assert third.line() == "held"
        third.end()
    assert names(tmp_path) == []


def test_who_stops_waiting_leaves_the_queue(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path):
        waiter = Holder(tmp_path, "measure", 30)
        assert "1st of 1" in waiter.line()
        waiter.kill()
        with pytest.raises(BoardError, match="not free"):
            acquire(tmp_path)
        last = Holder(tmp_path, "prove", 30)
        assert "1st of 1" in last.line()
        last.kill()


def test_a_lock_dies_with_its_holder_at_once(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as holder:
        holder.kill()
        assert acquire(tmp_path) == []
    assert names(tmp_path) == []  # and what it left is removed


def test_a_stopped_holder_loses_its_lease_and_ends_when_it_comes_back(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, SHORT) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        told: list[str] = []
        with queue(tmp_path) as xavier, lock.locked(xavier, "measure", 30, told.append, SHORT):
            os.kill(holder.pid, signal.SIGCONT)
            words = holder.end()
        *waiting, last = told  # a machine that is slow looks when the lease has run out already
        assert {words.partition("; ")[2] for words in waiting} <= {"you are 1st of 1, waiting"}
        assert last.endswith("but hangs: taking over; its program may still run there")
    assert "BoardLost: board xavier was taken away: " in words
    assert (
        f"{ME} (pid {os.getpid()}, measure) took it over: the lease of {ME} (pid {holder.pid}, run acas_coc)" in words
    )
    acquire(tmp_path)
    assert names(tmp_path) == []


def test_a_stopped_holder_is_passed_although_lower_numbers_are_free(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as first:
        second = Holder(tmp_path, "measure", 30, SHORT)
        assert "1st of 1" in second.line()
        first.end()
        assert second.line() == "held"
    os.kill(second.pid, signal.SIGSTOP)
    time.sleep(0.7)
    with board(tmp_path, "run", 30):
        os.kill(second.pid, signal.SIGCONT)
        assert "BoardLost" in second.end()


def test_who_is_passed_just_as_his_turn_comes_waits_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between his last look and his taking the board."""
    quicker: list[Holder] = []
    look = QueuedTicket.pass_dead

    def stopped(place: QueuedTicket, found: list[Ticket], now: Now) -> list[Ticket]:
        hanging = look(place, found, now)
        if not quicker:
            time.sleep(1.5 * SHORT.lease_s)
            quicker.append(Holder(tmp_path, "quicker", 30))
            assert quicker[0].line().endswith("but hangs: taking over; its program may still run there")
            assert quicker[0].line() == "held"
        return hanging

    monkeypatch.setattr(QueuedTicket, "pass_dead", stopped)
    with pytest.raises(BoardBusy, match="quicker"):
        acquire(tmp_path, wait_s=0.1, terms=SHORT)
    quicker[0].end()
    assert acquire(tmp_path) == []


def test_a_stopped_holder_that_nobody_has_passed_goes_on(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, SHORT) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        time.sleep(0.7)
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.goes_on()
        with pytest.raises(BoardError, match="is in use by"):
            acquire(tmp_path)


def test_a_stopped_waiter_is_passed_and_waits_again(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as first:
        waiter = Holder(tmp_path, "stopped", 30, SHORT)
        assert "1st of 1" in waiter.line()
        os.kill(waiter.pid, signal.SIGSTOP)
        time.sleep(0.7)
        first.end()
        with board(tmp_path, "measure", 0):
            os.kill(waiter.pid, signal.SIGCONT)
            told = waiter.line()
            assert f"(pid {os.getpid()}, measure)" in told
            assert "1st of 1" in told
        assert waiter.line() == "held"
        waiter.end()


def test_who_waits_keeps_his_place_longer_than_a_lease(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path):
        waiter = Holder(tmp_path, "measure", 30, Terms(lease_s=3.0, beat_s=0.05))
        assert "1st of 1" in waiter.line()
        time.sleep(3.3)
        last = Holder(tmp_path, "prove", 30)
        assert "2nd of 2" in last.line()
        last.kill()
        waiter.kill()


def test_a_holder_keeps_its_lease_while_it_works(tmp_path: Path) -> None:
    """Its heartbeat is a thread's: the block needs to do nothing."""
    with board(tmp_path, "run", 0, Terms(lease_s=3.0, beat_s=0.05)):
        time.sleep(3.3)
        with pytest.raises(BoardError, match="is in use by"):
            acquire(tmp_path)


def test_a_heartbeat_needs_no_space(tmp_path: Path) -> None:
    """It rewrites the first line in its place, so that a full disk ends no run."""
    with board(tmp_path, "run", 0, SHORT):
        [file] = tmp_path.iterdir()
        before, inode = file.read_text(), file.stat().st_ino
        while (after := file.read_text()) == before:
            time.sleep(0.01)
        assert (len(after), file.stat().st_ino, after[200:]) == (len(before), inode, before[200:])
        assert after > before  # the time of the heartbeat


def test_a_disk_that_takes_no_heartbeat_any_more_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def kept() -> None:
        with board(tmp_path, "run", 0) as held:
            monkeypatch.setattr(os, "pwrite", fails)
            time.sleep(RENEW_S)
            held.check()

    why = f"cannot keep the locks of boards in {tmp_path}: Read-only file system"
    with pytest.raises(BoardLost, match=f"taken away: its lease cannot be renewed: {why}"):
        kept()
    with pytest.raises(BoardError, match=f"^{why}"):
        acquire(tmp_path)
    assert names(tmp_path) == []


def test_boards_do_not_exclude_each_other(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path):
        assert acquire(tmp_path, name="kv260") == []
        assert acquire(tmp_path, name="xavier-2") == []


def test_one_process_does_not_get_a_board_twice(tmp_path: Path) -> None:
    with board(tmp_path, "run", 0), pytest.raises(BoardError, match=rf"in use by .* \(pid {os.getpid()}, run\)"):
        acquire(tmp_path)


def test_a_failure_in_the_block_releases(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="failed"), board(tmp_path, "run", 0):
        raise RuntimeError("failed")
    assert names(tmp_path) == []


def test_a_program_started_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    with board(tmp_path, "run", 0):
        child = subprocess.Popen(["sleep", "60"])
    try:
        assert acquire(tmp_path) == []
    finally:
        child.kill()
        child.wait()


def test_never_do_two_have_a_board(tmp_path: Path) -> None:
    """Threads that come and go as fast as they can, each with a ticket of its own."""
    having, most, times = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal having, most, times
        for _ in range(8):
            with board(tmp_path, "run", 60):
                with guard:
                    having, times = having + 1, times + 1
                    most = max(most, having)
                with guard:
                    having -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (most, times, names(tmp_path)) == (1, 32, [])


# By hand


def lock_by_hand(folder: Path, for_s: float = 60, purpose: str = "soldering") -> Ticket:
    with queue(folder) as xavier:
        return lock.reserve(xavier, purpose, for_s, 0, print)


def release_by_hand(folder: Path, *, force: bool = False) -> list[Ticket]:
    with queue(folder) as xavier:
        return lock.release(xavier, force=force)


def as_if_anothers(folder: Path, ticket: Ticket) -> None:
    """Give a ticket's file to another user."""
    if os.getuid():
        pytest.skip("only root can give a file away")
    os.chown(folder / tickets.file_name("xavier", ticket.number), 65534, 65534)


def test_a_board_locked_by_hand_is_still_its_users(tmp_path: Path) -> None:
    lock_by_hand(tmp_path)
    assert acquire(tmp_path) == []
    with board(tmp_path, "run", 0), pytest.raises(BoardError, match=r"in use by .*, run\)"):
        acquire(tmp_path)  # one at a time
    assert [ticket.by_hand_s for ticket in release_by_hand(tmp_path)] == [60]
    assert (release_by_hand(tmp_path), names(tmp_path)) == ([], [])


def test_a_board_locked_by_hand_by_another_is_refused_until_its_time(tmp_path: Path) -> None:
    as_if_anothers(tmp_path, lock_by_hand(tmp_path, for_s=0.8))
    with pytest.raises(BoardError) as caught:
        acquire(tmp_path)
    assert "board xavier is locked by nobody@" in caught.value.message
    assert " (soldering) since " in caught.value.message
    assert " until " in caught.value.message
    with pytest.raises(BoardError, match="is locked by nobody@") as caught:
        release_by_hand(tmp_path)
    assert "--force" in caught.value.hint
    assert [told for told in acquire(tmp_path, wait_s=30) if "waiting" not in told] == []


def test_a_lock_by_hand_is_taken_away_at_once_by_force(tmp_path: Path) -> None:
    as_if_anothers(tmp_path, lock_by_hand(tmp_path))
    assert [ticket.owner.user for ticket in release_by_hand(tmp_path, force=True)] == ["nobody"]
    assert acquire(tmp_path) == []


def test_a_run_under_a_lock_by_hand_keeps_the_board_when_that_ends(tmp_path: Path) -> None:
    lock_by_hand(tmp_path)
    with board(tmp_path, "run", 0):
        release_by_hand(tmp_path)
        with pytest.raises(BoardError, match=r", run\)"):
            acquire(tmp_path)


def test_a_run_under_a_lock_by_hand_is_before_those_who_wait_for_that() -> None:
    now = Now(1000.0, 900.0, "this", 1e9)
    kept = ticket(number=1, rank=1, uid=1, by_hand_s=60.0, renewed_s=1000.0)
    waits, run, next_run = (
        ticket(number=2, rank=2, uid=2),
        ticket(number=3, rank=1, uid=1),
        ticket(number=4, rank=1, uid=1),
    )
    found = [kept, run, next_run, waits]
    assert [tickets.blockers(each, found, now) for each in (kept, run)] == [[], []]
    assert (tickets.having(found, now), tickets.waiting(found, now)) == ([kept, run], [next_run, waits])
    assert tickets.blockers(waits, [run, waits], now) == [run]  # also once it is given back
    assert tickets.blockers(waits, [kept, waits], now) == [kept]


def test_a_lock_by_hand_is_before_those_who_came_behind_it(tmp_path: Path) -> None:
    taken: list[Ticket] = []
    with held_elsewhere(tmp_path) as first, queue(tmp_path) as xavier:
        person = threading.Thread(target=lambda: taken.append(lock.reserve(xavier, "soldering", 60, 30, print)))
        person.start()
        while len(xavier.tickets()) < 2:
            time.sleep(0.02)
        waiter = Holder(tmp_path, "measure", 30)
        assert "2nd of 2" in waiter.line()
        first.end()
        person.join()
        waiter.kill()
    assert [ticket.order < (3, 3) for ticket in taken] == [True]


def test_a_new_lock_by_hand_replaces_the_old(tmp_path: Path) -> None:
    lock_by_hand(tmp_path, purpose="soldering")
    lock_by_hand(tmp_path, for_s=120, purpose="debugging")
    with queue(tmp_path) as xavier:
        assert [(one.owner.purpose, one.by_hand_s) for one in xavier.tickets()] == [("debugging", 120)]


def test_a_run_ends_when_its_board_is_taken_by_force(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, Terms(beat_s=0.05)) as holder:
        with pytest.raises(BoardError, match="is in use by"):
            release_by_hand(tmp_path)
        assert [ticket.owner.pid for ticket in release_by_hand(tmp_path, force=True)] == [holder.pid]
        time.sleep(0.3)
        assert not holder.goes_on()
        assert f"{ME} (pid {os.getpid()}, harness boards unlock --force) took it away" in holder.end()


def test_whatever_ends_a_block_whose_board_is_lost_it_says_so(tmp_path: Path) -> None:
    def closed() -> None:
        release_by_hand(tmp_path, force=True)
        raise ConnectionFailed("the session was closed")

    def removed() -> None:
        for file in tmp_path.glob("*.ticket"):
            file.unlink()

    for ending, message in ((closed, "took it away"), (removed, "somebody removed its ticket")):
        with pytest.raises(BoardLost, match=message) as caught, board(tmp_path, "run", 0):
            ending()
        assert caught.value.part == "board"


class Session(Board):
    """A session that does what it is asked, and tells whether it is closed."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def run(self, argv: object, timeout_s: float) -> Completed:  # noqa: ARG002 - Board's signature
        return Completed(0, b"", b"")

    def close(self) -> None:
        self.closed.set()


def test_a_session_ends_with_the_right_to_it(tmp_path: Path) -> None:
    session, found = Session(), []

    def work(held: Held) -> None:
        guarded = held.guard(session)
        found.append(guarded.run(["true"], 1).status)
        release_by_hand(tmp_path, force=True)
        found.append(session.closed.wait(10))  # by the heartbeat, also while a call lasts
        with pytest.raises(BoardLost):
            guarded.run(["true"], 1)
        session.closed.clear()
        found.append(session.closed.wait(10))  # again and again, for what was about to start when it was lost

    with pytest.raises(BoardLost), board(tmp_path, "run", 0, SHORT) as held:
        work(held)
    assert found == [0, True, True]  # an assertion in the block would end as BoardLost


def test_a_call_that_outlasts_the_lock_gives_nothing() -> None:
    lost: list[str] = []

    def check() -> None:
        if lost:
            raise BoardLost("taken")

    class Slow(Session):
        def run(self, argv: object, timeout_s: float) -> Completed:  # noqa: ARG002 - Board's signature
            lost.append("while it ran")
            return Completed(0, b"result", b"")

    with pytest.raises(BoardLost, match="taken"):
        Held(check).guard(Slow()).run(["true"], 1)


# Clocks


def ticket(**changes: object) -> Ticket:
    now = Now(boot_s=1000.0, awake_s=900.0, boot="this", wall_s=1e9)
    owner = tickets.Owner("ana", "lab1", 4711, "harness run", "run acas_coc")
    return replace(Ticket.new(1, 1, owner, 60.0, now), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("boot_s", "awake_s", "boot", "wall_s", "lives"),
    [
        (1000, 900, "this", 1e9, True),
        (1059, 959, "this", 1e9, True),
        (1061, 961, "this", 1e9, False),
        (1000, 900, "this", 2e9, True),  # the clock on the wall jumped forward
        (1000, 900, "this", 0, True),  # and back
        (9999, 901, "this", 1e9, True),  # the machine was suspended, and the holder as well
        (9999, 9999, "another", 1e9, True),  # of another machine's process, by a disk that both have
        (990, 890, "this", 1e9, True),  # its heartbeat came while this process was stopped, its clock already read
    ],
)
def test_a_lease_is_on_a_clock_that_nobody_sets(
    boot_s: float, awake_s: float, boot: str, wall_s: float, lives: bool
) -> None:
    assert ticket().lives(Now(boot_s, awake_s, boot, wall_s)) is lives


@pytest.mark.parametrize(
    ("boot_s", "boot", "wall_s", "lives"),
    [
        (1000, "this", 1e9, True),
        (8199, "this", 2e9, True),  # whatever the clock on the wall says
        (8201, "this", 0, False),
        (990, "this", 1e9, True),  # it was taken while this process was stopped, its clock already read
        (50, "another", 1e9 + 7199, True),  # it outlives a reboot
        (50, "another", 1e9 + 7201, False),
        (7201, "another", 0, False),  # a clock that was set back keeps it no longer than its time once more
    ],
)
def test_a_lock_by_hand_lasts_its_time(boot_s: float, boot: str, wall_s: float, lives: bool) -> None:
    taken = ticket(by_hand_s=7200.0, renewed_s=1000.0, has_it_s=1e9, locked=False)
    assert taken.lives(Now(boot_s, boot_s, boot, wall_s)) is lives


def test_a_lease_that_another_writes_is_bounded() -> None:
    assert not ticket(lease_s=1e9).lives(Now(9999, 900 + 601, "this", 1e9))


def test_a_holder_of_another_day_is_shown_with_the_date() -> None:
    assert "since 1970-01-02 " in ticket(has_it_s=1.3 * 86400).describe("xavier")


@pytest.mark.parametrize("given", ["0.5", "601", "-1", "soon", "nan", "1e2"])
def test_a_lease_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(RequestError, match="is not a valid lease"):
        Terms.read({"HARNESS_LEASE_S": given})


def test_a_lease_can_be_chosen() -> None:
    assert (Terms.read({}), Terms.read({"HARNESS_LEASE_S": "6"})) == (Terms(60.0, 10.0), Terms(6.0, 1.0))


# Other users, who may be hostile


def written(folder: Path, name: str, **changes: object) -> Path:
    """A ticket as somebody may write it."""
    head = tickets.header(Now.read().awake_s, 0)
    document = json.loads(tickets.text(ticket(boot=Now.read().boot)).removeprefix(tickets.header(900, 0)))
    path = folder / name
    path.write_text(head + json.dumps(document | changes))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"rank": "first"},
        {"rank": None},
        {"token": "../../etc/passwd"},
        {"token": 7},
        {"lease_s": "NaN"},
        {"lease_s": [1]},
        {"by_hand_s": "Infinity"},
        {"pid": {}},
        {"rank": 10**400},
    ],
)
def test_a_ticket_that_is_none_keeps_nobody_out(tmp_path: Path, changes: dict[str, object]) -> None:
    path = written(tmp_path, "xavier.000001.ticket", **changes)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # which is what makes a process's ticket live
        assert acquire(tmp_path) == []


def test_files_that_are_no_files_are_let_be(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    os.mkfifo(tmp_path / "xavier.000001.ticket")  # to open it would wait for ever
    (tmp_path / "xavier.000002.ticket").symlink_to(target)
    (tmp_path / "xavier.000003.ticket").mkdir()
    (tmp_path / "xavier.000004.ticket").symlink_to("/dev/zero")
    (tmp_path / "xavier.000005.ticket").write_bytes(b"x" * (1 << 20))
    (tmp_path / "xavier.000006.ticket").write_text("[" * 8000)
    (tmp_path / "xavier.000007.ticket").symlink_to(tmp_path / "new")
    with board(tmp_path, "run", 0):
        assert "xavier.000008.ticket" in names(tmp_path)
    assert (target.read_text(), (tmp_path / "new").exists()) == ("mine", False)


def test_a_machine_that_opens_no_files_takes_nobody_for_gone(tmp_path: Path) -> None:
    with queue(tmp_path) as xavier, board(tmp_path, "run", 0) as held:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = os.open(os.devnull, os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
        try:
            held.check()  # needs none
            with pytest.raises(BoardError, match="Too many open files"):
                xavier.tickets()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(used)


def test_a_disk_that_takes_half_a_ticket_takes_none(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(BoardError, match=f"cannot keep the locks of boards in {tmp_path}: File too large"):
            acquire(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_all_tickets_are_seen_whoever_else_reads_the_folder(tmp_path: Path) -> None:
    """Threads, and children of a fork, have the place in it in common."""
    with queue(tmp_path) as xavier, board(tmp_path, "run", 0):
        os.lseek(xavier.folder.descriptor, 0, os.SEEK_END)
        assert len(xavier.tickets()) == 1


def test_who_fails_while_he_draws_leaves_no_ticket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_valid(_: QueuedTicket) -> bool:
        raise BoardError("no file can be opened")

    monkeypatch.setattr(QueuedTicket, "is_valid", property(is_valid))
    with pytest.raises(BoardError, match="no file can be opened"):
        acquire(tmp_path)
    assert names(tmp_path) == []


def test_a_queue_that_somebody_made_endless_is_told(tmp_path: Path) -> None:
    with written(tmp_path, "xavier.999999999999999.ticket").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BoardError, match="the queue is broken"):
            acquire(tmp_path)


def test_who_a_ticket_is_for_is_who_owns_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, "xavier.000001.ticket", user="root", purpose="\x1b[2J\u202ewipe\n\x07", host="a\tb")
    as_if_anothers(tmp_path, ticket())
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BoardError) as caught:
            acquire(tmp_path)
    assert "in use by nobody@a b (pid 4711, [2Jwipe)" in caught.value.message


def test_a_common_folder_belongs_to_all_and_nobody_removes_anothers_file(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        with board(tmp_path / "locks", "run", 0):
            [file] = (tmp_path / "locks").iterdir()
            assert file.stat().st_mode & 0o777 == 0o644  # all read it, one writes it
    finally:
        os.umask(old)
    assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o1777


def test_a_folder_in_which_anybody_removes_locks_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(BoardError, match="any user may remove") as caught:
        acquire(tmp_path)
    assert f"chmod +t {tmp_path}" in caught.value.hint


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "locks"
    if kind == "file":
        path.write_bytes(b"")
    else:
        path.symlink_to(tmp_path)
    with pytest.raises(BoardError, match=r"cannot use .*locks for the locks of boards"):
        acquire(path)

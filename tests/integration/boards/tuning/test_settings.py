"""What is set on a board, and that it is as before afterwards, whatever happened: on this machine, with real files."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import pytest

from harness.boards.local import LocalBoard
from harness.boards.locks.lease_guard import BoardLost, Held
from harness.boards.profile import Address, Profile, Timing
from harness.boards.session import Board, Completed
from harness.boards.ssh import Limits, SshBoard
from harness.boards.tuning import Setting, drifted, failure_notes, known_state, measuring_state, settings
from harness.boards.tuning.files import WRITE
from harness.boards.tuning.restore_journal import NAME
from harness.core.errors import BoardError, ConnectionFailed
from tests.support.boards import sshd
from tests.support.tuning.system import (
    BOOT,
    CPU,
    EVERYTHING,
    Recording,
    WithoutRights,
    board,
    contents,
    on_board,
    read,
    write,
)

GOVERNOR = f"{CPU}/cpu0/cpufreq/scaling_governor"
LIMITS = Limits(connect_s=5, silence_s=5)


@contextmanager
def measuring(
    root: Path, profile: Profile, session: Board | None = None, notes: list[str] | None = None
) -> Iterator[tuple[Setting, ...]]:
    session = session or LocalBoard()
    failure_notes = notes if notes is not None else []
    places = {"work": _work(root), "system": on_board(root)}
    with measuring_state(profile, session, root.parent / "cache", failure_notes.append, **places) as found:
        yield found


def _work(root: Path) -> PurePosixPath:
    """The work folder of the board, which is there when a session is open."""
    if not (root.parent / "work").exists():
        (root.parent / "work").mkdir(mode=0o700)
    return on_board(root.parent / "work")


def ledger_of(root: Path) -> Path:
    return root.parent / "work" / NAME


def test_everything_is_set_and_restored(root: Path) -> None:
    before, notes = contents(root), list[str]()
    with measuring(root, board(EVERYTHING), notes=notes) as found:
        assert {each.reason for each in found} == {""}
        for each in found:
            assert read(root, each.path) == each.wanted == each.reached
            assert each.before == before[each.path].strip()
        assert len({each.name for each in found}) == 6
        assert f"{GOVERNOR}\tschedutil" in ledger_of(root).read_text()
    assert {path: text.strip() for path, text in contents(root).items()} == {
        path: text.strip() for path, text in before.items()
    }
    assert not ledger_of(root).exists()
    assert notes == []


def test_what_was_set_first_is_restored_last(root: Path) -> None:
    """The bounds of a frequency must not cross on the way back either."""
    session = Recording()
    with measuring(root, board(EVERYTHING), session):
        pass
    there, back = ([*argv[4::2]] for argv in session.asked if WRITE in argv)
    assert len(there) > 10
    assert back == there[::-1]


def test_a_profile_that_wants_nothing_writes_nothing(root: Path) -> None:
    before = contents(root)
    with measuring(root, board(Timing())) as found:
        assert found == ()
        assert not ledger_of(root).exists()
    assert contents(root) == before


def test_the_cores_of_the_plan_go_before_those_of_the_profile(root: Path) -> None:
    away = board(Timing(interrupts_away=True))
    with measuring_state(
        away, LocalBoard(), root.parent / "cache", print, work=_work(root), cores={3}, system=on_board(root)
    ) as found:
        assert [each.wanted for each in found] == ["0,1,2", "2"]


def test_what_cannot_be_set_is_said_with_its_reason(root: Path) -> None:
    protected, refusing, deaf = (root / CPU / f"cpu{core}/cpufreq/scaling_governor" for core in (1, 2, 3))
    protected.chmod(0o444)
    for path, real in ((refusing, "oom_score_adj"), (deaf, "comm")):
        path.unlink()
        path.symlink_to(f"/proc/self/{real}")
    notes: list[str] = []
    with measuring(root, board(Timing(governor="performance", turbo=True)), WithoutRights(), notes) as found:
        assert [(each.name, each.before, each.reached, each.reason) for each in found] == [
            ("turbo", "1", "1", ""),
            ("governor", "schedutil", "performance", ""),
            ("governor", "schedutil", "schedutil", "Permission denied; it offers performance schedutil"),
            ("governor", "0", "0", "Invalid argument; it offers performance schedutil"),
            ("governor", "grep", "grep", "grep came back; it offers performance schedutil"),
        ]
        assert len(failure_notes(found)) == 3
    assert read(root, GOVERNOR) == "schedutil"
    assert notes == []


def test_what_could_not_be_restored_is_not_set(root: Path) -> None:
    write(root, {GOVERNOR: "two words\n"})
    with measuring(root, board(Timing(governor="performance"))) as found:
        assert found[0].reason == "what stands there could not be restored; it offers performance schedutil"
        assert read(root, GOVERNOR) == "two words"


def test_reasons_are_told_once() -> None:
    found = [Setting("governor", f"cpu{core}", "performance", None, None, "why") for core in range(3)]
    assert failure_notes([*found, Setting("turbo", "boost", "0", "1", "0")]) == (
        "governor: cpu0 and 2 more should be performance: why",
    )


def test_what_needs_root_is_written_by_the_words_of_the_profile(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("sh", "-c", f'echo asked >>{log}; exec "$@"', "as_root")
    with measuring(root, board(Timing(governor="performance", as_root=words))) as found:
        assert {each.reason for each in found} == {""}
        assert log.read_text() == "asked\n"
    assert log.read_text() == "asked\nasked\n"


def test_a_board_that_refuses_root_is_measured_as_it_is(root: Path) -> None:
    before = contents(root)
    with measuring(root, board(Timing(governor="performance", as_root=("/nonexistent/sudo",)))) as found:
        assert {each.reason for each in found} == {
            "`/nonexistent/sudo` failed: /nonexistent/sudo: No such file or directory; it offers performance schedutil"
        }
    assert contents(root) == before
    assert not ledger_of(root).exists()


def test_commands_of_the_profile_come_first_and_are_undone_last(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    tell = f"sh -c 'cat {root}/{GOVERNOR} >>{log}; echo :$0: >>{log}'"
    profile = board(Timing(governor="performance"), setup=(f"{tell} up", "false"), teardown=(f"{tell} down",))
    notes: list[str] = []
    with measuring(root, profile, notes=notes) as found:
        up, failed, *_ = found
        assert (up.name, up.wanted, up.reached, up.reason) == ("setup", "exit status 0", "exit status 0", "")
        assert (failed.path, failed.reached, failed.reason) == ("false", "exit status 1", "it said nothing")
        assert drifted(LocalBoard(), found, system=on_board(root)) == ()
    assert log.read_text().split() == ["schedutil", ":up:", "schedutil:down:"]
    assert notes == ["warning: 'false' failed on the board (exit status 1): "]


def test_what_something_else_changes_meanwhile_is_told(root: Path) -> None:
    with measuring(root, board(Timing(governor="performance"))) as found:
        assert drifted(LocalBoard(), found, system=on_board(root)) == ()
        write(root, {GOVERNOR: "powersave\n"})
        assert drifted(LocalBoard(), found, system=on_board(root)) == (
            f"governor: {GOVERNOR} was performance and is powersave now",
        )


def test_an_exception_of_the_block_is_the_one_that_is_raised(root: Path) -> None:
    with pytest.raises(ZeroDivisionError), measuring(root, board(EVERYTHING)):
        raise ZeroDivisionError
    assert read(root, GOVERNOR) == "schedutil"
    assert not ledger_of(root).exists()


def session_until(lost: list[str], line: Board | None = None) -> Board:
    """A session that ends when the board is lost, for the reason in that list."""

    def check() -> None:
        if lost:
            raise BoardLost(lost[0])

    return Held(check).guard(line or LocalBoard())


def lose(session: Board, lost: list[str]) -> None:
    lost.append("somebody else has it")
    session.run(["true"], 5)


def test_a_board_that_is_somebody_elses_now_is_not_touched_any_more(root: Path) -> None:
    notes, lost = list[str](), list[str]()
    session = session_until(lost)
    with pytest.raises(BoardLost), measuring(root, board(EVERYTHING), session, notes):
        lose(session, lost)
    assert read(root, GOVERNOR) == "performance"
    assert f"{GOVERNOR}\tschedutil" in ledger_of(root).read_text(), "for the next measurement to restore"
    assert [note.partition(";")[0] for note in notes] == [
        "warning: the state of fake was not restored: its next user has it already"
    ]


def test_nor_is_it_by_the_commands_of_the_profile(tmp_path: Path) -> None:
    notes, lost = list[str](), list[str]()
    profile = board(Timing(), setup=(f"touch {tmp_path}/up",), teardown=(f"touch {tmp_path}/down",))
    session = session_until(lost)
    with pytest.raises(BoardLost), known_state(profile, session, tmp_path / "cache", notes.append):
        lose(session, lost)
    assert [path.name for path in tmp_path.iterdir()] == ["up"]
    assert notes == ["warning: fake is left as its setup commands have made it: its next user has it already"]


def test_a_board_that_no_command_has_changed_is_not_said_to_be_left_so(tmp_path: Path) -> None:
    notes, lost = list[str](), list[str]()
    session = session_until(lost)
    with pytest.raises(BoardLost), known_state(board(Timing()), session, tmp_path / "cache", notes.append):
        lose(session, lost)
    assert notes == []


def test_nor_after_an_interruption_by_a_session_of_their_own(tmp_path: Path) -> None:
    notes, lost = list[str](), list[str]()
    profile = board(Timing(), setup=(f"touch {tmp_path}/up",), teardown=(f"touch {tmp_path}/down",))
    with pytest.raises(KeyboardInterrupt), known_state(profile, session_until(lost), tmp_path / "cache", notes.append):
        interrupt(lost)
    assert [path.name for path in tmp_path.iterdir()] == ["up"]
    assert notes == ["warning: the board's state was not restored: somebody else has it"]


def interrupt(lost: list[str]) -> None:
    """Ctrl-C, by somebody who had stopped the command and did not know whose the board is by now."""
    lost.append("somebody else has it")
    raise KeyboardInterrupt


def test_nor_by_a_later_session_when_the_first_is_cut(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut(LocalBoard):
        cut = False

        def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
            if self.cut:
                raise ConnectionFailed("the cable was pulled")
            return super().run(argv, timeout_s)

    def pauses() -> Iterator[float]:
        lost.append("somebody else has it")
        yield 0.0
        raise AssertionError("there is nothing to try again")

    notes, lost, line = list[str](), list[str](), Cut()
    monkeypatch.setattr(settings, "PAUSES_S", pauses())
    with measuring(root, board(EVERYTHING), session_until(lost, line), notes):
        line.cut = True
    assert read(root, GOVERNOR) == "performance"
    assert [note.partition(";")[0] for note in notes] == [
        "warning: the state of fake was not restored: its next user has it already"
    ]


def test_what_cannot_be_restored_is_told_and_left_to_the_next(root: Path) -> None:
    notes: list[str] = []
    with measuring(root, board(EVERYTHING), WithoutRights(), notes):
        (root / GOVERNOR).chmod(0o444)
    assert notes == [f"warning: {GOVERNOR} is performance, not schedutil as before: Permission denied"]
    (root / GOVERNOR).chmod(0o644)
    with measuring(root, board(EVERYTHING), WithoutRights(), notes) as found:
        assert [each.before for each in found if each.path == GOVERNOR] == ["schedutil"]
    assert notes[1:] == ["an earlier session did not restore fake: its state is restored first"]
    assert read(root, GOVERNOR) == "schedutil"


def test_what_the_next_cannot_restore_either_keeps_its_first_value(root: Path) -> None:
    for _ in range(3):
        with measuring(root, board(EVERYTHING), WithoutRights()) as found:
            assert [each.before for each in found if each.path == GOVERNOR] == ["schedutil"]
            (root / GOVERNOR).chmod(0o444)
    assert f"{GOVERNOR}\tschedutil" in ledger_of(root).read_text()
    assert read(root, f"{CPU}/cpu1/cpufreq/scaling_governor") == "schedutil"


def test_what_is_left_stays_on_the_board_also_where_the_profile_no_longer_sets_it(root: Path) -> None:
    with measuring(root, board(EVERYTHING), WithoutRights()):
        (root / GOVERNOR).chmod(0o444)
    with measuring(root, board(Timing(turbo=False)), WithoutRights()):
        assert f"{GOVERNOR}\tschedutil" in ledger_of(root).read_text()
    assert f"{GOVERNOR}\tschedutil" in ledger_of(root).read_text()


def test_a_board_that_cannot_keep_the_values_is_not_changed(root: Path) -> None:
    before = contents(root)
    (root.parent / "work").touch()
    with pytest.raises(BoardError, match="cannot keep the values before"), measuring(root, board(EVERYTHING)):
        pytest.fail("the block is not reached")
    assert contents(root) == before


# ---- the process ends in the midst of it

PROGRAM = """
import sys, time
from pathlib import Path, PurePosixPath
from harness.boards.local import LocalBoard
from harness.boards.tuning import measuring_state
from harness.boards.profile import Timing
from tests.support.tuning.system import board
root, as_root = Path(sys.argv[1]), tuple(sys.argv[2:])
timing = Timing(governor="performance", as_root=as_root)
profile = board(timing, setup=("true",), teardown=(f"touch {root.parent}/undone",))
say = lambda text: print(text, flush=True)
try:
    places = {"work": PurePosixPath(root.parent / "work"), "system": PurePosixPath(root)}
    with measuring_state(profile, LocalBoard(), root.parent / "cache", say, **places):
        say("measuring")
        while not (root.parent / "end").exists():
            time.sleep(0.01)
except KeyboardInterrupt:
    say("interrupted")
"""


class Program:
    """A process of its own that measures, and what it says."""

    def __init__(self, root: Path, *as_root: str) -> None:
        _work(root)
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(root), *as_root], stdout=subprocess.PIPE, text=True
        )
        self.said = self.process.stdout or _no_output()

    def await_line(self, wanted: str) -> None:
        for line in self.said:
            if wanted in line:
                return
        pytest.fail(f"it ended without saying {wanted!r}")


def _no_output() -> IO[str]:
    raise TypeError


@pytest.fixture
def start(root: Path) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def start(*as_root: str) -> Program:
        started.append(Program(root, *as_root))
        return started[-1]

    yield start
    for program in started:
        program.process.kill()
        program.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores(root: Path, start: Callable[..., Program], number: signal.Signals) -> None:
    program = start()
    program.await_line("measuring")
    assert read(root, GOVERNOR) == "performance"
    program.process.send_signal(number)
    program.await_line("interrupted")
    assert program.process.wait(10) == 0
    assert read(root, GOVERNOR) == "schedutil"
    assert (root.parent / "undone").exists()
    assert not ledger_of(root).exists()


@pytest.fixture
def slow(root: Path, start: Callable[..., Program]) -> Program:
    """What writes as root stops before it restores, until the file `go` is there; `entered` tells that it did."""
    entered, go = root.parent / "entered", root.parent / "go"
    stop = f'while [ -e {root.parent}/slow ] && ! [ -e {go} ]; do touch {entered}; sleep 0.02; done; exec "$@"'
    program = start("sh", "-c", stop, "as_root")
    program.await_line("measuring")
    (root.parent / "slow").touch()
    return program


def test_a_second_interrupt_has_to_wait_until_all_is_restored(root: Path, slow: Program) -> None:
    slow.process.send_signal(signal.SIGINT)
    _interrupt_the_restoring(root, slow)


def test_an_interrupt_at_the_end_has_to_wait_until_all_is_restored(root: Path, slow: Program) -> None:
    (root.parent / "end").touch()
    _interrupt_the_restoring(root, slow)


def _interrupt_the_restoring(root: Path, slow: Program) -> None:
    _await(root.parent / "entered")
    slow.process.send_signal(signal.SIGINT)
    slow.await_line(
        "not yet: the board is being set or restored, 120 s at most: 4 files are to be restored, "
        f"as {ledger_of(root)} on the board says"
    )
    assert read(root, GOVERNOR) == "performance"
    (root.parent / "go").touch()
    slow.await_line("interrupted")
    assert slow.process.wait(10) == 0
    assert read(root, GOVERNOR) == "schedutil"
    assert (root.parent / "undone").exists()


def test_an_interrupt_while_the_board_is_set_restores_it(root: Path, start: Callable[..., Program]) -> None:
    entered, go = root.parent / "entered", root.parent / "go"
    program = start("sh", "-c", f'"$@"; touch {entered}; until [ -e {go} ]; do sleep 0.02; done', "as_root")
    _await(entered)
    assert read(root, GOVERNOR) == "performance"
    program.process.send_signal(signal.SIGINT)
    program.await_line("not yet")
    go.touch()
    program.await_line("interrupted")
    assert read(root, GOVERNOR) == "schedutil"


def _await(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.01)


@pytest.fixture
def killed(root: Path, start: Callable[..., Program]) -> Path:
    """A board that a process has set which was then killed."""
    program = start()
    program.await_line("measuring")
    program.process.kill()
    program.process.wait()
    assert read(root, GOVERNOR) == "performance"
    return root


def test_the_session_after_a_killed_one_restores_first(killed: Path) -> None:
    notes: list[str] = []
    profile = board(Timing(governor="performance"), teardown=(f"touch {killed.parent}/undone",))
    with measuring(killed, profile, notes=notes) as found:
        assert {each.before for each in found} == {"schedutil"}
        assert (killed.parent / "undone").exists()
    assert notes == ["an earlier session did not restore fake: its state is restored first"]
    assert read(killed, GOVERNOR) == "schedutil"


def test_the_session_after_a_killed_one_restores_also_what_it_does_not_set(killed: Path) -> None:
    with measuring(killed, board(Timing())):
        assert read(killed, GOVERNOR) == "schedutil"
    assert not ledger_of(killed).exists()


def test_what_was_left_in_another_boot_is_forgotten(killed: Path) -> None:
    write(killed, {"proc/sys/kernel/random/boot_id": BOOT[::-1], GOVERNOR: "ondemand\n"})
    notes: list[str] = []
    with measuring(killed, board(Timing()), notes=notes):
        assert read(killed, GOVERNOR) == "ondemand"
    assert not ledger_of(killed).exists()
    assert notes == []


# ---- the way to the board is lost


def by_ssh(server: sshd.Server, port: int, work: Path, timing: Timing) -> Profile:
    """This machine as a board that is reached by a real SSH server."""
    known_hosts = sshd.know(work / "known_hosts", port, server.host_key)
    address = Address(
        host=sshd.LOOPBACK,
        port=port,
        user=server.address.user,
        key=str(server.address.key),
        known_hosts=str(known_hosts),
    )
    return board(timing, local=False, address=address, work_folder=str(work / "work"))


def _lose(root: Path, link: sshd.Link, session: Board) -> None:
    assert read(root, GOVERNOR) == "performance"
    link.cut()
    session.run(["true"], 5)


def test_a_lost_connection_is_opened_again_to_restore(server: sshd.Server, root: Path) -> None:
    profile, notes = by_ssh(server, server.port, root.parent, EVERYTHING), list[str]()
    before = {path: text.strip() for path, text in contents(root).items()}
    with (
        sshd.Link(server.port) as link,
        SshBoard.connect(server.address_behind(link.port), LIMITS) as session,
        pytest.raises(ConnectionFailed),
        measuring(root, profile, session, notes),
    ):
        _lose(root, link, session)
    assert {path: text.strip() for path, text in contents(root).items()} == before
    assert not (root.parent / "work" / NAME).exists()
    assert notes == ["connecting to fake (127.0.0.1)"]


def test_a_connection_that_is_lost_as_all_is_well_does_not_spoil_it(server: sshd.Server, root: Path) -> None:
    profile = by_ssh(server, server.port, root.parent, EVERYTHING)
    with (
        sshd.Link(server.port) as link,
        SshBoard.connect(server.address_behind(link.port), LIMITS) as session,
        measuring(root, profile, session),
    ):
        link.cut()
    assert read(root, GOVERNOR) == "schedutil"


def test_a_board_that_does_not_come_back_is_told_with_what_to_do(
    server: sshd.Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some attempts, then a message; the board keeps the values for the session that reaches it again."""
    monkeypatch.setattr(settings, "PAUSES_S", (0.01, 0.02))
    notes = list[str]()
    with (
        sshd.closed_port() as port,
        sshd.Link(server.port) as link,
        SshBoard.connect(server.address_behind(link.port), LIMITS) as session,
        pytest.raises(ConnectionFailed),
        measuring(root, by_ssh(server, port, root.parent, EVERYTHING), session, notes),
    ):
        _lose(root, link, session)
    assert notes[:-1] == ["connecting to fake (127.0.0.1)"] * 2
    assert notes[-1] == (
        f"warning: the state of fake was not restored: cannot reach 127.0.0.1 port {port}: Connection refused; "
        f"the values before are on it in {root.parent}/work/{NAME}: the next measurement restores them, "
        "and so does a restart of the board"
    )
    assert read(root, GOVERNOR) == "performance"
    with (
        SshBoard.connect(server.address, LIMITS) as session,
        measuring(root, by_ssh(server, port, root.parent, Timing()), session),
    ):
        assert read(root, GOVERNOR) == "schedutil"


def test_a_limit_ends_the_attempts(server: sshd.Server, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "LIMIT_S", 0.5)
    notes: list[str] = []
    with (
        sshd.closed_port() as port,
        sshd.Link(server.port) as link,
        SshBoard.connect(server.address_behind(link.port), LIMITS) as session,
        measuring(root, by_ssh(server, port, root.parent, EVERYTHING), session, notes),
    ):
        link.cut()
    assert [note.partition(" ")[0] for note in notes] == ["connecting", "warning:"]


def test_nothing_of_this_process_is_left_changed(root: Path) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with measuring(root, board(EVERYTHING)):
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers

"""The state of a board during a measurement: the profile's settings are set, read back, and always restored."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from harness.boards.locks import again
from harness.boards.locks.lease_guard import BoardLost
from harness.boards.profile import Profile
from harness.boards.session import Board, Deadline
from harness.boards.tuning import restore_journal as ledgers
from harness.boards.tuning.commands import Notify, run_commands
from harness.boards.tuning.desired_settings import PATTERNS, Setting, explained, same, wishes
from harness.boards.tuning.files import Files, first_line, read, write
from harness.boards.tuning.interruption import Interruption, interruptible
from harness.boards.tuning.restore_journal import Ledger
from harness.boards.tuning.snapshot import SYSTEM
from harness.core.errors import InfrastructureError

# Before each attempt to reach a board that was lost while its state is to be restored; none begins after the limit.
PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
LIMIT_S = 120.0
TAKEN = "its next user has it already"


@dataclass(frozen=True)
class _Place:
    """A board, the folders on it, and the receiver of messages."""

    board: Profile
    cache: Path
    work: PurePosixPath
    system: PurePosixPath
    notify: Notify

    @property
    def as_root(self) -> tuple[str, ...]:
        return () if self.board.emulated else self.board.timing.as_root  # one is root there


@contextmanager
def measuring_state(
    board: Profile,
    session: Board,
    cache: Path,
    notify: Notify,
    *,
    work: PurePosixPath,
    cores: Collection[int] | None = None,
    system: PurePosixPath = SYSTEM,
) -> Iterator[tuple[Setting, ...]]:
    """Apply the profile's `timing` settings during the block, after the profile's setup commands.

    `work` is the folder on the board that `reach` returns.  `cores` are those with items, by default those of the
    profile; `system` is the folder of /proc and /sys.  A value that cannot be set is a Setting with a reason.  The
    original values are restored at the end, also after an exception, after Ctrl-C (a second one has to wait) and after
    a lost connection, within `LIMIT_S`; if this process is killed, by the next session.  Failures to restore are
    reported.  BoardError if the original values cannot be saved on the board, ConnectionFailed if it is lost.
    """
    place = _Place(board, cache, work, system, notify)
    pinned = {item.core for item in board.items.values() if item.core is not None} if cores is None else set(cores)
    with interruptible(notify) as interruption:
        state = _recovered(place, session)
        try:
            state = _begin(place, session, state)
            commands = _setup(place, session)
            files = read(session, system, PATTERNS)
            wanted = _originals(wishes(board.timing, files, pinned), state)
            state = _note(place, session, state, wanted)
            settings = _set(place, session, wanted, files)
            interruption.release()
            yield (*commands, *settings)
        finally:
            interruption.held = True
            _restore(place, session, state, interruption)


def drifted(session: Board, settings: Sequence[Setting], *, system: PurePosixPath = SYSTEM) -> tuple[str, ...]:
    """Return a sentence for each setting that has changed on the board since it was set."""
    ours = [setting for setting in settings if setting.reached is not None and setting.name != "setup"]
    now = read(session, system, [setting.path for setting in ours]) if ours else {}
    pairs = [(setting, first_line(now, setting.path)) for setting in ours]
    return tuple(
        f"{setting.name}: {setting.path} was {setting.reached} and is {value} now"
        for setting, value in pairs
        if not same(setting.path, value, setting.reached)
    )


def failure_notes(settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return a sentence for each reason why a key of the profile is not as wanted, with the number of its files."""
    reasons: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        if setting.reason:
            reasons.setdefault((setting.name, setting.reason), []).append(setting)
    return tuple(
        f"{name}: {each[0].path}{f' and {len(each) - 1} more' if len(each) > 1 else ''} "
        f"should be {each[0].wanted}: {reason}"
        for (name, reason), each in reasons.items()
    )


def _recovered(place: _Place, session: Board) -> Ledger:
    """Restore the values of a killed session first; return those that could not be restored."""
    boot = ledgers.boot_id(session, place.system)
    left = ledgers.load(session, place.work)
    if left is None or left.boot != boot:
        if left is not None:
            ledgers.remove(session, place.work)  # the board has started since, and with it all values
        return Ledger(boot)
    place.notify(f"an earlier session did not restore {place.board.name}: its state is restored first")
    return _restored(place, session, left)


def _begin(place: _Place, session: Board, state: Ledger) -> Ledger:
    """Record on the board that the setup commands run, before they run."""
    if place.board.emulated or not place.board.setup:
        return state
    state = replace(state, commands=True)
    ledgers.keep(session, place.work, state)
    return state


def _setup(place: _Place, session: Board) -> tuple[Setting, ...]:
    if place.board.emulated:
        return ()
    return tuple(map(_as_setting, run_commands(place.board.setup, session, place.notify)))


def _as_setting(done: Mapping[str, Any]) -> Setting:
    failed = done["output"] or "it said nothing"
    reached = f"exit status {done['status']}"
    return Setting("setup", done["command"], "exit status 0", None, reached, failed if done["status"] else "")


def _originals(wanted: Sequence[Setting], state: Ledger) -> list[Setting]:
    """Return the settings with the original values of an earlier session that could not restore them."""
    return [_restorable(replace(each, before=state.values.get(each.path, each.before))) for each in wanted]


def _restorable(setting: Setting) -> Setting:
    """Mark a setting that could not be restored, so that it is not set."""
    if setting.reason or (setting.before is not None and ledgers.restorable(setting.before)):
        return setting
    return replace(setting, reason="what stands there could not be restored")


def _note(place: _Place, session: Board, state: Ledger, wanted: Sequence[Setting]) -> Ledger:
    """Save the original values on the board before any is changed."""
    values = {each.path: each.before for each in wanted if each.before is not None and not each.reason}
    state = replace(state, values={**values, **state.values})
    if not state.empty:
        ledgers.keep(session, place.work, state)
    return state


def _set(place: _Place, session: Board, wanted: Sequence[Setting], files: Files) -> tuple[Setting, ...]:
    possible = [setting for setting in wanted if not setting.reason]
    refusals = write(session, place.system, [(setting.path, setting.wanted) for setting in possible], place.as_root)
    now = read(session, place.system, [setting.path for setting in possible]) if possible else {}
    reached = {
        setting.path: _judged(replace(setting, reached=first_line(now, setting.path)), refusal)
        for setting, refusal in zip(possible, refusals, strict=True)
    }
    return tuple(explained(reached.get(setting.path, setting), files) for setting in wanted)


def _judged(setting: Setting, refusal: str) -> Setting:
    """Return the setting, with a reason if it is not as wanted; a value that was right before was not written."""
    if same(setting.path, setting.reached, setting.wanted):
        return setting
    return replace(setting, reason=refusal or f"{setting.reached} came back")


def _restore(place: _Place, session: Board, state: Ledger, interruption: Interruption) -> None:
    """Restore by the session, or by new ones if it has ended; a failure here must not hide the first cause."""
    if state.empty:
        return
    kept = f"{len(state.values)} files are to be restored, as {place.work / ledgers.NAME} on the board says"
    interruption.remaining = f", {LIMIT_S:g} s at most: {kept}"
    try:
        _restored(place, session, state)
    except BoardLost:  # another user has it now
        place.notify(_not_restored(place, TAKEN))
    except InfrastructureError as error:
        if place.board.emulated:  # it ends with its last user, and with it all that was set
            place.notify(f"warning: the state of {place.board.name} was not restored: {error.message}")
        else:
            _restore_later(place, session, state)


def _restore_later(place: _Place, former: Board, state: Ledger) -> None:
    """Restore the settings in new sessions, because the first has ended."""
    deadline, reason = Deadline.after(LIMIT_S), ""
    for pause_s in PAUSES_S:
        if deadline.remaining_s < pause_s:
            break
        time.sleep(pause_s)
        try:
            with again(former, place.board, place.cache, place.notify) as connection:
                _restored(place, connection.board, state)
                return
        except BoardLost:
            reason = TAKEN
            break
        except InfrastructureError as error:
            reason = error.message
    place.notify(_not_restored(place, reason))


def _not_restored(place: _Place, reason: str) -> str:
    return (
        f"warning: the state of {place.board.name} was not restored: {reason}; the values before are on it in "
        f"{place.work / ledgers.NAME}: the next measurement restores them, and so does a restart of the board"
    )


def _restored(place: _Place, session: Board, state: Ledger) -> Ledger:
    """Restore in reverse order, files then commands; return the failures, which also stay in the journal."""
    values = list(reversed(list(state.values.items())))
    refusals = write(session, place.system, values, place.as_root)
    now = read(session, place.system, [path for path, _ in values]) if values else {}
    left: dict[str, str] = {}
    for (path, value), refusal in zip(values, refusals, strict=True):
        if not same(path, first_line(now, path), value):
            left[path] = value
            is_now = first_line(now, path)
            place.notify(f"warning: {path} is {is_now}, not {value} as before: {refusal or 'it came back'}")
    if state.commands:
        run_commands(place.board.teardown, session, place.notify)
    state = Ledger(state.boot, dict(reversed(left.items())))
    if state.empty:
        ledgers.remove(session, place.work)
    else:
        ledgers.keep(session, place.work, state)
    return state

"""Power-cycling of a board by the switch that its profile names, until the board answers again."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from harness.boards.locks.labgrid import labgrid_command
from harness.boards.locks.lease_guard import BoardLost
from harness.boards.locks.ticket import printable
from harness.boards.profile import Profile
from harness.boards.session import Connect, Deadline
from harness.core.errors import BoardError, InfrastructureError, RequestError, ToolError

ANSWER_S = 20.0
POWER_S = 60.0
POLL_S = 1.0
BOOT_ID = ("cat", "/proc/sys/kernel/random/boot_id")
"""The kernel's name for the time since it started."""

Notify = Callable[[str], None]

Pulse = tuple[Sequence[str], float]
"""A command, and the seconds to wait after it."""


def cycle(profile: Profile, check: Callable[[], None], connect: Connect, notify: Notify) -> float:
    """Switch the board off and on; return the seconds until it answered again.

    `check` raises BoardLost if the board is no longer locked.  RequestError if its profile names no switch, ToolError
    if the switch fails, BoardError if the board does not answer within the profile's `boot_s`, or did not restart.
    """
    commands, timeout_s = check_switch(profile)
    before = _boot_id(connect)
    check()
    with ExitStack() as later:
        for words, _ in reversed(commands[1:]):  # also after a failure: the board must not stay off
            later.callback(_switch, profile, words, timeout_s, notify)
        words, pause_s = commands[0]
        _switch(profile, words, timeout_s, notify)
        time.sleep(pause_s)
    notify(f"waiting for {profile.name}, {profile.boot_s:g} s at most")
    return _await(profile, connect, before)


def check_switch(profile: Profile) -> tuple[tuple[Pulse, ...], float]:
    """Return the commands of the switch, and the time limit of each in seconds; RequestError if there is no switch."""
    power = profile.power
    if power and power.off_command and power.on_command:
        return ((power.off_command, power.off_s), (power.on_command, 0.0)), power.timeout_s
    if power and power.command:
        return ((power.command, 0.0),), power.timeout_s
    if profile.labgrid:
        return ((labgrid_command(profile.labgrid, "power", "cycle"), 0.0),), POWER_S
    raise RequestError(
        f"board {profile.name} has no power switch",
        "give its profile power: {command: [PROGRAM, ARGUMENT...]}, or a labgrid place that has a power driver",
    )


def _switch(profile: Profile, words: Sequence[str], timeout_s: float, notify: Notify) -> None:
    notify(f"power of {profile.name}: {shlex.join(words)}")
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{shlex.join(words)} did not end within {timeout_s:g} s") from error
    except OSError as error:
        raise ToolError(
            f"cannot start {words[0]}: {error.strerror}", "correct `power` in the board's profile"
        ) from error
    if done.returncode != 0:
        said = printable((done.stderr or done.stdout).decode(errors="replace")[-500:]) or "it said nothing"
        raise ToolError(f"{shlex.join(words)} failed (exit status {done.returncode}): {said}")


def _boot_id(connect: Connect) -> bytes | None:
    """Return the boot ID of the board's kernel; None if the board does not answer."""
    try:
        with connect() as board:
            done = board.run(BOOT_ID, ANSWER_S)
            return done.stdout if done.status == 0 else None
    except BoardLost:
        raise
    except InfrastructureError:
        return None


def _await(profile: Profile, connect: Connect, before: bytes | None) -> float:
    deadline = Deadline.after(profile.boot_s)
    answered: bytes | None = None
    while not deadline.passed:
        answered = _boot_id(connect)
        if answered and answered != before:
            return profile.boot_s - deadline.remaining_s
        time.sleep(min(POLL_S, deadline.remaining_s))
    if answered:
        raise BoardError(
            f"{profile.name} answers as if its power had not been switched",
            "check that the profile names the right switch; try it manually",
        )
    raise BoardError(
        f"{profile.name} does not answer {profile.boot_s:g} s after power-on",
        "look at its serial console; a board that takes longer to boot needs a larger boot_s in its profile",
    )

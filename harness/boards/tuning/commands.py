"""The commands of a profile on its board: setup before a measurement, teardown after it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.boards.locks import again
from harness.boards.locks.lease_guard import BoardLost
from harness.boards.profile import Profile
from harness.boards.session import COMMAND_TIMEOUT_S, Board
from harness.core.errors import InfrastructureError

Notify = Callable[[str], None]


@contextmanager
def known_state(board: Profile, session: Board, cache: Path, notify: Notify) -> Iterator[list[dict[str, Any]]]:
    """Run the profile's setup commands, and in any case its teardown commands; real boards only.

    A board that another user has taken is left unchanged.
    """
    if board.emulated:
        yield []
        return
    try:
        yield run_commands(board.setup, session, notify)
    except BoardLost:  # another user has it now
        if board.setup:
            notify(f"warning: {board.name} is left as its setup commands have made it: its next user has it already")
        raise
    except BaseException:
        _restore_after_failure(board, session, cache, notify)
        raise
    try:
        run_commands(board.teardown, session, notify)
    except InfrastructureError:
        _restore_after_failure(board, session, cache, notify)


def _restore_after_failure(board: Profile, failed: Board, cache: Path, notify: Notify) -> None:
    """Run the teardown in a new session, because the failed one may be over; a failure here is only a warning."""
    if not board.teardown:
        return
    try:
        with again(failed, board, cache, notify) as connection:
            run_commands(board.teardown, connection.board, notify)
    except InfrastructureError as error:
        notify(f"warning: the board's state was not restored: {error.message}")


def run_commands(commands: Sequence[str], session: Board, notify: Notify) -> list[dict[str, Any]]:
    """Run commands on the board without a shell; return exit statuses and last output, report failures."""
    return [_run(command, session, notify) for command in commands]


def _run(command: str, session: Board, notify: Notify) -> dict[str, Any]:
    done = session.run(shlex.split(command), COMMAND_TIMEOUT_S)
    output = (done.stdout + done.stderr).decode(errors="replace").strip()[-500:]
    if done.status != 0:
        notify(f"warning: {command!r} failed on the board (exit status {done.status}): {output}")
    return {"command": command, "status": done.status, "output": output}

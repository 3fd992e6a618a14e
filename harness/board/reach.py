"""From a profile to an open session: this machine, a board by SSH, or an emulated board."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness import profile as profiles
from harness.board.emulator import Machine, emulated
from harness.board.local import LocalBoard
from harness.board.session import Board
from harness.board.ssh import Address, SshBoard
from harness.profile import Profile

EMULATED_WORK = PurePosixPath("/board")


@dataclass(frozen=True)
class Reached:
    """An open session and the folder on the board that the harness may fill."""

    board: Board
    work: PurePosixPath


@contextmanager
def reach(profile: Profile, cache: Path, notify: Callable[[str], None]) -> Iterator[Reached]:
    """Open a session with the board of `profile` and close it at the end.

    An emulated board is started if nobody uses it yet; `notify` hears of anything that takes time.
    ConnectionFailed, BoardError or ToolError if it cannot be reached.
    """
    if profile.local:
        with LocalBoard() as board:
            yield Reached(board, PurePosixPath(cache / "host"))
    elif profile.address is not None:
        notify(f"connecting to {profile.name} ({profile.address.host})")
        with SshBoard.connect(_address(profile.address)) as board:
            yield Reached(board, profile.work)
    else:
        with _emulated(profile, cache, notify) as board:
            yield Reached(board, EMULATED_WORK)


@contextmanager
def _emulated(profile: Profile, cache: Path, notify: Callable[[str], None]) -> Iterator[Board]:
    emulator = profile.emulator
    if emulator is None:
        raise TypeError(profile)
    machine = Machine(emulator.cpu, emulator.cores, emulator.memory_mib, emulator.disk_mib)
    with emulated(profile.name, machine, cache, notify) as endpoint:
        address = Address(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            key=endpoint.key,
            known_hosts=endpoint.known_hosts,
        )
        with SshBoard.connect(address) as board:
            yield board


def _address(given: profiles.Address) -> Address:
    return Address(
        host=given.host,
        port=given.port,
        user=given.user or "root",
        key=Path(given.key).expanduser() if given.key else None,
        known_hosts=Path(given.known_hosts).expanduser(),
        jump=_address(given.jump) if given.jump else None,
    )

"""Sessions with the board of a profile: this machine, a board by SSH, an emulated board, a bare processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from harness.boards.identity import BoardIdentity
from harness.boards.local import LocalBoard
from harness.boards.profile import Profile
from harness.boards.session import Board
from harness.boards.work_folder import claim

if TYPE_CHECKING:  # paramiko takes longer to import than a small run on this machine
    from harness.boards.ssh import Address, SshBoard

EMULATED_WORK = PurePosixPath("/board")
ELSEWHERE = "name another work_folder in the profile of board {}"


@dataclass(frozen=True)
class Connection:
    """An open session, a folder on the board that only the harness's user can change, and the board's identity."""

    board: Board
    work: PurePosixPath
    identity: BoardIdentity


@contextmanager
def reach(
    profile: Profile, cache: Path, notify: Callable[[str], None], *, counting: bool = False
) -> Iterator[Connection]:
    """Open a session with the board of `profile` and close it at the end.

    An emulated board is started if it has no user yet; `notify` receives messages about slow steps.  A `counting` board
    is a second emulated machine with an exact instruction counter.
    ConnectionFailed, BoardError or ToolError if it cannot be reached, WorkFolderRefused if others may change what
    runs there.
    """
    if profile.local:
        with LocalBoard() as local:
            elsewhere = "set HARNESS_CACHE to a folder that only you can write to"
            work = claim(local, str(cache.resolve() / "host"), elsewhere)
            yield Connection(local, work, _identity(local, profile.name))
    elif profile.bare_metal is not None:
        from harness.boards import bare_metal

        root = cache.resolve() / "bare-metal" / profile.name
        with bare_metal.session(profile, root) as bare:
            elsewhere = "set HARNESS_CACHE to a folder that only you can write to"
            work = claim(bare, str(root), elsewhere)
            yield Connection(bare, work, _identity(bare, profile.name))
    elif profile.address is not None:
        from harness.boards import ssh_config
        from harness.boards.ssh_address import resolve

        address = resolve(profile.address)
        notify(f"connecting to {profile.name} ({address.host})")
        if not ssh_config.is_installed():
            notify(ssh_config.NOT_INSTALLED)
        with _connected(address) as board:
            work = claim(board, profile.work_folder, ELSEWHERE.format(profile.name))
            yield Connection(board, work, _identity_by_ssh(board, profile.name, cache))
    else:
        with _emulated(profile, cache, notify, counting=counting) as board:
            work = claim(board, str(EMULATED_WORK), ELSEWHERE.format(profile.name))
            yield Connection(board, work, _identity_by_ssh(board, profile.name, cache))


def _identity_by_ssh(board: SshBoard, name: str, cache: Path) -> BoardIdentity:
    from harness.boards.keys import GUEST_KEYS, host_fingerprint

    return _identity(board, name, board.address.stated, board.host_key, host_fingerprint(cache / GUEST_KEYS))


def _identity(
    board: Board, name: str, address: str | None = None, host_key: str | None = None, emulator_key: str | None = None
) -> BoardIdentity:
    from harness.boards.tuning.identify import identify  # board_state imports this module

    return identify(board, name, address, host_key, emulator_key)


def _connected(address: Address) -> SshBoard:
    from harness.boards.ssh import SshBoard

    return SshBoard.connect(address)


@contextmanager
def _emulated(profile: Profile, cache: Path, notify: Callable[[str], None], *, counting: bool) -> Iterator[SshBoard]:
    from harness.boards.emulator import Machine, emulated
    from harness.boards.ssh import Address

    emulator = profile.emulator
    if emulator is None:
        raise TypeError(profile)
    cores = 1 if counting else emulator.cores
    machine = Machine(emulator.cpu, cores, emulator.memory_mib, emulator.disk_mib, counting)
    name = f"{profile.name}-counting" if counting else profile.name
    with emulated(name, machine, cache, notify) as at:
        address = Address(host=at.host, port=at.port, user=at.user, key=at.key, known_hosts=at.known_hosts)
        with _connected(address) as board:
            yield board

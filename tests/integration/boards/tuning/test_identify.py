"""What a board is, read from real sessions: this machine, this machine by SSH, an emulated board that poses."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.boards import workspace
from harness.boards.connect import reach
from harness.boards.emulator import Endpoint, Machine
from harness.boards.local import LocalBoard
from harness.boards.profile import Address, Profile
from harness.boards.session import Board
from harness.boards.ssh import SshBoard
from harness.boards.tuning.identify import identify, require_same_boot, this_boot_id
from harness.core.errors import BoardError
from tests.support.boards import sshd
from tests.support.boards.posing import hide_machine, posing, session, set_machine_id

MACHINE = Machine(cpu="cortex-a72", cores=2, memory_mib=512, disk_mib=64)
ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with posing("identifyboard", MACHINE, workspace.cache_folder()) as found:
        yield found


def found_at(endpoint: Endpoint) -> tuple[str, str]:
    with session(endpoint) as board:
        found = identify(board, "xavier", board.address.stated, board.host_key, None)
    return found.kind, found.machine_id


def test_this_machine_is_known_by_its_own_files(host: Profile, tmp_path: Path) -> None:
    with reach(host, tmp_path, print) as connection:
        found = connection.identity
    assert (found.name, found.kind, found.address, found.host_key) == ("host", "this machine", None, None)
    assert found.boot_id == this_boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_this_machine_stays_this_machine_by_ssh(server: sshd.Server, host: Profile, tmp_path: Path) -> None:
    """An address does not make hardware of it."""
    at, folder = server.address, server.folder
    address = Address(host=at.host, port=at.port, key=str(at.key), known_hosts=str(at.known_hosts))
    board = host.model_copy(update={"local": False, "address": address})
    with reach(board, tmp_path, print) as connection:
        found = connection.identity
    assert (found.kind, found.boot_id) == ("this machine", this_boot_id())
    assert found.address == f"{getpass.getuser()}@127.0.0.1:{at.port}"
    assert found.host_key == sshd.fingerprint(folder / "host_key.pub")


@pytest.mark.campaign
def test_a_virtual_machine_is_no_hardware(endpoint: Endpoint) -> None:
    assert found_at(endpoint) == ("virtual machine", "hostname:(none)")
    hide_machine(endpoint)
    assert found_at(endpoint) == ("hardware", "hostname:(none)")
    set_machine_id(endpoint, ID)
    assert found_at(endpoint) == ("hardware", ID)
    set_machine_id(endpoint, "uninitialized")
    assert found_at(endpoint) == ("hardware", "hostname:(none)")


def test_the_host_key_of_emulated_boards_is_not_that_of_another_board(ssh_board: SshBoard) -> None:
    key = ssh_board.host_key
    assert key
    with pytest.raises(BoardError, match="has the host key of the emulated boards of this machine"):
        identify(ssh_board, "xavier", ssh_board.address.stated, key, emulator_key=key)


@pytest.mark.parametrize("how", ["local", "ssh"])
def test_another_boot_is_found(how: str, ssh_board: SshBoard) -> None:
    local = LocalBoard()
    board: Board = local if how == "local" else ssh_board
    found = identify(board, "host", None, None, None)
    require_same_boot(board, found)
    with pytest.raises(BoardError, match=f"restarted meanwhile: its boot-id was 6.* and is {this_boot_id()}"):
        require_same_boot(board, replace(found, boot_id="66666666-2222-3333-4444-555555555555"))

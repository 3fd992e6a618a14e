"""An emulated board that does not state what it is: it takes the part of a board that the tests cannot have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.boards import emulator
from harness.boards.emulator import Endpoint, Machine, emulated
from harness.boards.ssh import Address, SshBoard

MACHINE_ID = "/etc/machine-id"


@contextmanager
def posing(name: str, machine: Machine, cache: Path) -> Iterator[Endpoint]:
    """Start a board without the mark and without the host key of emulated boards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulator, "GUEST_MARK", "posing.name=")
        patch.setattr(emulator, "GUEST_KEYS", Path("guest", "posing-keys"))
        with emulated(name, machine, cache, print) as endpoint:
            yield endpoint


@contextmanager
def session(endpoint: Endpoint) -> Iterator[SshBoard]:
    """Open a session with a board."""
    address = Address(
        host=endpoint.host, port=endpoint.port, user=endpoint.user, key=endpoint.key, known_hosts=endpoint.known_hosts
    )
    with SshBoard.connect(address) as board:
        yield board


def hide_machine(endpoint: Endpoint) -> None:
    """Hide the device tree, by which the board says that it is a virtual machine."""
    with session(endpoint) as board:
        assert board.run(["mount", "-t", "tmpfs", "none", "/sys/firmware/devicetree/base"], 20).status == 0


def set_machine_id(endpoint: Endpoint, machine_id: str) -> None:
    """Write the board's machine-id."""
    with session(endpoint) as board:
        assert board.run(["sh", "-c", f"echo {machine_id} >{MACHINE_ID}"], 20).status == 0

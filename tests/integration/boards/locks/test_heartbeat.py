from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.boards.locks import heartbeat
from harness.boards.locks.heartbeat import Watcher

RELEASED = rb"""#!/bin/sh
printf 'Place p changed:\n  comment: \377\n  acquired: None\n'
"""


@pytest.fixture
def link() -> Iterator[socket.socket]:
    here, there = socket.socketpair()
    with here, there:
        yield there


def test_a_client_that_does_not_start_is_started_again(
    link: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nobody would hear that the place is lost; and what it says need not be of this machine's encoding."""
    client = tmp_path / "client"

    def install() -> None:
        client.write_bytes(RELEASED)
        client.chmod(0o755)

    naps: Iterator[Callable[[], None]] = iter((install, lambda: None))
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(sleep=lambda _: next(naps)()))
    found = Watcher([str(client)], "me", "p", 60.0, 10.0, -1, link, held_s=0.0)
    with pytest.raises(StopIteration):
        found._monitor()
    assert found.lost == "somebody released it"

"""The way ends where its ends do: a board must not take a user for there whose process is gone."""

from __future__ import annotations

import socket

from tests.campaigns.faults.tcp_proxy import LOOPBACK, Way


def test_an_end_that_is_reset_is_told_to_the_other() -> None:
    """As that of a process that ends with something unread."""
    with socket.create_server((LOOPBACK, 0)) as server, Way(server.getsockname()[1]) as way:
        near = socket.create_connection((LOOPBACK, way.port))
        far, _ = server.accept()
        with far:
            far.sendall(b"unread")
            near.recv(1)  # the rest lies there
            near.close()
            far.settimeout(30)
            assert far.recv(1) == b""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.boards.local import LocalBoard
from harness.boards.session import Board
from harness.boards.ssh import Limits, SshBoard
from tests.support.boards import sshd

PATIENT = Limits(connect_s=20, silence_s=20)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Server]:
    executable = sshd.program()
    if executable is None:
        pytest.skip("no SSH server here: apt-get install --no-install-recommends openssh-server")
    with sshd.serving(executable, tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="session")
def gates(tmp_path_factory: pytest.TempPathFactory, server: sshd.Server) -> Iterator[list[sshd.Server]]:  # noqa: ARG001 - it skips
    """Two more servers, which are jump hosts: the outer and the inner one."""
    executable = sshd.program()
    assert executable
    with ExitStack() as stack:
        folders = [tmp_path_factory.mktemp(name) for name in ("outer", "inner")]
        yield [stack.enter_context(sshd.serving(executable, folder)) for folder in folders]


@pytest.fixture
def ssh_board(server: sshd.Server) -> Iterator[Board]:
    with SshBoard.connect(server.address, PATIENT) as session:
        yield session


@pytest.fixture(params=["local", "ssh"])
def board(request: pytest.FixtureRequest) -> Board:
    if request.param == "local":
        return LocalBoard()
    session: Board = request.getfixturevalue("ssh_board")
    return session

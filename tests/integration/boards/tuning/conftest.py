from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.boards import sshd
from tests.support.tuning import system


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a fake system."""
    return system.fake(tmp_path / "system")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Server]:
    executable = sshd.program()
    if executable is None:
        pytest.skip("no SSH server here: apt-get install --no-install-recommends openssh-server")
    with sshd.serving(executable, tmp_path_factory.mktemp("sshd")) as running:
        yield running

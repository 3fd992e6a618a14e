"""The process that serves the commands of these tests."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cli.ready import Servers


def test_a_command_beyond_its_time_does_not_end_later_ones(objects: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers, environment = Servers(objects, stack), {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        asked = ["--version"], environment, tmp_path / "out", tmp_path / "err"
        servers.serving("--version", environment)  # a command's first start may be without a server
        killed = servers.serving("--version", environment)
        assert killed
        with pytest.raises(subprocess.TimeoutExpired):
            killed.run(*asked, timeout_s=0)
        started = servers.serving("--version", environment)
        assert started
        assert started is not killed
        assert started.run(*asked, timeout_s=60) == 0
        assert (tmp_path / "out").read_text().startswith("harness")

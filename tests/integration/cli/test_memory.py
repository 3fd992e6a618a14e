"""The memory of a run."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli.command import User
from tests.support.cli.memory import peak


def test_a_run_of_a_small_network_takes_300_mb(tmp_path: Path, cache: Path) -> None:
    run = ["run", "--board", "host", "--model", "ds_cnn_int8", "--vectors", "300"]
    out, most = peak(User(tmp_path, cache), *run)
    assert "identical: all" in out
    assert most <= 300_000_000

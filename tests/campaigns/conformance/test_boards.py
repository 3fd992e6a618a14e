"""All of ONNX's node tests that the specification passes, on this machine and on emulated boards."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.cli.command import User

BOARDS = {"host": ("c:vector", "c:vector"), "kv260": ("c", "c"), "cortex-m4": ("c", "c")}
"""Boards with the targets of their items: x86-64, an emulated aarch64 Linux, and a processor without one."""


@pytest.mark.campaign
@pytest.mark.timeout(20_000)
@pytest.mark.parametrize(("board", "items"), BOARDS.items(), ids=BOARDS)
def test_no_board_computes_another_bit(tmp_path: Path, cache: Path, board: str, items: tuple[str, str]) -> None:
    user = User(tmp_path, cache)
    command = ("models", "conformance", "--set", "node", "--json")
    specified = user.here(*command).document
    on_board = user.here(*command, "--board", board, "--items", ",".join(items))
    assert on_board.code == 0, on_board.err
    counts = Counter(test["result"] for test in on_board.document["tests"])
    assert counts["wrong"] == 0
    assert counts["pass"] >= 0.95 * specified["counts"]["node"]["pass"]

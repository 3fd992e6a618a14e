"""What is particular to this machine as a board; what it shares with all boards is in test_session.py."""

from __future__ import annotations

import threading
import time
from pathlib import Path, PurePosixPath

import pytest

from harness.boards.local import LocalBoard
from harness.core.errors import BoardError
from tests.support.boards.processes import await_none


def test_messages_name_the_board_host(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    board = LocalBoard()
    with pytest.raises(BoardError) as no_folder:
        board.put(tmp_path / "source", PurePosixPath("/nonexistent/there"))
    with pytest.raises(BoardError) as no_file:
        board.get(PurePosixPath("/nonexistent/there"), tmp_path / "back", 1)
    assert no_folder.value.message == (
        f"cannot copy {tmp_path}/source to /nonexistent/there on host: No such file or directory"
    )
    assert no_file.value.message == "cannot copy /nonexistent/there on host: No such file or directory"


def test_a_descendant_that_keeps_the_output_open_is_killed_at_the_deadline() -> None:
    with pytest.raises(BoardError, match=r"^sh on host did not end within 0\.3 s and was killed$"):
        LocalBoard().run(["sh", "-c", "sleep 61.75 & exit 0"], 0.3)
    await_none("sleep", "61.75")


def test_a_program_ends_with_its_session() -> None:
    board = LocalBoard()

    def close() -> None:
        while not board._running:
            time.sleep(0.01)
        board.close()

    threading.Thread(target=close, daemon=True).start()
    assert board.run(["sleep", "61.85"], 60).status == 137
    await_none("sleep", "61.85")

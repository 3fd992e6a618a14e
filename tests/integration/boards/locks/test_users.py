"""Two users of one machine, by the kernel's own rights: neither can write what the other has made."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.boards.locks import lock, quarantine
from harness.boards.locks.lease_guard import BoardLost, Held
from harness.core.errors import BoardError
from tests.support.locks.holder import NOBODY, SHORT, board, common_folder, nobody, queue

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")


@pytest.fixture
def folder() -> Iterator[Path]:
    with common_folder() as common:
        with board(common, "the first makes the folder", 0):
            pass
        yield common


def holds(folder: Path, ready: int) -> None:
    """Hold the board for as long as it lasts."""
    with board(folder, "run acas_coc", 0, SHORT) as held:
        os.write(ready, b"held")
        work(held)


def work(held: Held) -> None:
    """Use the board for 20 s, if it lasts that long."""
    for _ in range(1000):
        time.sleep(0.02)
        held.check()


def test_one_user_waits_for_the_other(folder: Path) -> None:
    ready, says = os.pipe()
    with nobody(lambda: holds(folder, says)) as pid:
        assert os.read(ready, 4) == b"held"
        with pytest.raises(BoardError, match=r"in use by nobody@.* \(pid \d+, run acas_coc\)"), board(folder, "run", 0):
            pass
        os.kill(pid, signal.SIGKILL)
        with board(folder, "run", 10):
            pass
    [left] = folder.iterdir()  # only its owner removes it
    assert left.stat().st_uid == NOBODY


def test_a_user_takes_a_board_by_force_without_touching_the_others_file(folder: Path) -> None:
    def force() -> None:
        with queue(folder) as xavier:
            with pytest.raises(BoardError, match="in use by root@"):
                lock.release(xavier, force=False)
            [taken] = lock.release(xavier, force=True)
            assert taken.owner.user == "root"

    with pytest.raises(BoardLost, match=r"nobody@.*took it away"), board(folder, "run", 0) as held, nobody(force):
        work(held)


def test_a_stopped_holder_of_another_user_is_passed_and_ends(folder: Path) -> None:
    ready, says = os.pipe()

    def ends() -> None:
        with pytest.raises(BoardLost, match=r"root@.* took it over: the lease of nobody@.* had run out"):
            holds(folder, says)

    with nobody(ends) as pid:
        assert os.read(ready, 4) == b"held"
        os.kill(pid, signal.SIGSTOP)
        with board(folder, "run", 30):
            os.kill(pid, signal.SIGCONT)


def test_any_user_lifts_a_quarantine_that_another_has_put(folder: Path) -> None:
    def put(reason: str) -> None:
        with queue(folder) as xavier:
            quarantine.put(xavier, reason)

    with nobody(lambda: put("disk \x1b[31mfull")):
        pass
    with queue(folder) as xavier:
        found = quarantine.find(xavier)
        assert found
        assert (found.reason, found.by) == ("disk [31mfull", "nobody")
        put("")
        assert quarantine.find(xavier) is None
    with nobody(lambda: put("again")):
        pass
    with queue(folder) as xavier:
        assert quarantine.find(xavier)


def test_another_users_quarantine_says_what_it_is_allowed_to_only(folder: Path) -> None:
    (folder / "xavier.health.65534").write_text('{"sequence": 9, "reason": "not his", "since_s": 0}')
    (folder / "xavier.health.0").write_text("[")
    (folder / "xavier.health.x").write_text("{}")
    with queue(folder) as xavier:
        assert quarantine.find(xavier) is None

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.local import LocalBoard
from harness.boards.tuning import restore_journal
from harness.boards.tuning.restore_journal import Ledger
from harness.core.errors import BoardError
from tests.support.tuning.system import CPU, on_board

GOVERNOR = f"{CPU}/cpu0/cpufreq/scaling_governor"
KEPT = Ledger("a boot", {GOVERNOR: "schedutil", "proc/irq/7/smp_affinity_list": "0-3,5"}, commands=True)


def test_what_is_kept_is_loaded_and_removed(tmp_path: Path) -> None:
    work = on_board(tmp_path)
    restore_journal.keep(LocalBoard(), work, KEPT)
    assert restore_journal.load(LocalBoard(), work) == KEPT
    restore_journal.remove(LocalBoard(), work)
    assert restore_journal.load(LocalBoard(), work) is None


@pytest.mark.parametrize(
    "line",
    [
        "etc/passwd\troot",
        f"../{GOVERNOR}\tschedutil",
        f"{CPU}/cpu0/../../x/scaling_governor\tschedutil",
        f"{GOVERNOR}\t$(reboot)",
        f"{GOVERNOR}\t",
        f"{GOVERNOR} schedutil",
        "proc/irq/x/smp_affinity_list\t0",
        f"{GOVERNOR}\tother; reboot",
    ],
)
def test_only_what_the_harness_sets_is_taken_from_the_board(line: str) -> None:
    assert restore_journal.parse((*restore_journal.text(KEPT).splitlines(), line)) == KEPT


@pytest.mark.parametrize("lines", [(), ("another file",), (restore_journal.HEAD,), ("x", "y", "z")])
def test_another_file_is_no_ledger(lines: tuple[str, ...]) -> None:
    assert restore_journal.parse(lines) is None


def test_a_folder_that_cannot_be_written_is_told_before_anything_changes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BoardError, match="cannot keep the values before on the board") as caught:
        restore_journal.keep(LocalBoard(), on_board(tmp_path / "file"), KEPT)
    assert caught.value.hint == f"make {tmp_path}/file writable there, or name another work_folder in the profile"

"""The page says what the cells say."""

from __future__ import annotations

from tests.campaigns.faults.campaign import Cell, First
from tests.campaigns.faults.faults import FAULTS
from tests.campaigns.faults.page import PAGE, general, page
from tests.campaigns.faults.stage import Step

LOST = First("inconclusive", "network", "network: lost the board root@127.0.0.1:40919", "is it still on?", 2)
WENT_ON = First("identical", "", "all are", "", 3)
CELLS = [
    Cell("connection cut", Step.DEPLOY, LOST, 0.26, resumed=True, complaints=()),
    Cell("connection cut", Step.END, WENT_ON, 0.0, resumed=False, complaints=()),
    Cell("program killed", Step.EXECUTE, First("killed", "", "", "", 1), 1.0, resumed=True, complaints=("it hangs",)),
]


def rows(text: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines}


def test_a_row_is_a_fault_and_a_column_a_step() -> None:
    table = rows(page(CELLS, {"host's disk full": "no root"}, "today."))
    assert table["fault"] == list(Step)
    assert table["connection cut"] == ["inconclusive (network) / 2 / 0.3", "-", "-", "-", "-", "identical"]
    assert table["program killed"][1] == "**WRONG** killed / 1 / 1.0"
    assert table["host's disk full"] == ["not tried"] * 6
    assert set(table) == {"fault", "---", "connection cut", "program killed", "host's disk full"}


def test_the_totals_count_runs() -> None:
    text = page(CELLS, {}, "today.")
    assert "\n\n3 runs were disturbed: 1 continued to `identical`, 1 were `inconclusive`, 1 `killed`." in text
    assert "2 were resumed; the board of each was free at most 1.0 s after the fault." in text
    assert "1 runs failed a condition." in text
    assert "- program killed, execute: it hangs" in text
    assert "Failed conditions" not in page(CELLS[:2], {}, "today.")


def test_a_message_is_shown_without_what_is_another_one_in_every_run() -> None:
    assert "- network: lost the board root@board. *is it still on?*" in page(CELLS, {}, "today.")
    path = "/home/someone/runs/20261122-153442_board_net/target/00001/00_e1.npy"
    assert general(f"cannot write {path}: full") == "cannot write /runs/RUN/target/00001/00_e1.npy: full"
    on_board = "/board/runs/20261122-153442_board_net_1a2b3c4d.0123abcd/out1"
    assert general(f"{on_board} of /board/bundles/0123456789abcdef/x: {'a' * 64}") == (
        "/board/runs/RUN/out1 of /board/bundles/BUNDLE/x: ..."
    )


def test_the_page_has_all_faults_and_nothing_wrong() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in rows(text) if name not in {"fault", "---"}] == [fault.name for fault in FAULTS]
    assert "WRONG" not in text

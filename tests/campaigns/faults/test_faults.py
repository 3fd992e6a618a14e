"""Faults at each step, the same every day; `python -m tests.campaigns.faults` tries all."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.boards import workspace
from tests.campaigns.faults.campaign import IDENTICAL, attempt, undisturbed
from tests.campaigns.faults.faults import FAULTS, Fault, Untried
from tests.campaigns.faults.laboratory import Laboratory
from tests.campaigns.faults.stage import Step

REPRESENTATIVE = {
    "connection cut": Step.COLLECT,
    "board without power": Step.EXECUTE,
    "program killed": Step.EXECUTE,
    "bundle altered on the board": Step.COMPARE,
    "host's disk full": Step.WRITE,
    "two users at once": Step.DEPLOY,
    "host without power": Step.END,
}
"""Faults of the link, the board, the program, the files, the host, and of a second user, each at one of its steps."""
BY_NAME = {fault.name: fault for fault in FAULTS}
CHOSEN = [(BY_NAME[name], step) for name, step in REPRESENTATIVE.items()]
LIKE_OTHERS = {"board without power", "program killed", "bundle altered on the board", "two users at once"}
"""Faults like a cut connection, and like those of integration/execution/test_program.py and cli/test_boards.py."""
DAY_S = 86_400


@pytest.fixture(scope="module")
def lab(objects: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    with Laboratory(tmp_path_factory.mktemp("lab"), workspace.cache_folder(), objects) as lab:
        yield lab


@pytest.fixture(scope="module")
def expected(lab: Laboratory) -> str:
    return undisturbed(lab)


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        pytest.param(
            fault, step, id=f"{fault.name}, {step}", marks=pytest.mark.campaign if fault.name in LIKE_OTHERS else ()
        )
        for fault, step in CHOSEN
    ],
)
def test_a_fault_changes_no_verdict_and_keeps_what_is_finished(
    lab: Laboratory, expected: str, fault: Fault, step: Step
) -> None:
    try:
        cell = attempt(lab, fault, step, expected)
    except Untried as reason:
        pytest.skip(str(reason))
    assert cell.complaints == ()
    assert (cell.first.verdict == IDENTICAL) is not cell.resumed


def test_the_chosen_faults_cover_every_step() -> None:
    assert all(step in fault.steps for fault, step in CHOSEN)
    assert set(REPRESENTATIVE.values()) == set(Step)


@pytest.mark.campaign
def test_the_same_tests_are_chosen_every_day(tmp_path: Path) -> None:
    library, clock = tmp_path / "clock.so", tmp_path / "clock"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    collected = []
    for days in (0, 1, 7):
        clock.write_bytes(struct.pack("q", days * DAY_S))
        collected.append(_collected({"LD_PRELOAD": str(library), "FAULTS_CLOCK": str(clock)}))
    assert collected[0] == collected[1] == collected[2]
    assert len([line for line in collected[0] if "test_a_fault_changes_no_verdict" in line]) == len(REPRESENTATIVE)


def _collected(environment: dict[str, str]) -> list[str]:
    """Return the names of the tests that a session with this environment collects."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "faults", "security"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True, env=ours | environment
    )
    return [line for line in done.stdout.splitlines() if "::" in line]

"""A slice of the campaign: hostile files, some of them in processes of little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.campaigns.security.campaign import attack
from tests.campaigns.security.entry_points import DOORS, PROPERTY, TERMS, enter
from tests.campaigns.security.mutations import BOMB, MERGES
from tests.campaigns.security.page import page
from tests.campaigns.security.worker import content

SLICE = 1_000_000  # inputs that the campaign does not have
FEW = {
    "nightly.yaml": 4,
    "run.json": 8,
    "chunk.json": 8,
    "decide.json": 4,
}  # each is read with every board, or verified with its run
BIG_SIZES = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 3), }".ljust(127) + b"\n"


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", DOORS)
def test_hostile_files_are_accepted_or_refused_with_a_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    count = FEW.get(name, 25)
    endings = {enter(DOORS[name], content(DOORS[name], name, SLICE + index), tmp_path) for index in range(count)}
    assert endings <= {"accepted", "refused"}
    assert not list(tmp_path.rglob("*pwned*"))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", DOORS)
def test_honest_files_are_accepted(name: str, tmp_path: Path) -> None:
    assert {enter(DOORS[name], honest, tmp_path) for honest in DOORS[name].honest()[:1]} == {"accepted"}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("boards.yaml", (BOMB + "\n").encode()),
        ("boards.yaml", MERGES.encode()),
        ("boards.yaml", b"a: " + b"[" * 100_000),
        ("boards.yaml", b"a: {soc: !!python/object/apply:os.system ['touch pwned']}"),
        ("property.yaml", PROPERTY.replace("1e0", "'1e999999999'").encode()),
        ("property.yaml", PROPERTY.replace("-pi", "-pi/1e-999999999").encode()),
        ("property.yaml", PROPERTY.replace("intervals: 4", "intervals: 65536").encode()),
        ("property.vnnlib", TERMS.replace("0.25", "1e999999999").encode()),
        ("property.vnnlib", (TERMS + "(assert (or (>= Y_0 1) (>= Y_1 1)))\n" * 26).encode()),
        ("property.vnnlib", (TERMS + f"(assert (and{' (or (>= Y_0 1) (>= Y_1 1))' * 40}))\n").encode()),
        ("vectors.npy", BIG_SIZES.replace(b"%d", b"9" * 19)),
        ("vectors.npy", BIG_SIZES.replace(b"%d", b"1" + b"0" * 12)),
        ("vectors.npy", BIG_SIZES.replace(b"%d, 3", b"(" * 60)),
    ],
)  # fmt: skip
def test_what_would_need_much_memory_or_time_is_refused(
    name: str, given: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert enter(DOORS[name], given, tmp_path) == "refused"
    assert not (tmp_path / "pwned").exists()


def test_an_input_can_be_made_again() -> None:
    door = DOORS["model"]
    assert content(door, "model", 5) == content(door, "model", 5) != content(door, "model", 6)
    assert np.frombuffer(content(door, "model", 5), np.uint8).size


def test_the_campaign_notices_bugs_crashes_memory_and_what_is_left_behind(tmp_path: Path) -> None:
    found = attack("broken", 0, 24, tmp_path)
    for words in (
        "KeyError: 1",
        "the process ended with -11",
        "MemoryError",
        "a control character reached the terminal",
    ):
        assert any(words in hole for hole in found.holes), found.holes
    assert found.planted == ["pwned"]
    assert "KeyError: 1" in page([found], "today.")


@pytest.mark.campaign
def test_a_campaign_of_processes_with_little_memory_goes_through(tmp_path: Path) -> None:
    found = attack("model", SLICE, 40, tmp_path)
    assert (found.inputs, found.holes, found.planted) == (40, [], [])

"""A former measurement is compared only with one of the same parts, and only if it computed the model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.boards.identity import BoardIdentity
from harness.boards.profile import Profile
from harness.core.errors import RequestError
from harness.plan import planner
from harness.plan.plan import Plan
from harness.runs.measurement.base import READINGS_FILE, read, read_all, require_kind
from harness.runs.measurement.request import MeasurementOptions, Quantity
from tests.support import builders
from tests.support.identities import EMULATED_XAVIER, HOST, XAVIER
from tests.support.programs.board_program import parse

ASKED = MeasurementOptions(10, "item", Quantity.TIME, "idle", 0)


@pytest.fixture
def made(host: Profile) -> Plan:
    net = parse(builders.random_network(np.random.default_rng(7), (5, 8, 4)))
    return planner.make(net, host, ["c", "c"], 1)


def measured(folder: Path, made: Plan, **changes: Any) -> Path:
    """A folder as a measurement leaves it, as far as it is looked at."""
    np.save(folder / READINGS_FILE, np.ones((10, 2), np.uint64))
    document = {
        "kind": "measure",
        "started": "2026-11-22T12:00:00Z",
        "board": {"name": "host", "kind": "this machine"},
        "model": {"sha256": made.network.sha256},
        "measured": {"scope": "item", "quantity": "time", "segment": 10},
        "load": {"name": "idle"},
        "parts": [{"name": "prepost"}, {"name": "network"}],
        "outputs": {"differing": 0},
        "readings": {"sha256": hashlib.sha256((folder / READINGS_FILE).read_bytes()).hexdigest()},
    }
    (folder / "run.json").write_text(json.dumps(document | changes))
    return folder


def test_the_same_parts_are_compared(tmp_path: Path, made: Plan, host: Profile) -> None:
    assert read(measured(tmp_path, made), host, made, ASKED).readings.shape == (10, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": [{"name": "prepost"}]}, "its list of parts is prepost, here it is prepost, network"),
        ({"outputs": {"differing": 3}}, "its outputs were not the reference's"),
        ({"parts": None}, "not a finished measurement"),
    ],
)
def test_others_are_refused(tmp_path: Path, made: Plan, host: Profile, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read(measured(tmp_path, made, **changes), host, made, ASKED)


@pytest.mark.parametrize("taken_off", [{}, {"taken_off": 3}])
def test_counts_without_what_was_taken_off_are_not_compared(
    tmp_path: Path, made: Plan, host: Profile, taken_off: dict[str, int]
) -> None:
    counted = dataclasses.replace(ASKED, quantity=Quantity.INSTRUCTIONS)
    said = {"scope": "item", "quantity": "instructions", "segment": 10}
    folder = measured(tmp_path, made, measured=said, parts=[{"name": n} | taken_off for n in ("prepost", "network")])
    if taken_off:
        assert read(folder, host, made, counted).folder == folder
        return
    with pytest.raises(RequestError, match="it was measured by an earlier version, which did not record taken_off"):
        read(folder, host, made, counted)


@pytest.mark.parametrize("text", ["[]", '{"kind": "measure", "board": []}', '{"kind": "measure", "kind": "run"}', "["])
def test_what_is_no_document_of_a_measurement_is_refused(tmp_path: Path, made: Plan, host: Profile, text: str) -> None:
    (measured(tmp_path, made) / "run.json").write_text(text)
    with pytest.raises(RequestError, match="not a finished measurement"):
        read(tmp_path, host, made, ASKED)


def test_one_measurement_named_twice_tells_no_noise(tmp_path: Path, made: Plan, host: Profile) -> None:
    folder = measured(tmp_path, made)
    with pytest.raises(RequestError, match="names a measurement twice"):
        read_all([folder, folder / "." / ".." / folder.name], host, made, ASKED)


def test_earlier_times_of_the_same_program_follow_a_single_base(tmp_path: Path, made: Plan, host: Profile) -> None:
    folders = [tmp_path / name for name in ("base", "same", "other", "wrong")]
    for folder in folders:
        folder.mkdir()
    base, same, other, wrong = folders
    measured(base, made, bundle={"sha256": "ab"})
    measured(same, made, bundle={"sha256": "ab"})
    measured(other, made, bundle={"sha256": "cd"})
    measured(wrong, made, bundle={"sha256": "ab"}, outputs={"differing": 1})
    assert [one.folder for one in read_all([base], host, made, ASKED, folders)] == [base, same]
    assert [one.folder for one in read_all([base, same, other], host, made, ASKED, folders)] == [base, same, other]
    measured(base, made, bundle={"sha256": "ab"}, measured={"scope": "item", "quantity": "cycles", "segment": 10})
    counted = dataclasses.replace(ASKED, quantity=Quantity.CYCLES)
    with pytest.raises(RequestError, match="did not record taken_off"):
        read_all([base], host, made, counted, folders)


@pytest.mark.parametrize("reached", [XAVIER, EMULATED_XAVIER])
def test_another_kind_of_board_is_refused_when_it_is_reached(
    tmp_path: Path, made: Plan, host: Profile, reached: BoardIdentity
) -> None:
    base = read(measured(tmp_path, made), host, made, ASKED)
    require_kind([base], HOST)
    with pytest.raises(RequestError, match=f"its kind of board is this machine, the board reached is {reached.kind}"):
        require_kind([base], reached)

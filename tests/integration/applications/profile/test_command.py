"""`harness profile` as a user types it: on this machine, and the exact counts of an emulated board."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from harness.applications.profile.document import processor_times
from harness.boards.emulator import emulated
from harness.core.errors import RequestError
from harness.runs.measurement.document import Cpu
from harness.runs.measurement.request import Quantity
from tests.integration.cli.test_measure import MACHINE, NAME, NETWORK, _laboratory
from tests.support.cli.command import Ended, User

NAMES = ["quantize", "layer_0", "layer_1", "layer_2"]
SAMPLES = 400


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profiles")
    onnx.save(NETWORK, folder / "network.onnx")
    return folder


def profiled(user: User, home: Path, *options: str) -> Ended:
    given = ("--board", "host", "--model", str(home / "network.onnx"), "--items", "c,c", "--warmup", "10")
    return user.harness("profile", *given, "--samples", str(SAMPLES), "--json", *options)


@pytest.fixture(scope="module")
def base(home: Path, cache: Path) -> Ended:
    return profiled(User(home, cache), home, "--speedscope", str(home / "profile.json"))


@pytest.fixture
def copy(base: Ended, tmp_path: Path) -> Path:
    """A copy of its folder, to be changed."""
    return Path(shutil.copytree(base.document["run"], tmp_path / "copy"))


def test_a_profile_follows_from_the_readings(base: Ended) -> None:
    assert base.code == 0, base.err
    document, folder = base.document, Path(base.document["run"])
    real, cpu = (np.load(folder / f"{name}.npy") for name in ("readings", "cpu"))
    assert {np.load(folder / f"{name}.npy").shape for name in ("readings", "cpu", "user", "system")} == {
        (SAMPLES, len(NAMES))
    }
    assert [node["name"] for node in document["nodes"]] == NAMES
    costs = {entry["quantity"]: entry["cost_ns"] for entry in document["cpu"]}
    for column, node in enumerate(document["nodes"]):
        assert node["amount"] == np.sort(real[:, column])[(SAMPLES - 1) // 2]
        assert node["cpu_ns"] == max(cpu[:, column].mean() - costs["cpu"], 0)
        assert (node["user_ns"], node["system_ns"]) == (None, None)  # of a microsecond, the readings would be divided
        for execution, vector, time_ns in node["outliers"]["slowest"]:
            assert (execution, time_ns) == (vector, real[execution, column])
            assert time_ns > node["outliers"]["above_ns"]
    total = sum(np.sort(real, axis=0)[(SAMPLES - 1) // 2])
    assert document["total"]["amount"] == total
    assert sum(node["share"] for node in document["nodes"]) == pytest.approx(1)
    [dense] = [entry for entry in document["operators"] if entry["operator"] == "QGemm"]
    assert (dense["nodes"], dense["amount"]) == (3, sum(node["amount"] for node in document["nodes"][1:]))
    [first] = [node for node in document["nodes"] if node["name"] == "layer_0"]
    assert first["operations"] == 5 * 20 * 2 + 20  # products and sums, and the bias
    assert first["operations_per_s"] == pytest.approx(first["operations"] / first["amount"] * 1e9)
    assert first["bytes"] > 5 * 20 + 5 + 20
    assert 100 < document["peak_memory_kib"] < 1 << 24
    assert document["peak"] is None
    assert document["not_met_because"] == json.loads((folder / "run.json").read_text())["measured"]["not_met_because"]


@pytest.mark.parametrize(("cpu_ns", "given"), [(100_300, True), (99_000, False)])
def test_user_and_system_times_are_those_of_nodes_that_are_long_against_a_reading(cpu_ns: int, given: bool) -> None:
    times = {Quantity.CPU: (cpu_ns, 300.0), Quantity.USER: (90_000, 400.0), Quantity.SYSTEM: (500, 600.0)}
    cpu = {
        quantity: Cpu(np.array([[0, mean - 10], [0, mean + 10]], np.uint64), cost_ns)
        for quantity, (mean, cost_ns) in times.items()
    }
    divided = {"user_ns": 89_600.0, "system_ns": 0.0} if given else {"user_ns": None, "system_ns": None}
    assert processor_times(cpu, 1, 1) == {"cpu_ns": cpu_ns - 300.0, **divided}
    assert processor_times({}, 1, 1) == {"cpu_ns": None, "user_ns": None, "system_ns": None}


def test_the_profile_of_speedscope_is_one_execution(base: Ended, home: Path) -> None:
    found = json.loads((home / "profile.json").read_text())
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    [profile] = found["profiles"]
    assert (profile["type"], profile["unit"], profile["startValue"]) == ("evented", "nanoseconds", 0)
    assert profile["endValue"] == base.document["total"]["amount"]
    frames, open_frames, at, taken = found["shared"]["frames"], [], 0.0, {}
    for event in profile["events"]:
        assert event["at"] >= at
        at = event["at"]
        if event["type"] == "O":
            open_frames.append((event["frame"], at))
        else:
            frame, begun = open_frames.pop()
            assert (event["type"], event["frame"]) == ("C", frame)
            taken[frames[frame]["name"]] = at - begun
    assert open_frames == []
    assert taken["QGemm layer_1"] == pytest.approx(base.document["nodes"][2]["amount"])
    assert {frame.get("file") for frame in frames} == {
        None,
        "harness/operators/qgemm.py",
        "harness/operators/quantize_linear.py",
    }


def claims(user: User, folder: Path) -> dict[str, str]:
    ended = user.here("verify", str(folder), "--json", "--no-rebuild", "--reference", "none")
    return {claim["claim"]: claim["state"] for claim in ended.document["claims"]}


def test_the_evidence_of_a_profile_is_verified(base: Ended, copy: Path, home: Path, cache: Path) -> None:
    user = User(home, cache)
    states = claims(user, Path(base.document["run"]))
    assert states["profile"] == states["numbers"] == states["files"] == "ok"
    document = json.loads((copy / "profile.json").read_text())
    document["nodes"][1]["cpu_ns"] += 5000
    (copy / "profile.json").write_text(json.dumps(document))
    states = claims(user, copy)
    assert (states["profile"], states["numbers"]) == ("not ok", "ok")


def test_two_profiles_are_compared_node_by_node(base: Ended, home: Path, cache: Path) -> None:
    again = profiled(User(home, cache), home, "--against", base.document["run"]).document
    assert again["against"] == Path(base.document["run"]).name
    before = {node["name"]: node["amount"] for node in base.document["nodes"]}
    assert {node["name"]: node["base"] for node in again["nodes"]} == before
    assert all(node["ratio"] == node["amount"] / node["base"] for node in again["nodes"])
    assert claims(User(home, cache), Path(again["run"]))["profile"] == "ok"


def test_the_roofline_is_that_of_the_peaks_in_the_profile_of_the_board(home: Path, tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache).with_local("host: {peak: {operations_per_s: 5.0e+12, bytes_per_s: 1.0e+9}}\n")
    ended = profiled(user, home)
    assert ended.document["peak"] == {"operations_per_s": 5e12, "bytes_per_s": 1e9}
    for node in ended.document["nodes"][1:]:
        roof = node["operations"] / node["bytes"] * 1e9
        assert node["of_roof"] == pytest.approx(node["operations_per_s"] / roof)
    shown = User(tmp_path, cache, user.boards).harness("profile", "--board", "host", "--model", "nothing")
    assert (shown.code, "unknown model 'nothing'" in shown.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--board", "cortex-m4"), "its times are not those of the processor"),
        (("--board", "host", "--block", "7"), "a measurement executes one vector at a time"),
        (("--board", "host", "--speedscope", "nowhere/file.json"), "there is no folder nowhere"),
    ],
)
def test_a_wrong_request_is_refused(options: tuple[str, ...], message: str, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(RequestError, match=message):
        User(tmp_path, cache).here("profile", "--model", "acas_coc", *options)


@pytest.fixture
def counting(cache: Path) -> Iterator[None]:
    with emulated(f"{NAME}-counting", replace(MACHINE, cores=1, counting=True), cache, print):
        yield


@pytest.mark.campaign
@pytest.mark.usefixtures("counting")
def test_an_emulated_board_has_instructions_and_no_times(tmp_path: Path, cache: Path) -> None:
    user = User(tmp_path, cache, _laboratory(tmp_path))
    ended = user.harness("profile", "--board", NAME, "--model", "acas_coc", "--samples", "100", "--json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = ended.document
    assert (document["unit"], document["cpu"], document["board_kind"]) == ("instructions", [], "emulated")
    assert document["not_met_because"].startswith("instructions were counted, no time was measured")
    for node in document["nodes"]:
        assert node["amount"] > 50
        absent = ("cpu_ns", "user_ns", "system_ns", "operations_per_s", "bytes_per_s", "of_roof", "outliers")
        assert [node[key] for key in absent] == [None] * len(absent)
    assert claims(user, Path(document["run"]))["profile"] == "ok"

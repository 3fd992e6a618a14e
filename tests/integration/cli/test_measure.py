"""`harness measure` as a user types it: on this machine, and the exact counts of an emulated board."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import yaml

from harness.boards.emulator import Machine, emulated
from harness.boards.workspace import Workspace
from harness.cli import measure as command
from harness.core.console import Console
from harness.core.installation import ROOT
from harness.runs.folder import differs_so_far
from tests.support import builders
from tests.support.cli import kernels
from tests.support.cli.command import Ended, User

NETWORK = builders.random_network(np.random.default_rng(3), (5, 20, 20, 4))
NAME = "testboard"
MACHINE = Machine(cpu="cortex-a53", cores=2, memory_mib=512, disk_mib=64)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("measurements")


@pytest.fixture(scope="module")
def model(home: Path) -> str:
    onnx.save(NETWORK, home / "network.onnx")
    return str(home / "network.onnx")


@pytest.fixture(scope="module")
def base(home: Path, model: str, cache: Path) -> Ended:
    """A measurement that nobody changes."""
    return measured(User(home, cache), model, "--samples", "1500", "--warmup", "10")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def copy(base: Ended, tmp_path: Path) -> Path:
    """A copy of its folder, to be changed."""
    return Path(shutil.copytree(folder_of(base), tmp_path / "copy"))


def measured(user: User, model: str, *options: str) -> Ended:
    return user.harness("measure", "--board", "host", "--model", model, "--items", "c,c", "--json", *options)


def folder_of(ended: Ended) -> Path:
    return Path(ended.document["run"])


def test_a_measurement_keeps_all_that_it_tells(base: Ended) -> None:
    assert base.code == 0, base.err
    document, folder = base.document, folder_of(base)
    readings = np.load(folder / "readings.npy")
    assert (readings.shape, readings.dtype) == ((1500, 1), np.uint64)
    [part] = document["parts"]
    assert part["summary"]["executions"] == 1500
    assert (part["summary"]["min_ns"], part["summary"]["max_ns"]) == (readings.min(), readings.max())
    assert part["summary"]["median_ns"] == np.sort(readings[:, 0])[749]  # a time of an execution, the lower of the two
    run = json.loads((folder / "run.json").read_text())
    assert (run["kind"], run["verdict"], document["verdict"]) == ("measure", "measured", "measured")
    assert run["measured"]["warmup"] == 10
    assert run["measured"]["block"] == 1
    assert run["outputs"]["compared"] == 1500 * 4
    assert run["outputs"]["differing"] == 0
    assert run["clock"]["source"] == "CLOCK_MONOTONIC_RAW"
    assert 0 < run["clock"]["cost"]["median_ns"] < part["summary"]["median_ns"]
    assert len(run["state"]["snapshots"]) == 2
    assert "kernel" in run["board"]["environment"]
    # Two schedulers' times are those of neither.
    virtual = "virtual_machine" in run["board"]["environment"]
    assert ("a virtual machine" in run["measured"]["not_met_because"]) == virtual


def test_every_file_has_its_hash(base: Ended) -> None:
    folder = folder_of(base)
    files = json.loads((folder / "run.json").read_text())["files"]
    assert files.keys() >= {"readings.npy", "stimuli.npy", "report.html", "times.csv", "table.tex", "junit.xml"}
    assert all(sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in files.items())


@pytest.mark.parametrize(
    ("scope", "names"), [("item", ["prepost", "network"]), ("layer", ["quantize", "layer_0", "layer_1", "layer_2"])]
)
def test_items_and_layers_are_timed_by_their_names(user: User, model: str, scope: str, names: list[str]) -> None:
    ended = measured(user, model, "--samples", "200", "--scope", scope)
    assert [part["name"] for part in ended.document["parts"]] == names
    assert np.load(folder_of(ended) / "readings.npy").shape == (200, len(names))


def test_a_headline_is_the_same_on_terminal_and_in_the_history(user: User, model: str) -> None:
    words = ("measure", "--board", "host", "--model", model, "--items", "c,c", "--scope", "layer", "--samples", "200")
    lines = user.harness(*words).out.splitlines()
    [headline] = [line.removeprefix("measured: ") for line in lines if line.startswith("measured: ")]
    numbers = headline.removesuffix(" of 200 executions")
    assert re.fullmatch(r"layer \w+ \(largest median of 4\): median [\d,]+ ns, maximum [\d,]+ ns", numbers), headline
    [run] = user.harness("history", "--json").document["runs"]
    assert run["headline"] == numbers
    assert "measure: layer " in user.harness("history").out
    user.harness("report", "--site", str(user.folder / "site"))
    pages = [path.read_text() for path in (user.folder / "site").glob("*.html")]
    assert any(numbers in page for page in pages)


def test_long_measurements_are_segments_of_fresh_processes(user: User, model: str) -> None:
    """As many as the time that is asked for takes, each of all vectors."""
    document = measured(user, model, "--samples", "50", "--duration", "1s").document
    run = json.loads((Path(document["run"]) / "run.json").read_text())
    count = run["measured"]["segments"]
    assert count > 1
    assert document["wall_s"] >= 1
    assert run["measured"]["samples"] == 50 * count
    assert len(run["state"]["snapshots"]) == count + 1
    assert [segment["process"].keys() for segment in run["state"]["segments"]] == [
        {"voluntary_switches", "involuntary_switches", "minor_faults", "major_faults", "peak_memory_kib"}
    ] * count


def test_a_stand_in_s_times_are_no_met(user: User, model: str) -> None:
    given = ("measure", "--board", "host", "--model", model, "--items", "c,cuda:fused", "--samples", "50", "--json")
    document = user.harness(*given).document
    assert "host-simulation of CUDA" in document["measured"]["not_met_because"]


def test_the_same_program_is_compared_part_by_part(user: User, model: str, base: Ended) -> None:
    ended = measured(user, model, "--samples", "1500", "--against", str(folder_of(base)))
    assert ended.document["against"]["base"]["run"] == folder_of(base).name
    assert [part["name"] for part in ended.document["against"]["parts"]] == ["network"]


def test_a_base_is_found_by_its_name(user: User, model: str, copy: Path) -> None:
    (user.folder / "runs").mkdir()
    copy.rename(user.folder / "runs" / "20260101-000000_base")
    ended = measured(user, model, "--samples", "100", "--against", "20260101-000000_base")
    assert ended.document["against"]["base"]["run"] == "20260101-000000_base", ended.err


def forge(folder: Path, change: float) -> None:
    """Make a measurement say that it took `change` times as long, with hashes that are right."""
    overwrite(folder, (np.load(folder / "readings.npy") * change).astype(np.uint64))


def overwrite(folder: Path, readings: npt.NDArray[np.uint64]) -> None:
    """Replace the readings of a measurement, with hashes that are right."""
    path = folder / "readings.npy"
    np.save(path, readings)
    run = json.loads((folder / "run.json").read_text())
    run["readings"]["sha256"] = sha256(path.read_bytes()).hexdigest()
    (folder / "run.json").write_text(json.dumps(run))


def test_slower_than_before_is_a_regression(user: User, model: str, copy: Path) -> None:
    forge(copy, 0.02)
    ended = measured(user, model, "--samples", "1500", "--against", str(copy))
    assert (ended.code, ended.document["verdict"]) == (1, "regressed")
    assert copy.name in ended.document["reason"]
    assert "the gate contains no noise between runs, because it has 1 base" in ended.document["reason"]


def test_a_base_that_is_too_noisy_is_inconclusive(user: User, model: str, copy: Path) -> None:
    """Refuse a verdict where the level of the base wanders from 10 µs to 100 ms."""
    overwrite(copy, np.repeat(np.logspace(4, 8, 10).astype(np.uint64), 150)[:, None])
    ended = measured(user, model, "--samples", "1500", "--against", str(copy))
    assert (ended.code, ended.document["verdict"]) == (3, "inconclusive")
    assert re.match(
        r"base too noisy: network: median gate [\d,]+ ns \([\d,.]+% of the base\)", ended.document["reason"]
    )
    assert ended.document["against"]["too_noisy"] == ["network"]
    [compared] = ended.document["against"]["parts"]
    assert all(shift["gate_ns"] > 0.2 * shift["base_ns"] and shift["too_noisy"] for shift in compared["shifts"])
    page = (folder_of(ended) / "report.html").read_text()
    assert "Nothing is slower" not in page
    claims = user.harness("verify", str(folder_of(ended)), "--no-rebuild", "--json").document["claims"]
    assert [claim for claim in claims if claim["state"] == "not ok"] == []  # sources: unchecked in a changed checkout


def test_a_base_that_was_changed_is_refused(user: User, model: str, copy: Path) -> None:
    np.save(copy / "readings.npy", np.ones((50, 1), np.uint64))
    ended = measured(user, model, "--samples", "50", "--against", str(copy))
    assert (ended.code, "was changed since it was measured" in ended.document["error"]) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scope", "layer"], "its scope is network, here it is layer"),
        (["--load", "cpu"], "its load is idle, here it is cpu"),
        (["--count", "instructions", "--scope", "network"], "its quantity is time, here it is instructions"),
        (["--count", "cycles"], "--against compares times and instructions, not cycles"),
    ],
)
def test_a_base_of_another_thing_is_refused(
    user: User, model: str, base: Ended, options: list[str], message: str
) -> None:
    ended = measured(user, model, *options, "--against", str(folder_of(base)))
    assert (ended.code, message in ended.document["error"]) == (2, True)
    assert not (user.folder / "runs").exists()  # nothing was begun


def test_a_base_that_is_no_measurement_is_refused(user: User, model: str, copy: Path) -> None:
    run = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(run | {"kind": "run"}))
    ended = measured(user, model, "--against", str(copy))
    assert (ended.code, "not a measurement" in ended.document["error"]) == (2, True)
    nothing = measured(user, model, "--against", str(user.folder))
    assert (nothing.code, "not a finished measurement" in nothing.document["error"]) == (2, True)


def test_a_measurement_is_not_resumed(user: User, copy: Path) -> None:
    (copy / "run.json").unlink()
    ended = user.harness("run", "--resume", str(copy), "--json")
    assert (ended.code, "a measurement cannot be resumed" in ended.document["error"]) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--block", "7"], "--block: a measurement executes one vector at a time"),
        (["--duration", "soon"], "'soon' is not a duration: write 90s, 15m or 8h"),
        (["--duration", "0s"], "'0s' is not a duration"),
        (["--samples", "0"], "0 is not in the range 1<=x<=50000000"),
        (["--load", "party"], "'party' is not one of 'idle', 'memory', 'cpu', 'io', 'network'"),
        (["--scope", "world"], "'world' is not one of 'network', 'item', 'layer'"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_done(
    user: User, model: str, options: list[str], message: str
) -> None:
    ended = user.harness("measure", "--board", "host", "--model", model, *options)
    assert ended.code == 2
    assert message in re.sub(r"\s+", " ", ended.err)
    assert not (user.folder / "runs").exists()


def test_a_board_without_counters_is_told_what_to_do(user: User, model: str) -> None:
    ended = measured(user, model, "--samples", "20", "--count", "instructions")
    if ended.code == 0:  # a machine with counters that this user may read
        assert ended.document["measured"]["unit"] == "instructions"
        return
    assert ended.code == 3
    assert "does not count instructions" in ended.document["reason"]
    assert "kernel.perf_event_paranoid" in ended.document["hint"]


def test_board_and_model_are_required(user: User) -> None:
    ended = user.harness("measure", "--board", "host")
    assert (ended.code, "give --board and --model" in ended.err) == (2, True)


def counted(user: User, model: str, *options: str) -> Ended:
    return user.harness("measure", "--board", NAME, "--model", model, "--json", *options)


def _laboratory(folder: Path, target: str = "c") -> Path:
    """An emulated board whose items are both on the processor."""
    items = {
        "prepost": {"target": "c", "core": 0, "operators": ["QuantizeLinear", "DequantizeLinear", "ArgMax", "ArgMin"]},
        "network": {"target": target, "core": 1},
    }
    toolchain = {"compiler": "aarch64-linux-gnu-gcc", "flags": ["-O3", "-mcpu=cortex-a53"], "static": True}
    emulator = {name: value for name, value in asdict(MACHINE).items() if name != "counting"}
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())["kv260"]
    entry |= {"items": items, "toolchain": toolchain, "emulator": emulator, "cores": 2, "time_source": "CNTVCT"}
    boards = folder / "boards.yaml"
    boards.write_text(yaml.safe_dump({NAME: entry}))
    return boards


@pytest.fixture(scope="module")
def counting(cache: Path) -> Iterator[None]:
    """One boot for all counts; the commands under test find the board running."""
    with emulated(f"{NAME}-counting", replace(MACHINE, cores=1, counting=True), cache, print):
        yield


@pytest.mark.campaign
@pytest.mark.usefixtures("counting")
def test_an_emulated_board_counts_the_same_instructions_for_every_vector(tmp_path: Path, cache: Path) -> None:
    model = str(ROOT / "models" / "acas_coc.onnx")
    ended = counted(User(tmp_path, cache, _laboratory(tmp_path)), model, "--samples", "200")
    assert ended.code == 0, ended.err
    document = ended.document
    assert document["measured"]["unit"] == "instructions"
    assert document["measured"]["not_met_because"].startswith("instructions were counted, no time was measured")
    assert "schedulers" not in document["measured"]["not_met_because"]
    assert [part["distinct"] for part in document["parts"]] == [1] * 11
    assert all(part["min"] == part["max"] > 50 for part in document["parts"])
    # Of the layers with as many multiplications, none is much shorter than the others.
    hidden = [part["min"] for part in document["parts"][2:9]]
    assert max(hidden) < 1.05 * min(hidden)
    assert document["clock"]["constant"] is not None
    assert document["clock"]["resolution_ns"] == 16  # qemu's generic timer has 62.5 MHz


@pytest.mark.campaign
@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize(
    ("network", "target"),
    [
        *product(("lenet5", "ds_cnn", "autoencoder"), ("c", "c:generic", "c:vector")),
        *product(("resnet8", "mobilenet"), ["c:vector"]),  # the others take longer than a command of a test may
    ],
)
def test_a_convolutional_network_has_the_same_instructions_for_every_vector(
    network: str, target: str, tmp_path: Path, cache: Path
) -> None:
    model = str(ROOT / "models" / f"{network}_int8.onnx")
    ended = counted(User(tmp_path, cache, _laboratory(tmp_path, target)), model, "--samples", "8")
    assert ended.code == 0, ended.err
    assert {part["distinct"] for part in ended.document["parts"]} == {1}


def _in_process(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str, str], board: str
) -> dict[str, Any]:
    """Measure with a kernel that somebody has changed: (file, text, other text)."""
    kernels.build_with(monkeypatch, tmp_path, change)
    onnx.save(NETWORK, tmp_path / "network.onnx")
    space = Workspace(_laboratory(tmp_path), ROOT / "models", tmp_path / "runs", cache)
    if board == "host":
        space = Workspace(ROOT / "boards.yaml", ROOT / "models", tmp_path / "runs", cache)
    options = {"samples": 300, "scope": None, "count": None, "load": "idle", "warmup": 5, "duration_s": None}
    planned = {
        "board": board, "model": str(tmp_path / "network.onnx"), "items": ("c", "c"), "split": None, "sync": None,
        "block": None, "seed": 1, "x64_quant_precision": True,
    }  # fmt: skip
    request = command.build_request(space, against=(), **options, **planned)
    code = command.measure(request, space, Console.open(as_json=False))
    [folder] = (tmp_path / "runs").iterdir()
    document: dict[str, Any] = json.loads((folder / "run.json").read_text())
    assert code == 1
    return document


@pytest.mark.usefixtures("counting")
def test_a_branch_on_data_is_found_and_named(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that skips what it need not multiply is right, and takes as long as the data have it."""
    old = "            for (r = 0; r < rows; ++r)"
    new = "            if (a[k]) for (r = 0; r < rows; ++r)"
    document = _in_process(tmp_path, cache, monkeypatch, ("c/qgemm.h", old, new), NAME)
    assert document["verdict"] == "varies"
    assert document["outputs"]["differing"] == 0
    assert re.match(r"layer_\d_forward takes [\d,]+ to [\d,]+ instructions", document["reason"])
    varying = [part["name"] for part in document["parts"] if part["distinct"] > 1]
    assert varying
    assert set(varying) <= {"layer_0", "layer_1", "layer_2"}


def test_times_of_a_wrong_program_are_no_result(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = ("c/saturate.h", "(int32_t)rintf(", "(int32_t)floorf(")
    document = _in_process(tmp_path, cache, monkeypatch, change, "host")
    assert document["verdict"] == "differs"
    assert document["outputs"]["differing"] > 0
    [folder] = (tmp_path / "runs").iterdir()
    assert differs_so_far(folder), "also if the board had failed afterwards"
    assert "outputs are not the reference's" in document["reason"]


def test_outputs_are_compared_in_the_mode_that_is_timed(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is wrong only while it measures times; `harness run` finds nothing."""
    read = "            worker->intervals[i].begin = meter_read();"
    spoilt = "((float *)network.inputs->values)[0] = 0;"
    wrong = f"{read}\n        if (reading.begin && i == 0 && worker == schedule.workers) {spoilt}"
    document = _in_process(tmp_path, cache, monkeypatch, ("program/schedule.c", read, wrong), "host")
    assert document["verdict"] == "differs"
    assert document["outputs"]["differing"] > 0

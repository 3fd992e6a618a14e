"""`harness plan` and `harness run --split`, as a user calls them: choose, write, read back, change by hand, run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from harness.core.installation import ROOT
from tests.support.builders import random_network
from tests.support.cli.command import HARNESS, Ended, User
from tests.support.dags import listing_2

ACAS = ("--board", "host", "--model", "acas_coc")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def three(tmp_path: Path, cache: Path) -> User:
    """Somebody with a board of three items, and the network of the paper's listing 2."""
    entry = yaml.safe_load((ROOT / "boards.yaml").read_text())["host"]
    for name in ("second", "third"):
        entry["items"][name] = {"target": "c"}
    (tmp_path / "boards.yaml").write_text(yaml.safe_dump({"host": entry}, sort_keys=False))
    onnx.save_model(listing_2(), tmp_path / "listing.onnx")
    return User(tmp_path, cache, tmp_path / "boards.yaml")


def lanes(ended: Ended) -> dict[str, list[str]]:
    return {item["name"]: item["tasks"] for item in ended.document["items"]}


def test_plan_shows_items_and_what_they_compute(user: User) -> None:
    ended = user.harness("plan", "--board", "xavier", "--model", "acas_coc", "--json")
    document = ended.document
    dense = [f"dense_{n}" for n in range(1, 10)]
    assert lanes(ended) == {"prepost": ["quantize_input", "select_advisory"], "network": dense}
    assert [hand_over["items"] for hand_over in document["hand_overs"]] == [
        ["prepost", "network"],
        ["network", "prepost"],
    ]
    ran_on = [item["ran_on"] for item in document["items"]]
    assert ran_on == ["emulated-cpu (qemu neoverse-n1)", "host-simulation of CUDA"]
    assessed = document["assessment"]
    assert assessed["sound"] is True
    assert assessed["net"] == {"places": 57, "transitions": 13, "syncs": 2, "tokens": 46, "markings": 14}
    assert (assessed["equivalence"]["equal"], assessed["schedule"]) == (True, [])
    assert document["forecast"] == []


def test_a_plan_for_a_fabric_tells_what_it_takes_and_how_long(user: User) -> None:
    asked = ("plan", "--board", "kv260", "--model", "acas_coc", "--items", "c,vitis")
    area, *kernels = user.harness(*asked, "--json").document["forecast"]
    assert area.startswith("fabric of the K26: at least 405 of 1,248 DSP (32 %), ")
    assert [line.partition(";")[0] for line in kernels] == [
        "dense_1_kernel: 509 cycles for a vector, 51 to the next (411 with all activations)"
    ]
    shown = user.harness(*asked)
    assert (shown.code, shown.err) == (0, "")
    assert area in shown.out
    assert kernels[0] in shown.out


@pytest.mark.parametrize("command", [("plan",), ("run", "--vectors", "10")])
def test_a_network_that_a_fabric_cannot_hold_is_refused(user: User, tmp_path: Path, command: tuple[str, ...]) -> None:
    large = random_network(np.random.default_rng(1), (4, 700, 549), float_output=True)
    onnx.save_model(large, tmp_path / "large.onnx")
    asked = ("--board", "kv260", "--model", str(tmp_path / "large.onnx"), "--items", "c,vitis")
    ended = user.harness(*command, *asked)
    assert ended.code == 2
    said = " ".join(ended.err.split())
    assert "large on board kv260: target vitis needs at least 1,249 DSP, the K26 has 1,248" in said
    assert "hint: give some layers to another item with --split" in said


def test_a_plan_that_was_written_is_read_back_as_it_was(user: User, tmp_path: Path) -> None:
    written = user.harness("plan", *ACAS, "--split", "parallel", "--sync", "flag", "-o", str(tmp_path / "P"), "--json")
    assert written.code == 0, written.err
    found = {path.name for path in (tmp_path / "P").iterdir()}
    assert found == {
        "graph.nnef", "prepost.nnef", "network.nnef", "parameters", "model.onnx", "plan.yaml", "net.pnml", "net.dot",
    }  # fmt: skip
    read = user.harness("plan", "--load", str(tmp_path / "P"), "--json")
    assert read.code == 0, read.err
    without_time = [
        {**each.document, "assessment": each.document["assessment"] | {"wall_s": 0}} for each in (written, read)
    ]
    assert without_time[0] == without_time[1]


def test_a_plan_that_was_changed_by_hand_runs_and_stays_the_network(user: User, tmp_path: Path) -> None:
    """The last dense layer moves to the other item; what crosses is now the layer before."""
    folder = tmp_path / "P"
    assert user.harness("plan", *ACAS, "-o", str(folder)).code == 0
    network, prepost = folder / "network.nnef", folder / "prepost.nnef"
    other = tmp_path / "other"
    assert user.harness("plan", *ACAS, "--split", "dense_9=prepost", "-o", str(other)).code == 0
    shutil.copy(other / network.name, network)
    mixed = user.harness("plan", "--load", str(folder))
    assert mixed.code == 2
    assert "dense_9" in mixed.err
    shutil.copy(other / prepost.name, prepost)
    ended = user.harness("run", "--plan", str(folder), "--vectors", "1000", "--json")
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    assert [layer["item"] for layer in ended.document["layers"]] == ["prepost", *["network"] * 8, "prepost", "prepost"]
    kept = Path(ended.document["run"]) / "plan"
    assert (kept / "prepost.nnef").read_bytes() == prepost.read_bytes()


def test_a_disk_that_becomes_full_leaves_no_part_of_a_plan(tmp_path: Path) -> None:
    command = ["prlimit", "--fsize=2000", *HARNESS, "plan", *ACAS, "-o", str(tmp_path / "plan")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "error: cannot write " in ended.stderr) == (2, True), ended.stderr
    assert not (tmp_path / "plan").exists()


def test_an_edited_plan_is_not_overwritten_without_force(user: User, tmp_path: Path) -> None:
    folder = tmp_path / "P"
    write = ("plan", *ACAS, "-o", str(folder))
    assert user.harness(*write).code == 0
    assert user.harness(*write).code == 0, "the same plan once more"
    edited = (folder / "network.nnef").read_text().replace("dense_9", "dense_nine")
    (folder / "network.nnef").write_text(edited)
    refused = user.harness(*write)
    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert f"{folder} exists and is not this plan: network.nnef would change or be lost" in said
    assert "--force" in said
    assert (folder / "network.nnef").read_text() == edited
    other = ("plan", *ACAS, "--split", "dense_9=prepost", "-o", str(folder))
    assert user.harness(*other).code == 2
    assert user.harness(*other, "--force").code == 0
    assert lanes(user.harness("plan", "--load", str(folder), "--json"))["prepost"][1] == "dense_9"


@pytest.mark.parametrize("command", ["plan", "run", "prove", "measure"])
def test_an_unknown_target_is_refused_before_anything_is_shown(user: User, command: str) -> None:
    ended = user.harness(command, *ACAS, "--items", "rust,c")
    assert (ended.code, ended.out) == (2, "")
    assert "unknown target 'rust'" in ended.err


def test_a_weight_that_was_changed_is_named(user: User, tmp_path: Path) -> None:
    folder = tmp_path / "P"
    assert user.harness("plan", *ACAS, "-o", str(folder)).code == 0
    table = folder / "parameters" / "dense_3__weights.dat"
    content = bytearray(table.read_bytes())
    content[-1] ^= 1
    table.write_bytes(content)
    ended = user.harness("run", "--plan", str(folder))
    assert ended.code == 2
    assert "dense_3__weights" in ended.err
    assert "[49, 49]" in ended.err


def test_a_core_that_the_board_does_not_have_is_refused_before_anything_runs(user: User, tmp_path: Path) -> None:
    folder = tmp_path / "P"
    assert user.harness("plan", *ACAS, "-o", str(folder)).code == 0
    settings = (folder / "plan.yaml").read_text()
    (folder / "plan.yaml").write_text(settings.replace("core: null", "core: 64", 1))
    ended = user.harness("run", "--plan", str(folder))
    assert ended.code == 2
    assert "item prepost is to run on core 64, but board host has 2 cores" in " ".join(ended.err.split())


def test_the_network_of_the_paper_on_its_three_items(three: User, tmp_path: Path) -> None:
    split = "e1..advisory=prepost,o2..o3=second,o4..o5=third"
    ended = three.harness(
        "run", "--board", "host", "--model", str(tmp_path / "listing.onnx"), "--split", split, "--vectors", "3000",
        "--trace", "400", "--json",
    )  # fmt: skip
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    run = json.loads((Path(ended.document["run"]) / "run.json").read_text())
    assert [hand_over["items"] for hand_over in run["plan"]["hand_overs"]] == [
        ["prepost", "second", "third"], ["second", "prepost"], ["third", "prepost"],
    ]  # fmt: skip
    assert run["assessment"]["net"]["syncs"] == 3
    traced = run["conformance"]
    assert (traced["conforms"], traced["executions"], traced["violations"]) == (True, 400, [])
    assert [condition["name"] for condition in traced["conditions"]] == [
        "undisturbed", "delay prepost 300 µs", "delay second 300 µs", "delay third 300 µs",
        "random delays up to 300 µs",
    ]  # fmt: skip
    assert {path.suffix for path in (Path(ended.document["run"]) / "traces").iterdir()} == {".jsonl", ".npy"}


def test_a_split_of_the_profile_can_be_set_aside(three: User, tmp_path: Path) -> None:
    boards = tmp_path / "boards.yaml"
    without = boards.read_text()
    boards.write_text(f"{without}  split: o1=second,pipeline\n  sync: flag\n")
    asked = ("plan", "--board", "host", "--model", str(tmp_path / "listing.onnx"), "--json")
    assert three.harness(*asked).document["depth"] > 1
    plain = three.harness(*asked, "--split", "").document
    boards.write_text(f"{without}  split: [o1=nobody]\n")
    assert "board host in boards.yaml: split o1=nobody: unknown item 'nobody'" in three.harness(*asked).err
    assert (plain["depth"], plain["sync"], [item["name"] for item in plain["items"]]) == (
        1,
        "flag",
        ["prepost", "network"],
    )


def test_a_run_without_traces_says_nothing_of_them(user: User) -> None:
    ended = user.harness("run", *ACAS, "--vectors", "1000", "--trace", "0", "--json")
    assert (ended.code, ended.document["conformance"]) == (0, None)
    assert not (Path(ended.document["run"]) / "traces").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", *ACAS, "--split", "dense_99=network"), "split dense_99=network: unknown layer 'dense_99'"),
        (("run", *ACAS, "--split", "branches"), "acas_coc has no parallel branches for 2 items"),
        (("plan", "--load", "nowhere"), "nowhere"),
        (("plan", "--load", "nowhere", "--board", "host"), "omit these options"),
        (("run", "--plan", "nowhere", "--block", "7"), "omit these options"),
        (("plan", "--board", "host"), "give --board and --model, or --load FOLDER"),
        (("plan", *ACAS, "-o", "/proc/nothing/here"), "cannot write /proc/nothing"),
        (("run", "--resume", "nowhere", "--plan", "nowhere"), "omit the other options"),
        (("run", "--resume", "nowhere", "--run-folder", "nowhere"), "omit the other options"),
    ],
)
def test_requests_that_cannot_be_are_refused(user: User, arguments: tuple[str, ...], said: str) -> None:
    ended = user.harness(*arguments)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())

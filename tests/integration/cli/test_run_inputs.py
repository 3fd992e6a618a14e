"""Networks with several inputs on every kind of target, from the command line and from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from harness import Lab
from harness.core.installation import ROOT
from tests.support import inputs
from tests.support.cli import kernels
from tests.support.cli.command import User

SOURCE = "&network.inputs[i]"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(inputs.every_type(), tmp_path / "inputs.onnx")
    return tmp_path / "inputs.onnx"


@pytest.mark.parametrize(
    "items", ["c:generic,c:unrolled", "c:inlined,c:vector", "cuda:fused,cuda:layerwise", "iree:static,iree:static"]
)
def test_every_target_reads_each_input(user: User, model: Path, items: str) -> None:
    split = "product=prepost,difference=network,scaled=prepost,result=network"
    folder = user.folder / "run"
    asked = ["--items", items, "--split", split, "--vectors", "1000", "--run-folder", str(folder), "--json"]
    ended = user.harness("run", "--board", "host", "--model", str(model), *asked)
    assert ended.code == 0, ended.err
    assert ended.document["verdict"] == "identical"
    assert {layer["differing"] for layer in ended.document["layers"]} == {0}
    claims = user.harness("verify", str(folder), "--json").document["claims"]
    assert "not ok" not in {claim["state"] for claim in claims}


def test_the_inputs_of_a_run_are_arrays_by_name(tmp_path: Path, model: Path) -> None:
    random = np.random.default_rng(4)
    given = {
        "x": random.normal(size=(30, 6)).astype(np.float32), "s": np.zeros((30, 4), np.float32),
        "k": random.integers(0, 2, (30, 4)) > 0, "c": random.integers(0, 256, (30, 4)).astype(np.uint8),
        "i": random.integers(-(1 << 62), 1 << 62, (30, 3)), "t": random.normal(size=(30, 2, 2)).astype(np.float32),
    }  # fmt: skip
    run = Lab(ROOT, runs=tmp_path / "runs").run("host", str(model), vectors=given, trace=0)
    assert run.verdict == "identical"
    assert {name: values.tobytes() for name, values in run.inputs.items()} == {
        name: values.tobytes() for name, values in given.items()
    }
    assert (run.layers["indices"].target == np.tile(given["i"], 2)).all()
    assert (run.layers["negation"].target == ~given["k"]).all()


def test_a_program_that_exchanges_two_inputs_differs(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs 1 and 5, s and t, have the same type and size."""
    exchanged = "&network.inputs[i == 1 ? 5 : i == 5 ? 1 : i]"
    kernels.build_with(monkeypatch, tmp_path, ("program/inference.c", SOURCE, exchanged))
    run = Lab(ROOT, runs=tmp_path / "runs").run("host", str(model), vectors=200, trace=0)
    assert run.verdict == "differs"
    assert {name for name, layer in run.layers.items() if layer.differing} == {"difference", "scaled", "result"}
    names = {entry["name"].partition("[")[0] for entry in run.document["failing"]["inputs"]}
    assert names <= {"s", "t", "x", "c"}


def test_a_pipeline_whose_later_stage_reads_an_input_is_refused(user: User, model: Path) -> None:
    split = "product=prepost,difference=network,pipeline"
    ended = user.harness("run", "--board", "host", "--model", str(model), "--split", split)
    assert ended.code == 2
    assert "layer difference reads the input 's' in stage 1" in ended.err


@pytest.mark.usefixtures("small_proof")
def test_a_proof_covers_every_input(tmp_path: Path, model: Path) -> None:
    run = Lab(ROOT, runs=tmp_path / "runs").prove("host", str(model), vectors=500)
    assert run.verdict == "identical"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["run", "--board", "host", "--cover", "0.5"], "no layer"),
        (["run", "--board", "host", "--stream", "1"], "--stream needs a network with one float32 input"),
    ],
)
def test_what_needs_one_float_input_is_refused_with_the_inputs(
    user: User, model: Path, command: list[str], reason: str
) -> None:
    ended = user.harness(*command, "--model", str(model))
    assert ended.code == 2
    assert reason in ended.err

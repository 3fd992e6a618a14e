"""A target of a third party whose float sums have another order: its verdict is `within bound`, never `identical`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.integration.cli.test_third_party import PACKAGE
from tests.support import builders
from tests.support.cli.command import Ended, User

DENSE = {"dense_1", "dense_2"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sums with a Relu between."""
    rng = np.random.default_rng(5)
    shapes = {"w1": (8, 12), "b1": 12, "w2": (12, 4), "b2": 4}
    constants = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["sums"], name="dense_1"),
        helper.make_node("Relu", ["sums"], ["positive"], name="relu_1"),
        helper.make_node("Gemm", ["positive", "w2", "b2"], ["scores"], name="dense_2"),
    ]
    path = tmp_path_factory.mktemp("model") / "sums.onnx"
    path.write_bytes(builders.make_model(nodes, constants, {"scores": ("float32", 4)}, width=8).SerializeToString())
    return path


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def run(user: User, model: Path, target: str, *more: str, command: str = "run") -> Ended:
    asked = "--board", "host", "--model", str(model), "--items", f"{target},{target}", "--json", *more
    return user.harness(command, *asked, PYTHONPATH=str(PACKAGE))


def document_of(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(ended.document["run"]) / "run.json").read_text())
    return found


@pytest.mark.parametrize(("accept", "code"), [((), 1), (("--accept", "bound"), 0)])
def test_a_bounded_layer_is_within_its_bound_and_good_only_if_accepted(
    user: User, model: Path, accept: tuple[str, ...], code: int
) -> None:
    ended = run(user, model, "reordered", "--vectors", "300", "--chunk", "200", "--trace", "0", *accept)
    assert (ended.code, ended.document["verdict"]) == (code, "within bound")
    found = document_of(ended)
    assert found.get("accepted") == ("within bound" if accept else None)
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert {name for name, layer in layers.items() if "bounded" in layer} == DENSE
    assert all(0 < layers[name]["bounded"]["ratio"] < 1 and layers[name]["bounded"]["unequal"] for name in DENSE)
    assert all(layer["differing"] == layer["own"] == 0 for layer in layers.values())
    assert {task["name"]: task["claim"] for task in found["plan"]["tasks"]} == {
        "dense_1": "bounded",
        "relu_1": "exact",
        "dense_2": "bounded",
    }
    [output] = found["network_outputs"]
    assert (output["layer"], output["values"]) == ("dense_2", 300 * 4)
    assert 0 < output["largest"] < 1e-4


@pytest.mark.parametrize(
    ("variant", "wrong"),
    [("beyond", "dense_1"), ("nan", "dense_1"), ("infinite", "dense_1"), ("relu", "relu_1"), ("exact", "dense_1")],
)
def test_a_wrong_target_differs(user: User, model: Path, variant: str, wrong: str) -> None:
    ended = run(user, model, f"reordered:{variant}", "--vectors", "50", "--trace", "0", "--accept", "bound")
    assert (ended.code, ended.document["verdict"]) == (1, "differs")
    assert next(layer["name"] for layer in ended.document["layers"] if layer["differing"]) == wrong
    assert "accepted" not in ended.document


@pytest.mark.parametrize(
    ("target", "more", "message"),
    [
        ("reordered:selects", (), "claims a bound for layer relu_1 (Relu), which has one right value"),
        ("reordered", ("--buffers", "reuse"), "if no activation is overwritten"),
        ("reordered", ("--fetch", "mismatch"), "only be compared with all dumps"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    user: User, model: Path, target: str, more: tuple[str, ...], message: str
) -> None:
    ended = run(user, model, target, "--vectors", "10", *more)
    assert (ended.code, message in str(ended.document["error"])) == (2, True), ended.document


@pytest.mark.parametrize(("command", "message"), [("prove", "not proven"), ("measure", "every bit of the outputs")])
def test_a_proof_and_a_measurement_are_refused(user: User, model: Path, command: str, message: str) -> None:
    ended = run(user, model, "reordered", command=command)
    assert ended.code == 2
    assert "dense_1, dense_2: within a bound" in str(ended.document["error"])
    assert message in str(ended.document["error"])

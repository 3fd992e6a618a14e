"""The float networks: the files are what the recipe makes, and `harness run` finds them identical."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from harness.core.installation import ROOT
from harness.model import load
from harness.model.text.facts import parameter_count
from models.floats.networks import LARGE, NETWORKS, recipe_sha256
from tests.support.cli.command import User

MODELS = ROOT / "models"
COUNTS = (15_855, 61_705, 243_405, 28_229, 111_173, 44_426, 122_570, 61_100_840, 138_357_544)
PARAMETERS = dict(zip(NETWORKS, COUNTS, strict=True))
SHIPPED = [name for name in NETWORKS if name not in LARGE]
BRIEF = ("lenet5",)
SUBJECTS = [name if name in BRIEF else pytest.param(name, marks=pytest.mark.campaign) for name in NETWORKS]


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "lenet5"])
def test_recipe_makes_the_same_bytes_again(name: str, tmp_path: Path) -> None:
    onnx.save(NETWORKS[name](), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (MODELS / f"{name}.onnx").read_bytes()


@pytest.mark.parametrize("name", SHIPPED)
def test_network_has_the_published_parameters_and_names_the_recipe(name: str) -> None:
    network = load(MODELS / f"{name}.onnx")
    assert parameter_count(network) == PARAMETERS[name]
    assert network.metadata["recipe_sha256"] == json.dumps(recipe_sha256())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SUBJECTS)
def test_network_is_identical_on_this_machine(name: str, user: User, tmp_path: Path) -> None:
    path, vectors = MODELS / f"{name}.onnx", 50
    if name in LARGE:
        path, vectors = tmp_path / f"{name}.onnx", 1
        onnx.save(NETWORKS[name](), path)
        assert parameter_count(load(path)) == PARAMETERS[name]
    ended = user.harness("run", "--board", "host", "--model", str(path), "--vectors", str(vectors), "--json")
    assert ended.code == 0, ended.err
    layers = ended.document["layers"]
    assert ended.document["verdict"] == "identical"
    assert len(layers) == len(load(path).layers)
    assert all(layer["compared"] > 0 and layer["differing"] == 0 for layer in layers)

"""`harness models convert --to onnx-standard`, as a user meets it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.applications.convert import check
from harness.core.arrays import Array
from harness.core.errors import EXIT_DIFFERS
from harness.core.installation import ROOT
from tests.support import builders
from tests.support.cli.command import User


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


@pytest.fixture
def convert(tmp_path: Path) -> list[str]:
    file = tmp_path / "net.onnx"
    onnx.save_model(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), argmax=True), file)
    output = tmp_path / "standard.onnx"
    return ["models", "convert", str(file), "--to", "onnx-standard", "-o", str(output), "--vectors", "20", "--json"]


def test_the_file_names_its_source_and_every_layer(user: User, convert: list[str]) -> None:
    ended = user.harness(*convert)
    assert ended.code == 0, ended.err
    document, content = ended.document, Path(convert[6]).read_bytes()
    assert (document["holds"], document["outputs_alike"], document["format"]) == (True, True, "onnx-standard")
    assert document["sha256"] == hashlib.sha256(content).hexdigest()
    model = onnx.load_model_from_string(content)
    source = hashlib.sha256(Path(convert[2]).read_bytes()).hexdigest()
    assert {entry.key: entry.value for entry in model.metadata_props}["harness_source_sha256"] == source
    assert sum(layer["differing"] for layer in document["layers"]) == 0
    assert [each for layer in document["layers"] for each in layer["operators"]] == [
        node.op_type for node in model.graph.node
    ]
    assert document["layers"][1]["operators"] == ["MatMulInteger", "Add", "Cast", "Mul", "QuantizeLinear"]


def test_a_layer_that_differs_leaves_no_file(user: User, convert: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def every_value(right: Array, _: Array) -> Array:
        return np.ones(right.shape, np.bool_)

    monkeypatch.setattr(check, "difference_map", every_value)
    ended = user.here(*convert)
    assert (ended.code, ended.document["holds"]) == (EXIT_DIFFERS, False)
    assert "file" not in ended.document
    assert not Path(convert[6]).exists()

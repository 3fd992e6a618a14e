"""`harness models convert`, as a user meets it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.applications.convert import check
from harness.core.arrays import Array
from harness.core.errors import EXIT_DIFFERS, EXIT_REQUEST
from harness.core.installation import ROOT
from tests.support import builders, functions
from tests.support.cli.command import User

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
from harness.model.tflite.file import decode


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save_model(builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), argmax=True), path)
    return path


def convert(file: Path, *more: str) -> list[str]:
    output = str(file.with_suffix(".tflite"))
    return ["models", "convert", str(file), "--to", "tflite", "-o", output, "--vectors", "20", *more]


def test_a_converted_file_names_its_source_and_every_layer(user: User, file: Path) -> None:
    ended = user.harness(*convert(file, "--json"))
    assert ended.code == 0, ended.err
    document, content = ended.document, file.with_suffix(".tflite").read_bytes()
    assert (document["holds"], document["outputs_alike"], document["vectors"]) == (True, True, 20)
    assert document["sha256"] == hashlib.sha256(content).hexdigest()
    source = hashlib.sha256(file.read_bytes()).hexdigest()
    assert document["source_sha256"] == source
    written = decode(content, "net.tflite")
    assert written.metadata["harness_source_sha256"].decode() == source
    assert document["operators"] == len(written.operators)
    assert {layer["claim"] for layer in document["layers"]} == {"exact"}
    assert sum(layer["differing"] for layer in document["layers"]) == 0
    assert [name for layer in document["layers"] for name in layer["tflite"]] == [
        call.name for call in written.operators
    ]


def test_a_file_is_not_replaced_without_force(user: User, file: Path) -> None:
    assert user.harness(*convert(file)).code == 0
    refused = user.harness(*convert(file))
    assert refused.code == EXIT_REQUEST
    assert "net.tflite exists" in refused.err
    assert user.harness(*convert(file, "--force")).code == 0


def test_a_node_that_tflite_cannot_keep_is_named(user: User, tmp_path: Path) -> None:
    path = tmp_path / "functions.onnx"
    path.write_bytes(functions.every_function().onnx_bytes)
    refused = user.harness(*convert(path))
    assert refused.code == EXIT_REQUEST
    assert "node '" in refused.err
    assert "cannot be converted: " in refused.err
    assert not path.with_suffix(".tflite").exists()


def test_a_layer_that_differs_leaves_no_file(user: User, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = check.decoded

    def one_code_more(*arguments: object) -> Array:
        return right(*arguments) + 1  # type: ignore[arg-type,no-any-return]

    monkeypatch.setattr(check, "decoded", one_code_more)
    ended = user.here(*convert(file, "--json"))
    assert ended.code == EXIT_DIFFERS
    assert json.loads(ended.out)["holds"] is False
    assert not file.with_suffix(".tflite").exists()

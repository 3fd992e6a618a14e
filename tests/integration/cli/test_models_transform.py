"""`harness models transform`, as a user meets it."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from harness import model as networks
from harness.cli import main as main_module
from harness.core.errors import EXIT_BUG
from harness.model import transforms
from harness.model.transforms import Transform
from harness.model.transforms.edit import Applied
from tests.support.cli.command import User
from tests.support.transforms import Chain, floats, random_network


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(random_network(np.random.default_rng(2)).SerializeToString())
    return path


def test_by_default_all_bits_stay(user: User, file: Path) -> None:
    output = file.with_name("out.onnx")
    ended = user.harness("models", "transform", str(file), str(output), "--vectors", "100", "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert [(each["name"], len(each["nodes"])) for each in document["transforms"]][:2] == [
        ("constants", 0),
        ("dropout", 2),
    ]
    assert all(each["keeps_bits"] for each in document["transforms"])
    assert document["measured"]["differing"] == 0
    assert document["measured"]["values"] == 100 * networks.load(output).layers[-1].size
    assert document["sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()
    assert document["source_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    listed = json.loads(networks.load(output).metadata["transforms"])
    assert {entry["source_sha256"] for entry in listed} == {document["source_sha256"]}


def test_folds_are_reported_with_their_differences_and_the_result_runs(user: User, file: Path) -> None:
    output = file.with_name("out.onnx")
    asked = ("--apply", "dropout,normalization", "--apply", "batch-normalization")
    ended = user.harness("models", "transform", str(file), str(output), *asked)
    assert ended.code == 0, ended.err
    [line] = [line.split() for line in ended.out.splitlines() if line.strip().startswith("batch-normalization")]
    name, nodes, differing, of, values, difference, ulp, share = line
    assert (name, nodes, of) == ("batch-normalization", "2", "of")
    assert 0 < int(differing.replace(",", "")) <= int(values.replace(",", ""))
    assert 0 < float(difference) < 1e-3
    assert float(ulp.replace(",", "")) >= 1
    assert 0 < float(share) < 1
    assert "The bits of the new file are those of another network." in " ".join(ended.out.split())
    assert "BatchNormalization" not in [layer.operator for layer in networks.load(output).layers]
    run = user.harness("run", "--board", "host", "--items", "c,c", "--model", str(output), "--vectors", "50", "--json")
    assert run.code == 0, run.err
    assert run.document["verdict"] == "identical"


def test_errors_say_what_to_do_and_write_nothing(user: User, file: Path) -> None:
    output = file.with_name("out.onnx")
    unknown = user.harness("models", "transform", str(file), str(output), "--apply", "activation")
    assert (unknown.code, output.exists()) == (2, False)
    assert "unknown transform 'activation'" in unknown.err
    assert "valid choices: batch-normalization, constants, dropout, normalization, reshape" in unknown.err
    chain = Chain()
    chain.add("Sub", np.float32(1))
    chain.add("Conv", floats(np.random.default_rng(0), 1, 1, 3, 3), pads=[1, 1, 1, 1])
    file.write_bytes(chain.model((1, 4, 4)).SerializeToString())
    padded = user.harness("models", "transform", str(file), str(output), "--apply", "normalization")
    assert (padded.code, output.exists()) == (2, False)
    assert "node 'conv_1' (Conv) pads with 0 after the normalisation" in padded.err
    assert "leave it out of --apply" in padded.err
    output.write_bytes(b"")
    exists = user.harness("models", "transform", str(file), str(output))
    assert exists.code == 2
    assert "--force" in exists.err


def test_a_transform_that_breaks_its_claim_ends_as_a_bug_and_writes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(model: onnx.ModelProto, _name: str) -> Applied:
        tensor = model.graph.initializer[-1]
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), tensor.name))
        return Applied(("dropout",))

    output = file.with_name("out.onnx")
    monkeypatch.setitem(transforms.TRANSFORMS, "dropout", Transform(keeps_bits=True, apply=wrong))
    monkeypatch.setattr(sys, "argv", ["harness", "models", "transform", str(file), str(output)])
    with pytest.raises(SystemExit) as ended:
        main_module.main()
    assert ended.value.code == EXIT_BUG
    assert "claims to leave all bits unchanged" in capsys.readouterr().err
    assert not output.exists()


def test_the_metadata_of_the_model_stay(user: User, file: Path) -> None:
    model = onnx.load_model(file)
    helper.set_model_props(model, {"description": "mine", "transforms": json.dumps([{"transform": "older"}])})
    file.write_bytes(model.SerializeToString())
    output = file.with_name("out.onnx")
    assert user.harness("models", "transform", str(file), str(output)).code == 0
    metadata = networks.load(output).metadata
    assert metadata["description"] == "mine"
    names = [entry["transform"] for entry in json.loads(metadata["transforms"])]
    assert names == ["older", "constants", "dropout", "reshape"]

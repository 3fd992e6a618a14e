from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.cli.models import import_model
from harness.core.console import Console
from harness.model import load
from harness.model.importer import Changes
from tests.support.cli.command import User
from tests.support.importer.graphs import model, node, saved
from tests.support.importer.quantised import built, draw, qdq

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
CHAIN = [node("Sub", "x mean", "s"), node("MatMul", "s w", "p"), node("Relu", "p", "y")]
CONSTANTS = {"mean": np.float32([1, 2]), "w": WEIGHT}


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def test_a_float_network_comes_in(user: User, tmp_path: Path) -> None:
    path = saved(tmp_path, model(CHAIN, CONSTANTS, shape=[1, 2]))
    ended = user.harness("models", "import", str(path), "-o", str(tmp_path / "mine.onnx"), "--json")
    made = (tmp_path / "mine.onnx").read_bytes()
    document = ended.document
    check = document.pop("check")
    assert ended.code == 0
    assert document == {
        "model": "mine",
        "file": str(tmp_path / "mine.onnx"),
        "sha256": hashlib.sha256(made).hexdigest(),
        "source_file": "network.onnx",
        "source_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "quantised": False,
        "layers": [{"inputs": 2, "outputs": 3, "relu": True}],
        "folded": ["node_s"],
        "notes": [],
        "input_box": None,
    }
    assert check["difference"] < 1e-5
    assert check["tightest_difference"] <= check["tightest_bound"]
    assert [entry.op_type for entry in onnx.load_model_from_string(made).graph.node] == ["Gemm", "Relu"]
    assert "folded into the constants of a layer: node_s" in ended.err
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine.onnx", "network.onnx"]


def test_ends_are_removed_on_request(user: User, tmp_path: Path) -> None:
    path = saved(tmp_path, model([*CHAIN, node("Softmax", "y", "s2")], CONSTANTS, shape=[1, 2]))
    arguments = ["models", "import", str(path), "-o", str(tmp_path / "mine.onnx"), "--json"]
    refused = user.harness("models", "quantize", str(path), "-o", str(tmp_path / "q.onnx"), "--box=-1:1")
    assert refused.code == 2
    assert f"harness models quantize {path} --drop-final -o NAME" in refused.err
    ended = user.harness(*arguments, "--drop-final", "--drop-first")
    assert ended.code == 0, ended.err
    final, first = ended.document["notes"]
    assert final.startswith("removed at the end: 'node_s2' (Softmax)")
    assert first.startswith("removed at the start: 'node_s' (Sub)")
    assert final in ended.err
    again = user.harness(*arguments[:2], str(tmp_path / "mine.onnx"), *arguments[3:], "--force", "--drop-final")
    assert again.code == 2
    assert "--drop-final finds no node to remove before 'y'" in again.err
    quantised = user.harness("models", "quantize", str(path), "-o", str(tmp_path / "q.onnx"), "--box=-1:1",
                             "--scores=uint8", "--vectors=500", "--drop-final", "--json")  # fmt: skip
    assert quantised.code == 0, quantised.err
    assert quantised.document["notes"][0] == final


def test_names_of_nodes_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = onnx.load_model_from_string(model(CHAIN, CONSTANTS, shape=[1, 2]))
    next(node for node in made.graph.node if node.name == "node_s").name = "\x1b[31m"
    path = saved(tmp_path, made.SerializeToString())
    import_model.bring_in(path, tmp_path / "mine.onnx", "mine", Console.open(as_json=False), Changes())
    assert 'folded into the constants of a layer: "\\u001b[31m"' in capsys.readouterr().err


def test_a_person_is_told_what_was_found_and_what_comes_next(user: User, tmp_path: Path) -> None:
    path = saved(tmp_path, model(CHAIN, CONSTANTS, shape=[1, 2]))
    ended = user.harness("models", "import", str(path), "-o", str(tmp_path / "mine.onnx"))
    assert "dense_1   2 -> 3   yes" in ended.out
    assert "256 vectors of -1 to 1 because the file has no input box: greatest difference" in ended.out
    assert "Set --box to the range of your inputs: the file does not state it." in ended.out


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("chain", [CHAIN, [CHAIN[0], node("MatMul", "s w", "y")]], ids=["ReLU", "linear"])
def test_the_next_command_that_is_printed_works(
    user: User, tmp_path: Path, chain: list[onnx.NodeProto], stated: bool
) -> None:
    """Also for a path with a blank, with or without an input box in the file, with or without a last ReLU."""
    box = {"input_box_low": json.dumps([-3.0, -3.0]), "input_box_high": json.dumps([3.0, 3.0])} if stated else {}
    made = onnx.load_model_from_string(model(chain, CONSTANTS, shape=[1, 2]))
    onnx.helper.set_model_props(made, box)
    (tmp_path / "a folder").mkdir()
    path = saved(tmp_path, made.SerializeToString())
    ended = user.harness("models", "import", str(path), "-o", str(tmp_path / "a folder" / "mine.onnx"))
    [line] = [line for line in ended.out.splitlines() if line.startswith("  harness models quantize ")]
    name, *words = shlex.split(line)
    assert (name, ("--box=-1:1" in words)) == ("harness", not stated)
    quantised = user.harness(*words, "--vectors", "500", "--json")
    assert quantised.code == 0, quantised.err
    low, high = (-3, 3) if stated else (-1, 1)
    assert load(Path(quantised.document["file"])).box.tolist() == [[low, low], [high, high]]


def test_the_next_command_names_the_models_of_a_lab(user: User, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    assert user.harness("init", str(lab)).code == 0
    path = saved(tmp_path, model(CHAIN, CONSTANTS, shape=[1, 2]))
    ended = user.harness("models", "import", str(path), "-o", "mine", "--lab", str(lab))
    assert "  harness models quantize mine -o mine_q --box=-1:1 --scores=uint8" in ended.out.splitlines()


def test_a_quantised_network_comes_in(user: User, tmp_path: Path) -> None:
    path = saved(tmp_path, built(qdq(1) + qdq(2), draw(np.random.default_rng(4), (3, 5, 2))))
    ended = user.harness("models", "import", str(path), "-o", str(tmp_path / "mine.onnx"), "--json")
    assert ended.code == 0
    assert ended.document["quantised"] is True
    assert [layer["operator"] for layer in ended.document["layers"]] == ["QuantizeLinear", "QGemm", "QGemm"]
    assert ended.document["check"]["tensors"] == ["q2", "q0", "q1"]
    assert load(tmp_path / "mine.onnx").sha256 == ended.document["sha256"]


def test_what_is_refused_ends_with_2_and_leaves_nothing(user: User, tmp_path: Path) -> None:
    path = saved(tmp_path, model([*CHAIN, node("Det", "y", "t")], CONSTANTS, shape=[1, 2]))
    ended = user.harness("models", "import", str(path), "-o", str(tmp_path / "mine.onnx"), "--json")
    assert ended.code == 2
    assert "node 'node_t' (Det): operator Det" in ended.document["error"]
    assert "`harness models operators` lists the supported operators" in ended.document["hint"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["network.onnx"]


def test_other_float_operators_stay_as_they_are(user: User, tmp_path: Path) -> None:
    path = saved(tmp_path, model([*CHAIN, node("Tanh", "y", "t")], CONSTANTS, shape=[1, 2]))
    ended = user.harness("models", "import", str(path), "-o", str(tmp_path / "mine.onnx"), "--json")
    assert ended.code == 0, ended.err
    document = ended.document
    assert not document["quantised"]
    assert [layer["operator"] for layer in document["layers"]] == [proto.op_type for proto in CHAIN] + ["Tanh"]
    assert document["check"]["tensors"] == ["t"]
    kept = onnx.load(tmp_path / "mine.onnx")
    assert [proto.op_type for proto in kept.graph.node] == [proto.op_type for proto in CHAIN] + ["Tanh"]
    assert kept.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "vectors"

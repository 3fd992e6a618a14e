"""`harness reduce`: an engine with a fault, and the smallest part of a model that shows it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE, EXIT_REQUEST
from harness.core.installation import ROOT
from harness.model.graph import parse
from harness.model.network import Network
from tests.support import builders, judged
from tests.support.cli.command import User

ENGINE = """\
import sys
import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

model = onnx.load(sys.argv[1])
for tensor in model.graph.initializer:
    values = numpy_helper.to_array(tensor)
    if values.ndim > 1:
        tensor.CopyFrom(numpy_helper.from_array({changed}, tensor.name))
session = onnxruntime.InferenceSession(model.SerializeToString())
names = [output.name for output in session.get_outputs()]
np.savez(sys.argv[3], **dict(zip(names, session.run(names, dict(np.load(sys.argv[2]))))))
"""


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


def words(folder: Path, model: onnx.ModelProto, changed: str, count: int = 40) -> tuple[Network, list[str]]:
    """A model, its vectors, and an engine that changes weights."""
    onnx.save_model(model, folder / "net.onnx")
    network = parse((folder / "net.onnx").read_bytes(), "net")
    np.save(folder / "vectors.npy", judged.vectors(network, count))
    (folder / "engine.py").write_text(ENGINE.format(changed=changed))
    run = f"{sys.executable} {folder}/engine.py {{model}} {{inputs}} {{outputs}}"
    files = ["--model", str(folder / "net.onnx"), "--vectors", str(folder / "vectors.npy")]
    return network, ["reduce", *files, "--run", run, "--out", str(folder / "out"), "--json"]


@pytest.mark.slow
def test_a_fault_of_one_layer_is_reduced_to_one_channel_of_it(user: User, tmp_path: Path) -> None:
    """Only layer_2 of 6 layers has weights of -128, and only in one column."""
    model = builders.random_network(np.random.default_rng(7), (5, 9, 8, 7, 6, 4), activations="int8")
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.ndim > 1:
            limited = np.maximum(values, -127)
            if values.shape == (8, 7):
                limited[3, 5] = -128
            tensor.CopyFrom(onnx.numpy_helper.from_array(limited, tensor.name))
    _, command = words(tmp_path, model, "np.where(values == -128, 0, values)")
    ended = user.harness(*command)
    assert ended.code == EXIT_DIFFERS, ended.err
    document = ended.document
    assert document["layers"] == ["layer_2 (QGemm)"]
    assert (document["of_layers"], document["vectors"]) == (6, 1)
    assert "channel 5 of layer_2 alone" in document["steps"]
    reduced = parse((tmp_path / "out/reduced.onnx").read_bytes(), "reduced")
    assert [layer.output.shape for layer in reduced.layers] == [(1,)]
    vector = np.load(tmp_path / "out/vectors.npy")
    assert vector.shape == (1, 8)
    with np.load(tmp_path / "out/outputs.npz") as outputs, np.load(tmp_path / "out/expected.npz") as expected:
        [name] = outputs
        assert outputs[name] != expected[name]
        np.testing.assert_array_equal(expected[name], judged.activations(reduced, vector)[name])
    files = {"--model": "reduced.onnx", "--dumps": "outputs.npz", "--vectors": "vectors.npy"}
    judging = [word for option, file in files.items() for word in (option, str(tmp_path / "out" / file))]
    assert user.harness("judge", *judging).code == EXIT_DIFFERS
    assert "layer_2 (QGemm)" in (tmp_path / "out/README.md").read_text()


@pytest.mark.slow
@pytest.mark.campaign
def test_a_float_layer_is_reduced_if_it_is_beyond_its_bound(user: User, tmp_path: Path) -> None:
    model = builders.float_sums()
    _, command = words(tmp_path, model, "values * np.float32(1.001) if values.shape == (12, 4) else values")
    ended = user.harness(*command)
    assert ended.code == EXIT_DIFFERS, ended.err
    assert ended.document["layers"] == ["dense_2 (Gemm)"]
    assert ended.document["differences"][0]["output"] == "scores"


def test_a_right_engine_and_an_engine_that_fails_write_nothing(user: User, tmp_path: Path) -> None:
    _, command = words(tmp_path, builders.random_network(np.random.default_rng(7), (5, 9, 3)), "values")
    right = user.harness(*command)
    assert (right.code, right.document["reduced"]) == (EXIT_DONE, None)
    (tmp_path / "engine.py").write_text("raise SystemExit('no licence')")
    failed = user.harness(*command)
    assert (failed.code, "the engine ended with 1: no licence" in failed.err) == (EXIT_INFRASTRUCTURE, True)
    (tmp_path / "engine.py").write_text("import sys, numpy; numpy.savez(sys.argv[3], other=numpy.zeros(3))")
    other = user.harness(*command)
    assert (other.code, "the engine gave no output" in other.err) == (EXIT_INFRASTRUCTURE, True)
    wrong = user.harness(*command[:6], "engine {model}", *command[7:])
    assert (wrong.code, "--run lacks {inputs}, {outputs}" in wrong.err) == (EXIT_REQUEST, True)
    assert not (tmp_path / "out").exists()

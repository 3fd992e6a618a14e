"""`harness judge`, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.errors import EXIT_DIFFERS, EXIT_DONE, EXIT_INFRASTRUCTURE, EXIT_REQUEST
from harness.core.file_digest import file_sha256
from harness.core.installation import ROOT
from harness.model.graph import parse
from tests.support import builders, judged
from tests.support.cli.command import User


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A model with its vectors and right dumps of all layers."""
    model = builders.random_network(np.random.default_rng(7), (5, 9, 4, 3), argmax=True)
    onnx.save_model(model, tmp_path / "net.onnx")
    network = parse((tmp_path / "net.onnx").read_bytes(), "net")
    values = judged.vectors(network, 50)
    np.save(tmp_path / "vectors.npy", values)
    np.savez(tmp_path / "dumps.npz", allow_pickle=False, **judged.activations(network, values))
    names = {"--model": "net.onnx", "--dumps": "dumps.npz", "--vectors": "vectors.npy"}
    return ["judge", *(word for option, name in names.items() for word in (option, str(tmp_path / name)))]


def change(tmp_path: Path, name: str, place: tuple[int, ...]) -> None:
    with np.load(tmp_path / "dumps.npz") as archive:
        arrays = dict(archive)
    arrays[name][place] ^= 1
    np.savez(tmp_path / "dumps.npz", allow_pickle=False, **arrays)


def test_a_judgement_is_a_folder_with_document_and_page(user: User, words: list[str], tmp_path: Path) -> None:
    change(tmp_path, "layer_1_out", (4, 2))
    ended = user.harness(*words, "--engine", "an <engine>", "--out", str(tmp_path / "out"), "--json")
    assert ended.code == EXIT_DIFFERS, ended.err
    document = ended.document
    assert document == json.loads((tmp_path / "out/judgement.json").read_text())
    assert (document["verdict"], document["first_layer"], document["engine"]) == ("differs", "layer_1", "an <engine>")
    dumps = tmp_path / "dumps.npz"
    assert document["files"] == {str(dumps): file_sha256(dumps)}
    page = (tmp_path / "out/report.html").read_text()
    assert "an &lt;engine&gt;" in page
    assert "Differs" in page
    assert "layer_1" in page
    again = user.harness(*words, "--out", str(tmp_path / "out"))
    assert (again.code, "exists" in again.err) == (EXIT_REQUEST, True)


def test_exit_codes_are_those_of_the_verdict(user: User, words: list[str], tmp_path: Path) -> None:
    ended = user.harness(*words)
    assert (ended.code, "identical: all 1,100 activations" in ended.out) == (EXIT_DONE, True)
    assert "decisions of advisory_out: 0 of 50 change" in ended.out
    missing = user.harness(*words[:5])
    assert (missing.code, "inconclusive" in missing.out) == (EXIT_INFRASTRUCTURE, True)
    change(tmp_path, "advisory_out", (3, 0))
    changed = user.harness(*words)
    assert (changed.code, "decisions of advisory_out: 1 of 50 change, vector 3 first" in changed.out) == (1, True)
    no_file = user.harness("judge", "--model", words[2], "--dumps", str(tmp_path / "none"))
    assert (no_file.code, no_file.err.splitlines()[0]) == (
        EXIT_REQUEST,
        f"error: cannot read {tmp_path}/none: there is no such file or folder",
    )


def test_dumps_of_another_model_are_an_invalid_request(user: User, words: list[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "dumps.npz", allow_pickle=False, conv1=np.zeros((50, 3)))
    ended = user.harness(*words)
    assert ended.code == EXIT_REQUEST
    assert "none of its 1 tensor (conv1) is of model net" in ended.err
    assert "hint: these are dumps of another model; names of this one: quantize_out" in ended.err


def test_a_bound_is_accepted_if_that_is_asked_for(user: User, tmp_path: Path) -> None:
    onnx.save_model(builders.float_sums(), tmp_path / "sums.onnx")
    network = parse((tmp_path / "sums.onnx").read_bytes(), "sums")
    values = judged.vectors(network, 20)
    scores = judged.activations(network, values)["scores"]
    np.save(tmp_path / "vectors.npy", values)
    np.save(tmp_path / "scores.npy", np.nextafter(scores, np.float32(0)))
    options = ["--model", str(tmp_path / "sums.onnx"), "--dumps", str(tmp_path / "scores.npy")]
    command = ["judge", *options, "--vectors", str(tmp_path / "vectors.npy")]
    ended = user.harness(*command)
    assert (ended.code, "within bound: 80 of 80 activations" in ended.out) == (EXIT_DIFFERS, True)
    assert user.harness(*command, "--accept", "bound").code == EXIT_DONE

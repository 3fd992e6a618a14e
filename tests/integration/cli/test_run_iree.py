"""`harness run` with items that are IREE's object code: identical, with evidence that holds, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from harness.core.errors import RequestError
from harness.core.installation import ROOT
from tests.support import builders, images
from tests.support.cli.command import User

pytest.importorskip("iree.compiler", reason="the extra iree is not installed")

ITEMS = "iree:static,iree:static"


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache, ROOT / "boards.yaml")


def run(user: User, model: onnx.ModelProto | bytes, *more: str, board: str = "host") -> list[str]:
    path = user.folder / "net.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return ["run", "--board", board, "--model", str(path), "--items", ITEMS, "--vectors", "40", *more, "--json"]


@pytest.mark.usefixtures("clean_checkout")
def test_a_run_is_identical_and_its_evidence_holds(user: User) -> None:
    net = builders.random_network(np.random.default_rng(7), (5, 40, 3), float_output=True, argmax=True)
    ended = user.here(*run(user, net, "--trace", "4"))
    document = ended.document
    assert (ended.code, document["verdict"]) == (0, "identical"), ended.err
    assert {layer["target"] for layer in document["layers"]} == {"iree:static"}
    found = json.loads((Path(document["run"]) / "run.json").read_text())
    assert found["board"]["environment"]["device of item network"] == "IREE 3.13.0, object code without a runtime"
    verified = user.here("verify", document["run"], "--json")
    assert verified.code == 0, verified.out


@pytest.mark.campaign
def test_padded_images_are_identical(user: User) -> None:
    net = images.every_operator("int8", "conv", "largest", "mean", "added")
    ended = user.harness(*run(user, net.onnx_bytes, "--trace", "4"))
    assert (ended.code, ended.document["verdict"]) == (0, "identical"), ended.err


def test_a_board_without_an_operating_system_is_refused(user: User) -> None:
    net = builders.random_network(np.random.default_rng(7), (5, 4))
    with pytest.raises(RequestError, match="which target iree:static of item"):
        user.here(*run(user, net, board="cortex-m4"))

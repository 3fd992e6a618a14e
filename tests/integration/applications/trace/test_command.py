"""`harness trace`, as a user calls it: from nodes to addresses, back, and as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from harness.core.errors import RequestError
from tests.support.builders import random_network
from tests.support.cli.command import Ended, User


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    folder = tmp_path_factory.mktemp("trace")
    onnx.save_model(random_network(np.random.default_rng(3), (5, 6, 4), argmax=True), folder / "small.onnx")
    return User(folder, cache)


def trace(user: User, *options: str) -> Ended:
    return user.here("trace", str(user.folder / "small.onnx"), "--board", "host", "--items", "c,c", *options)


@pytest.fixture(scope="module")
def document(user: User) -> dict[str, Any]:
    ended = trace(user, "--csv", str(user.folder / "links.csv"), "--html", str(user.folder / "page.html"), "--json")
    assert ended.code == 0
    return ended.document


def test_the_files_have_what_the_document_has(user: User, document: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO((user.folder / "links.csv").read_text())))
    [weights] = [row for row in rows if row["symbol"] == "layer_0_weights"]
    [entry] = [each for each in document["constants"] if each["name"] == "layer_0_weights"]
    assert (weights["node"], weights["operator"], weights["sha256"]) == ("layer_0", "QGemm", entry["sha256"])
    assert (int(weights["address"], 16), weights["shape"]) == (entry["address"], "6x5")
    page = (user.folder / "page.html").read_text()
    assert f"{entry['address']:#x}-" in page
    assert "static ONE_CODE void layer_0_accumulate(" in page


def test_an_address_leads_to_node_and_source(user: User, document: dict[str, Any]) -> None:
    [stage] = [each for each in document["functions"] if each["name"] == "layer_0_accumulate"]
    found = trace(user, "--at", f"{stage['address'] + 4:#x}", "--json").document
    assert (found["symbol"], found["offset"], found["nodes"]) == ("layer_0_accumulate", 4, ["layer_0"])
    assert found["source"].startswith(("network.c:", "kernels/c/"))
    with pytest.raises(RequestError, match="no section of the program"):
        trace(user, "--at", "0x1")


def test_a_node_and_a_symbol(user: User) -> None:
    shown = trace(user, "--node", "layer_1", "--argument")
    assert shown.code == 0
    assert "layer_1_weights: int8 4x6" in shown.out
    assert "layer_0_weights" not in shown.out
    assert trace(user, "--reverse", "--symbol", "layer_1_weights").out.count("layer_1") == 2
    with pytest.raises(RequestError, match="unknown symbol 'layer_0_weigths'") as refused:
        trace(user, "--symbol", "layer_0_weigths")
    assert refused.value.hint.startswith("did you mean layer_0_weights")


def test_a_plan_is_traced_as_it_is(user: User, document: dict[str, Any]) -> None:
    folder = str(user.folder / "plan")
    user.here("plan", "--board", "host", "--model", str(user.folder / "small.onnx"), "--items", "c,c", "-o", folder)
    assert user.here("trace", folder, "--json").document["bundle_sha256"] == document["bundle_sha256"]
    with pytest.raises(RequestError, match="has a plan"):
        user.here("trace", folder, "--board", "host")

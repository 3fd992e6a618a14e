"""Seventy networks that the tests write as exporters do: how many are imported, and that these run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

from harness.core.errors import RequestError
from harness.model import load
from tests.support.cli.command import User, without_optimisations
from tests.support.exports import made

LEAST_IMPORTED = 67
"""The least number of networks that are imported; the others are refused by name."""
IN_EVERY_SESSION = (
    "bert_masked",
    "cross_attention",
    "dynamic_attention",
    "gru_reversed",
    "kernel_machine",
    "unet_transposed",
    "yolo_head",
)
"""The networks that `make test` also runs: a program of each is compiled."""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    return without_optimisations(tmp_path_factory.mktemp("exports"), cache)


@pytest.fixture(scope="module")
def reasons(user: User) -> Mapping[str, str]:
    """Return the reason of the refusal of each network, the empty text of those that are imported."""
    reasons = {}
    for name in made.NETWORKS:
        onnx.save(made.model(name), user.folder / f"{name}.onnx")
        try:
            load(user.folder / f"{name}.onnx")
            reasons[name] = ""
        except RequestError as error:
            reasons[name] = error.message
    return reasons


def test_most_networks_are_imported_and_the_others_refused_with_their_node(reasons: Mapping[str, str]) -> None:
    assert len(reasons) == 70
    refused = {name: reason for name, reason in reasons.items() if reason}
    assert len(reasons) - len(refused) >= LEAST_IMPORTED, refused
    assert [name for name, reason in refused.items() if "node '/" not in reason] == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in IN_EVERY_SESSION else pytest.mark.campaign) for name in made.NETWORKS],
)
def test_an_imported_network_runs_identical(user: User, reasons: Mapping[str, str], name: str) -> None:
    if reasons[name]:
        pytest.skip(f"refused: {reasons[name]}")
    file = user.folder / f"{name}.onnx"
    ran = user.harness("run", "--board", "host", "--model", str(file), "--vectors", "5", "--trace", "0", "--json")
    assert ran.document["verdict"] == "identical", ran.err
    assert ran.code == 0

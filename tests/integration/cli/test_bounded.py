"""A target of a third party whose float sums have another order: its verdict is `within bound`, never `identical`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.boards import workspace
from harness.core.console import Console
from harness.core.installation import ROOT
from harness.execution import dumps
from harness.report import reports
from harness.runs.verification import ClaimState, VerificationScope, verify
from harness.runs.verification.folder import read
from tests.integration.cli.test_pytest_plugin import session
from tests.integration.cli.test_third_party import PACKAGE
from tests.support import builders
from tests.support.cli.command import Ended, User

DENSE = {"dense_1", "dense_2"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "sums.onnx"
    path.write_bytes(builders.float_sums().SerializeToString())
    return path


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> User:
    return User(tmp_path_factory.mktemp("user"), cache)


@pytest.fixture(scope="module")
def accepted(user: User, model: Path) -> Ended:
    return run(user, model, "reordered", "--vectors", "300", "--chunk", "200", "--trace", "4", "--accept", "bound")


def run(user: User, model: Path, target: str, *more: str, command: str = "run") -> Ended:
    asked = "--board", "host", "--model", str(model), "--items", f"{target},{target}", "--json", *more
    return user.harness(command, *asked, PYTHONPATH=str(PACKAGE))


def document_of(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(ended.document["run"]) / "run.json").read_text())
    return found


def test_a_bounded_layer_is_within_its_bound(accepted: Ended) -> None:
    assert (accepted.code, accepted.document["verdict"]) == (0, "within bound")
    found = document_of(accepted)
    assert (found["verdict"], found["accepted"]) == ("within bound", "within bound")
    layers = {layer["name"]: layer for layer in found["layers"]}
    assert {name for name, layer in layers.items() if "bounded" in layer} == DENSE
    assert all(0 < layers[name]["bounded"]["ratio"] < 1 and layers[name]["bounded"]["unequal"] for name in DENSE)
    assert all(layer["differing"] == layer["own"] == 0 for layer in layers.values())
    assert {task["name"]: task["claim"] for task in found["plan"]["tasks"]} == {
        "dense_1": "bounded",
        "relu_1": "exact",
        "dense_2": "bounded",
    }
    [output] = found["network_outputs"]
    assert (output["layer"], output["values"]) == ("dense_2", 300 * 4)
    assert 0 < output["largest"] < 1e-4


def in_campaign(values: tuple[str, str]) -> Any:
    """Return parameters that the campaigns have and `make test` has not: tests/unit/analysis/test_local.py is quick."""
    return pytest.param(*values, marks=pytest.mark.campaign)


def test_without_acceptance_the_verdict_is_a_failure(user: User, model: Path) -> None:
    ended = run(user, model, "reordered", "--vectors", "50", "--trace", "0")
    assert (ended.code, ended.document["verdict"]) == (1, "within bound")
    assert "accepted" not in document_of(ended)
    junit = Path(ended.document["run"], "junit.xml").read_text()
    assert junit.count("<failure") == len(DENSE)
    assert "not accepted, exit code 1: --accept bound accepts" in junit


@pytest.mark.parametrize(
    ("variant", "wrong"),
    [
        ("beyond", "dense_1"),
        ("exact", "dense_1"),
        *map(in_campaign, (("nan", "dense_1"), ("infinite", "dense_1"), ("relu", "relu_1"))),
    ],
)
def test_a_wrong_target_differs(user: User, model: Path, variant: str, wrong: str) -> None:
    ended = run(user, model, f"reordered:{variant}", "--vectors", "50", "--trace", "0", "--accept", "bound")
    assert (ended.code, ended.document["verdict"]) == (1, "differs")
    assert next(layer["name"] for layer in ended.document["layers"] if layer["differing"]) == wrong
    assert "accepted" not in ended.document


@pytest.mark.parametrize(
    ("target", "more", "message"),
    [
        ("reordered:selects", (), "claims a bound for layer relu_1 (Relu), which has one right value"),
        ("reordered", ("--buffers", "reuse"), "if no activation is overwritten"),
        ("reordered", ("--fetch", "mismatch"), "only be compared with all dumps"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    user: User, model: Path, target: str, more: tuple[str, ...], message: str
) -> None:
    ended = run(user, model, target, "--vectors", "10", *more)
    assert (ended.code, message in str(ended.document["error"])) == (2, True), ended.document


@pytest.mark.campaign
def test_the_pytest_plugin_accepts_it_on_request(model: Path, tmp_path: Path) -> None:
    lines = [
        f"def test_{name}(harness_run):\n    harness_run(vectors=50, items=('reordered', 'reordered'), trace=0{more})"
        for name, more in (("plain", ""), ("accepted", ", accept='bound'"), ("wrong", ", accept='all'"))
    ]
    (tmp_path / "test_ours.py").write_text("\n".join(lines))
    shutil.copy(ROOT / "boards.yaml", tmp_path)
    path = os.pathsep.join([str(ROOT), str(PACKAGE)])
    found = session(tmp_path, "--board=host", f"--model={model}", PYTHONPATH=path)
    kinds = {name.partition("[")[0].removeprefix("test_"): found.kind(name) for name in found.cases}
    assert kinds == {"plain": "failure", "accepted": "", "wrong": "error"}, found.out
    failed = next(name for name in found.cases if name.startswith("test_plain"))
    assert "within bound" in found.message(failed)


@pytest.mark.parametrize(("command", "message"), [("prove", "not proven"), ("measure", "every bit of the outputs")])
def test_a_proof_and_a_measurement_are_refused(user: User, model: Path, command: str, message: str) -> None:
    ended = run(user, model, "reordered", command=command)
    assert ended.code == 2
    assert "dense_1, dense_2: within a bound" in str(ended.document["error"])
    assert message in str(ended.document["error"])


Change = Callable[[Path, dict[str, Any], dict[str, Any]], object]
"""A change of a run's folder, of its first chunk and of `run.json`."""


def with_value(layer: int, name: str, change: Callable[[np.float32], np.float32]) -> Change:
    """Return a change of the largest value of a dump, which the record's SHA-256 follows."""

    def make(folder: Path, chunk: dict[str, Any], _: dict[str, Any]) -> None:
        path = folder / "target" / "00000" / f"{layer:02}_{name}.npy"
        values = np.load(path)
        place = np.unravel_index(values.argmax(), values.shape)
        values[place] = change(values[place])
        path.unlink()
        dumps.write(path, values)
        chunk["target_sha256"][layer] = dumps.sha256(values)

    return make


def of_chunk(layer: int, entry: str, factor: int) -> Change:
    def make(_: Path, chunk: dict[str, Any], __: dict[str, Any]) -> None:
        chunk["local"]["bounded"][layer][entry] *= factor

    return make


def of_run(**entries: Any) -> Change:
    return lambda _, __, run_document: run_document.update(entries)


def exact_task(_: Path, __: dict[str, Any], run_document: dict[str, Any]) -> None:
    run_document["plan"]["tasks"][0]["claim"] = "exact"


def less_of_the_bound(_: Path, __: dict[str, Any], run_document: dict[str, Any]) -> None:
    run_document["layers"][0]["bounded"]["ratio"] /= 2


CHANGES: dict[str, tuple[Change, str, str]] = {
    "nothing": (of_run(), "", ""),
    "a value beyond the bound": (with_value(2, "dense_2", lambda x: x * np.float32(1.01)), "dumps", "differing"),
    "a value that is no number": (with_value(2, "dense_2", lambda _: np.float32(np.nan)), "dumps", "differing"),
    "a bit of an exact layer": (with_value(1, "relu_1", lambda x: x * np.float32(1.001)), "dumps", "differing"),
    "a bit of a bounded layer": (
        with_value(2, "dense_2", lambda x: np.nextafter(x, np.float32(99))),
        "dumps",
        "bounded[2].",
    ),
    "a smaller ratio": (of_chunk(0, "ratio", 0), "dumps", "bounded[0].ratio"),
    "fewer other bits": (of_chunk(0, "unequal", 0), "dumps", "bounded[0].unequal"),
    "no ratios": (lambda _, chunk, __: chunk.pop("local"), "dumps", "local"),
    "a smaller ratio in run.json": (less_of_the_bound, "verdict", "layers[0].bounded.ratio"),
    "the verdict": (of_run(verdict="identical"), "verdict", 'verdict is "identical"'),
    "the acceptance": (of_run(accepted=None), "request", "accepted"),
    "the claim of a task": (exact_task, "plan", "tasks[0].claim"),
}


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", CHANGES)
def test_verify_finds_a_change(accepted: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    folder = tmp_path / "run"
    shutil.copytree(accepted.document["run"], folder)
    change, claim, text = CHANGES[name]
    chunk, document = (json.loads((folder / path).read_text()) for path in ("chunks/00000.json", "run.json"))
    change(folder, chunk, document)
    (folder / "chunks/00000.json").write_text(json.dumps(chunk))
    (folder / "run.json").write_text(json.dumps(document))
    evidence = read(folder)
    assert evidence is not None
    progress = Console.open(as_json=True).progress
    scope = VerificationScope(workspace.find(), reports, rebuild=False)
    checked = ("request", "plan", "dumps", "reference", "failing", "verdict")
    found = {claim.name: claim for claim in verify(evidence, scope, progress) if claim.name in checked}
    wrong = {name: claim.text for name, claim in found.items() if claim.state is not ClaimState.OK}
    assert text in wrong.get(claim, "") if claim else not wrong, wrong


def test_a_night_refuses_a_proof_before_it_starts(user: User, model: Path, tmp_path: Path) -> None:
    matrix = f"  - {{boards: [host], models: ['{model}'], items: ['reordered,reordered'], action: prove}}\n"
    (tmp_path / "night.yaml").write_text(f"matrices:\n{matrix}")
    ended = user.harness("nightly", str(tmp_path / "night.yaml"), "--json", PYTHONPATH=str(PACKAGE))
    assert (ended.code, "this is not proven" in str(ended.document["error"])) == (2, True), ended.document

"""What `harness run` says of what its vectors exercised, and the search for vectors."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import model
from harness.core.installation import ROOT
from harness.reference.coverage import Coverage
from harness.reference.specification import SpecificationReference
from tests.support.cli.command import User

MODEL = ROOT / "models" / "acas_coc.onnx"
RUN = ("run", "--board", "host", "--model", "acas_coc", "--json")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def counted(run: Path) -> list[dict[str, Any]]:
    """What the vectors that a run kept exercise, counted at once."""
    parsed, vectors = model.load(MODEL), np.load(run / "stimuli.npy")
    coverage = Coverage(parsed)
    coverage.add(vectors, SpecificationReference(parsed).activations(vectors))
    return [{quantity.value: dataclasses.asdict(met) for quantity, met in layer.items()} for layer in coverage.result()]


@pytest.mark.parametrize("fetch", ["all", "mismatch"])
def test_every_layer_has_its_coverage_whatever_travels(user: User, fetch: str) -> None:
    ended = user.harness(*RUN, "--vectors", "2500", "--chunk", "1000", "--fetch", fetch)
    assert ended.code == 0, ended.err
    document = ended.document
    run = json.loads((Path(document["run"]) / "run.json").read_text())
    layers = [layer["coverage"] for layer in run["layers"]]
    assert layers == counted(Path(document["run"])) == [layer["coverage"] for layer in document["layers"]]
    assert layers[3]["codes"]["activations"] == 2500 * 50
    assert run["coverage"] == document["coverage"]
    for name in ("codes", "accumulators", "ties"):
        assert run["coverage"][name]["met"] == sum(layer.get(name, {"met": 0})["met"] for layer in layers)


def test_a_person_reads_what_was_met(user: User) -> None:
    ended = user.harness("run", "--board", "host", "--model", "acas_coc", "--vectors", "1000")
    run = json.loads(next((user.folder / "runs").glob("*/run.json")).read_text())
    assert run["coverage"]["text"] in ended.out
    assert "% of the reachable codes (dense_" in run["coverage"]["text"]
    assert "A sampled run is not a proof" in next((user.folder / "runs").glob("*/report.html")).read_text()


def test_a_resumed_run_states_the_coverage_of_all_its_vectors(user: User) -> None:
    whole = Path(user.harness(*RUN, "--vectors", "3000", "--chunk", "1000").document["run"])
    broken = whole.with_name("broken")
    shutil.copytree(whole, broken)
    for name in ("run.json", "chunks/00001.json"):
        (broken / name).unlink()
    ended = user.harness("run", "--resume", str(broken), "--json")
    assert ended.code == 0, ended.err
    undisturbed, resumed = (json.loads((folder / "run.json").read_text()) for folder in (whole, broken))
    assert resumed["coverage"] == undisturbed["coverage"]
    assert [layer["coverage"] for layer in resumed["layers"]] == counted(whole)


def test_vectors_are_searched_until_a_share_is_met_and_a_resumed_run_has_the_same(user: User) -> None:
    ended = user.harness(*RUN, "--cover", "0.35", "--vectors", "20000", "--chunk", "8000")
    assert ended.code == 0, ended.err
    document = ended.document
    codes = document["coverage"]["codes"]
    assert codes["met"] >= 0.35 * codes["reachable"]
    assert 8192 < document["vectors"] < 20000
    whole = Path(document["run"])
    run = json.loads((whole / "run.json").read_text())
    assert run["stimuli"]["source"].endswith(f"{codes['met']:,} of {codes['reachable']:,} are; the share is met")
    assert run["stimuli"]["source"] in (whole / "log.txt").read_text()
    assert sum(run["stimuli"]["classes"].values()) == document["vectors"]
    for name in ("run.json", "chunks/00001.json", "stimuli.npy"):
        (whole / name).unlink()
    resumed = user.harness("run", "--resume", str(whole), "--json")
    assert resumed.code == 0, resumed.err
    again = json.loads((whole / "run.json").read_text())
    assert again["stimuli"] == run["stimuli"]
    assert again["coverage"] == run["coverage"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cover", "0"), "0<x<=1"),
        (("--cover", "1.5"), "0<x<=1"),
        (("--cover", "0.5", "--vectors", "mine.npy"), "--vectors names the file mine.npy"),
    ],
)
def test_an_impossible_share_ends_with_2(user: User, arguments: tuple[str, ...], message: str) -> None:
    ended = user.harness("run", "--board", "host", "--model", "acas_coc", *arguments)
    assert ended.code == 2
    assert message in ended.err

"""ONNX Runtime with the whole model in a run of a float network, and what `harness verify` makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.builders import make_model
from tests.support.cli.command import User
from tests.support.codes import pooled_with_zeros

RUN = ("run", "--board", "host", "--model", "acas_reg50")


@pytest.fixture
def user(tmp_path: Path, cache: Path) -> User:
    return User(tmp_path, cache)


def claims(user: User, folder: Path) -> dict[str, str]:
    """Return the results of `harness verify` for the claims that depend on chunks and their bounds."""
    found = user.harness("verify", str(folder), "--reference", "chunk", "--json").document["claims"]
    return {
        claim["claim"]: claim["state"]
        for claim in found
        if claim["claim"] in ("fields", "chunks", "reference", "verdict")
    }


def test_a_run_states_and_verify_checks_the_bounds_of_the_whole_network(user: User) -> None:
    ended = user.harness(*RUN, "--vectors", "100", "--chunk", "64", "--json")
    assert ended.code == 0, ended.err
    folder = Path(ended.document["run"])
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    [output] = run["whole_network"]
    assert ended.document["whole_network"] == [output]
    assert {key: output[key] for key in ("output", "vectors", "values", "compared")} == {
        "output": "dense_8", "vectors": 100, "values": 500, "compared": 500
    }  # fmt: skip
    assert 0 < output["ratio"] < 0.05
    assert 1e-4 < output["bound"] < 5e-3
    parts = [json.loads(path.read_text())["whole"] for path in sorted(folder.glob("chunks/*.json"))]
    assert [part["outputs"][0]["vectors"] for part in parts] == [64, 36]
    assert output["bound"] == max(part["outputs"][0]["bound"] for part in parts)
    ratios = [layer["whole_ratio"] for layer in run["layers"]]
    assert ratios == [max(pair) for pair in zip(*(part["ratios"] for part in parts), strict=True)]
    assert claims(user, folder) == {"fields": "ok", "chunks": "ok", "reference": "ok", "verdict": "ok"}
    run["whole_network"][0]["ratio"] /= 2
    (folder / "run.json").write_text(json.dumps(run))
    assert claims(user, folder) == {"fields": "ok", "chunks": "ok", "reference": "ok", "verdict": "not ok"}


def test_a_fusion_that_changes_values_makes_a_run_inconclusive(user: User) -> None:
    nodes, constants = pooled_with_zeros(-np.ones((5, 12), np.float32))
    box = {f"input_box_{end}": json.dumps([value] * 5) for end, value in (("low", 0.5), ("high", 1.0))}
    path = user.folder / "padded.onnx"
    onnx.save(make_model(nodes, constants, {"y": ("float32", 20)}, width=5, metadata=box), path)
    ended = user.harness("run", "--board", "host", "--model", str(path), "--vectors", "8", "--json")
    assert (ended.code, ended.document["verdict"], ended.document["part"]) == (3, "inconclusive", "reference")
    assert "output 'y', vector 0, column 0: ONNX Runtime with the whole network says -" in ended.document["reason"]
    assert "the specification 0, further apart than the propagated bound" in ended.document["reason"]
    assert "such as a Pad before a MaxPool" in ended.document["hint"]

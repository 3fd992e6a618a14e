"""The networks over frames: the files are what the recipe makes, small, and say that they were not trained."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from harness.core.installation import ROOT
from harness.model import load
from harness.model.text.facts import parameter_count
from models.streams.networks import NETWORKS

PARAMETERS = {"kws_stream_int8": 6_540, "kws_causal_int8": 3_852}


@pytest.mark.parametrize("name", NETWORKS)
def test_recipe_makes_the_same_bytes_again(name: str, tmp_path: Path) -> None:
    path = ROOT / "models" / f"{name}.onnx"
    onnx.save(NETWORKS[name](), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == path.read_bytes()
    assert path.stat().st_size < 100_000
    network = load(path)
    assert parameter_count(network) == PARAMETERS[name]
    assert "not trained on speech" in network.metadata["description"]

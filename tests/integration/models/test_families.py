"""The networks of other families: the files are what the recipe makes, small, and the board computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from harness.core.installation import ROOT
from harness.model import load
from models.families import quantised
from models.families.selecting import NETWORKS
from tests.support.cli.command import User

LAYERS = {
    "kws_lstm": 4, "kws_gru": 4, "vit_tiny": 66, "text_tiny": 67, "yolo_tiny": 14, "unet_tiny": 18,
    "mobilenet_v3_tiny": 30, "efficientnet_lite_tiny": 18, "forest_tiny": 29,
    "yolo_nms_tiny": 34, "vit_tiny_int8": 132,
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_recipe_makes_the_same_bytes_again(name: str, tmp_path: Path) -> None:
    path = ROOT / "models" / f"{name}.onnx"
    onnx.save(NETWORKS[name](), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == path.read_bytes()
    assert path.stat().st_size < 100_000
    network = load(path)
    assert len(network.layers) == LAYERS[name]
    assert "outputs mean nothing" in network.metadata["description"]


def test_recipe_makes_the_same_quantised_layers_again() -> None:
    """Scales can have other last bits on another processor."""
    [(name, recipe)] = quantised.NETWORKS.items()
    model, kept = recipe(), onnx.load(ROOT / "models" / f"{name}.onnx")
    assert [node.op_type for node in model.graph.node] == [node.op_type for node in kept.graph.node]
    again, network = (
        {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
        for graph in (model, kept)
    )
    assert again.keys() == network.keys()
    for tensor, values in network.items():
        if values.dtype == np.float32:
            np.testing.assert_allclose(again[tensor], values, rtol=1e-5)
        elif values.dtype.itemsize == 1:
            assert np.abs(again[tensor].astype(int) - values.astype(int)).max(initial=0) <= 1


QUICK = ("kws_gru", "forest_tiny", "vit_tiny_int8")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.campaign) for name in LAYERS]
)
def test_the_host_computes_them(name: str, tmp_path: Path, cache: Path) -> None:
    words = ("--board", "host", "--model", name, "--vectors", "20", "--trace", "8", "--json")
    ended = User(tmp_path, cache).harness("run", *words)
    assert (ended.code, ended.document.get("verdict")) == (0, "identical"), ended.err
    assert len(ended.document["layers"]) == LAYERS[name]

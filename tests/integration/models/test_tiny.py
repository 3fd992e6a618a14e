"""The networks of embedded boards: the files are what the recipe makes, and ONNX Runtime computes them exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from harness.core.installation import ROOT
from harness.model import load
from harness.model.onnx_runtime.products import exact_session
from harness.model.text.facts import parameter_count
from harness.reference.runtime import with_all_activations
from models.tiny.networks import NETWORKS, recipe_sha256
from tests.support.programs.board_program import uniform_vectors

MODELS = ROOT / "models"
RANDOM = ("autoencoder_int8", "ds_cnn_int8", "resnet8_int8", "mobilenet_int8")
BRIEF = ("autoencoder_int8", "ds_cnn_int8")
PARAMETERS = dict(zip(NETWORKS, (44_426, 265_864, 22_604, 77_706, 210_850), strict=True))


@pytest.mark.half_of_cases
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BRIEF else pytest.mark.campaign) for name in RANDOM]
)
def test_recipe_makes_the_same_bytes_again(name: str, tmp_path: Path) -> None:
    onnx.save(NETWORKS[name](), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == (MODELS / f"{name}.onnx").read_bytes()


@pytest.mark.parametrize("name", NETWORKS)
def test_network_has_the_published_parameters(name: str) -> None:
    assert parameter_count(load(MODELS / f"{name}.onnx")) == PARAMETERS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_int8_with_one_scale_for_each_channel(name: str) -> None:
    model = onnx.load(MODELS / f"{name}.onnx")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    products = [node for node in model.graph.node if node.op_type in ("QLinearConv", "QGemm")]
    for node in products:
        weights, scales = constants[node.input[3]], constants[node.input[4]]
        assert weights.dtype == np.int8
        assert scales.shape == (weights.shape[0] if node.op_type == "QLinearConv" else weights.shape[1],)
    assert products


@pytest.mark.parametrize("name", NETWORKS)
def test_specification_is_the_runtime_and_activations_spread(name: str) -> None:
    network = load(MODELS / f"{name}.onnx")
    vectors = uniform_vectors(network, 24, seed=1)
    shape = (len(vectors), *network.vector.shape)
    session = exact_session(with_all_activations(network), name, 1, len(vectors))
    values, names = {network.vector.name: vectors}, [layer.output.name for layer in network.layers]
    outputs = session.run(names, {network.vector.name: vectors.reshape(shape)})
    for layer, expected in zip(network.layers, outputs, strict=True):
        values[layer.output.name] = layer.prepare()(*(values[source] for source in layer.sources))
        assert np.array_equal(values[layer.output.name], expected.reshape(len(vectors), -1))
        assert np.unique(expected).size > 30


def test_all_files_name_the_recipe() -> None:
    recipes = {load(MODELS / f"{name}.onnx").metadata["recipe_sha256"] for name in NETWORKS}
    assert recipes == {json.dumps(recipe_sha256())}

"""Convolutional networks as `onnxruntime.quantization` exports them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from harness.core.errors import RequestError
from harness.model import importer
from harness.model.importer import NetworkImport
from harness.model.onnx_runtime.products import exact_session
from harness.operators.base import Layer
from tests.support.importer.convolutions import NODES, SHAPE, float_network
from tests.support.importer.graphs import Array

FORMATS = list(itertools.product(QuantFormat, (QuantType.QUInt8, QuantType.QInt8), (False, True)))


class Images(CalibrationDataReader):
    """Sixteen random images."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.rest = iter(random.uniform(-1, 1, (16, 1, *SHAPE)).astype(np.float32))

    def get_next(self) -> dict[str, Array] | None:
        image = next(self.rest, None)
        return None if image is None else {"x": image}


def quantised(
    folder: Path, network: str, form: QuantFormat, codes: QuantType, *, per_channel: bool, batch: int | str = 1
) -> Path:
    (folder / "float.onnx").write_bytes(float_network(network, batch))
    path = folder / "quantised.onnx"
    quantize_static(
        folder / "float.onnx",
        path,
        Images(),
        quant_format=form,
        activation_type=codes,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
    )
    return path


def imported(path: Path) -> NetworkImport:
    found = importer.bring_in(path)
    assert isinstance(found, NetworkImport)
    return found


def outputs(onnx_bytes: bytes, images: Array, *, int8_groups: bool) -> Array:
    session = exact_session(onnx_bytes, "given", 1, 1, int8_groups=int8_groups)
    return np.concatenate([session.run(["y"], {"x": image[None]})[0] for image in images])


@pytest.mark.half_of_cases
@pytest.mark.parametrize(("form", "codes", "per_channel"), FORMATS)
@pytest.mark.parametrize("network", NODES)
def test_exports_of_onnx_runtime_keep_their_bits(
    tmp_path: Path, network: str, form: QuantFormat, codes: QuantType, per_channel: bool
) -> None:
    path = quantised(tmp_path, network, form, codes, per_channel=per_channel)
    found = imported(path)
    images = np.random.default_rng(5).uniform(-1.2, 1.2, (200, *SHAPE)).astype(np.float32)
    int8_groups = form == QuantFormat.QDQ and codes == QuantType.QInt8
    theirs = outputs(path.read_bytes(), images, int8_groups=int8_groups)
    ours = outputs(found.network.onnx_bytes, images, int8_groups=False)
    assert theirs.tobytes() == ours.tobytes()
    assert len(np.unique(ours)) > 50
    values: dict[str, Array] = {"x": images.reshape(len(images), -1)}
    for layer in found.network.layers:
        values[layer.output.name] = layer.prepare()(*(values[source] for source in layer.sources))
    assert values["y"].tobytes() == ours.tobytes()
    assert any("qdqisint8allowed" in note for note in found.notes) == int8_groups


def test_the_operators_of_a_residual_network(tmp_path: Path) -> None:
    found = imported(quantised(tmp_path, "residual", QuantFormat.QDQ, QuantType.QUInt8, per_channel=True))
    names = [layer.operator for layer in found.network.layers]
    convolutions = ["QLinearConv"] * 3
    assert names == ["QuantizeLinear", *convolutions, "QLinearAdd", "MaxPool", "Flatten", "QGemm", "DequantizeLinear"]
    assert found.network.vector.shape == SHAPE
    assert found.check.vectors == 512
    assert found.check.values > 512 * sum(layer.size for layer in found.network.layers[1:4])


@pytest.mark.parametrize("batch", ["n", 1])
def test_a_fixed_and_a_free_batch_are_the_same_network(tmp_path: Path, batch: str | int) -> None:
    found = imported(
        quantised(tmp_path, "residual", QuantFormat.QOperator, QuantType.QUInt8, per_channel=True, batch=batch)
    )
    [source] = onnx.load_model_from_string(found.network.onnx_bytes).graph.input
    assert [size.dim_param or size.dim_value for size in source.type.tensor_type.shape.dim] == ["vectors", *SHAPE]
    session = onnxruntime.InferenceSession(found.network.onnx_bytes)
    assert session.run(None, {"x": np.zeros((3, *SHAPE), np.float32)})[0].shape == (3, 5)


def test_weights_may_be_in_another_file(tmp_path: Path) -> None:
    path = quantised(tmp_path, "residual", QuantFormat.QDQ, QuantType.QUInt8, per_channel=True)
    inside = imported(path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    outside = imported(path)
    assert [tables(layer) for layer in outside.network.layers] == [tables(layer) for layer in inside.network.layers]


def tables(layer: Layer) -> dict[str, object]:
    return {name: np.asarray(value).tolist() for name, value in layer.constants().items()}


def changed(path: Path, convolution: int, position: int, change: str) -> Path:
    """Change the constant behind an input of a convolution."""
    model = onnx.load(path)
    writers = {node.output[0]: node for node in model.graph.node}
    product = [node for node in model.graph.node if node.op_type == "Conv"][convolution]
    dequantise = writers[product.input[position]]
    if change == "float":
        tensor = numpy_helper.from_array(np.ones(4, np.float32), "float_bias")
        model.graph.initializer.append(tensor)
        product.input[position] = "float_bias"
    elif change == "axis":
        next(entry for entry in dequantise.attribute if entry.name == "axis").i = 1
    else:
        [scale] = [tensor for tensor in model.graph.initializer if tensor.name == dequantise.input[1]]
        scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(2), scale.name))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("convolution", "position", "change", "message"),
    [
        (0, 2, "float", "the bias 'float_bias' is float32: onnxruntime would round it"),
        (0, 2, "scale", "x_scale * w_scale is "),
        (0, 1, "scale", "x_scale * w_scale is "),
        (2, 1, "axis", "has its scales along axis 1 of the weights"),
    ],
)
def test_constants_that_onnx_runtime_would_misread_are_refused(
    tmp_path: Path, convolution: int, position: int, change: str, message: str
) -> None:
    path = quantised(tmp_path, "residual", QuantFormat.QDQ, QuantType.QUInt8, per_channel=True)
    with pytest.raises(RequestError) as refused:
        importer.bring_in(changed(path, convolution, position, change))
    assert message in refused.value.message


def test_a_convolution_that_onnx_runtime_leaves_in_float32_is_named(tmp_path: Path) -> None:
    path = quantised(tmp_path, "residual", QuantFormat.QDQ, QuantType.QUInt8, per_channel=False)
    model = onnx.load(path)
    graph = model.graph
    convolution = [node for node in graph.node if node.op_type == "Conv"][1]
    quantise = next(node for node in graph.node if convolution.output[0] in node.input)
    after = next(node for node in graph.node if quantise.output[0] in node.input)
    for reader in graph.node:
        reader.input[:] = [convolution.output[0] if name == after.output[0] else name for name in reader.input]
    for removed in (quantise, after):
        graph.node.remove(removed)
    onnx.save(model, path)
    found = importer.bring_in(path)
    assert f"ONNX Runtime runs {convolution.name!r}, 'node_c3' in float32" in found.notes


def test_nodes_that_only_rename_axes_are_kept(tmp_path: Path) -> None:
    path = quantised(tmp_path, "residual", QuantFormat.QOperator, QuantType.QUInt8, per_channel=True)
    model = onnx.load(path)
    convolution = next(node for node in model.graph.node if node.op_type == "QLinearConv")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axes"))
    for position, (operator, source, output) in enumerate(
        [("Unsqueeze", convolution.input[0], "five"), ("Squeeze", "five", "four")], start=1
    ):
        model.graph.node.insert(position, onnx.helper.make_node(operator, [source, "axes"], [output], name=output))
    convolution.input[0] = "four"
    onnx.save(model, path)
    found = imported(path)
    assert {"Squeeze", "Unsqueeze"} <= {layer.operator for layer in found.network.layers}
    images = np.random.default_rng(5).uniform(-1, 1, (20, *SHAPE)).astype(np.float32)
    theirs = outputs(path.read_bytes(), images, int8_groups=False)
    assert theirs.tobytes() == outputs(found.network.onnx_bytes, images, int8_groups=False).tobytes()

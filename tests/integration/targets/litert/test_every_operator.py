"""Every operator as TFLite, run by LiteRT alone: the specification's bits, or values within its tolerance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from harness import targets
from harness.applications.convert.check import decoded, encoded
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.model.tflite.file import encode
from harness.operators.base import Layer
from harness.operators.qlinear_conv import QLinearConv
from harness.reference import ratios_to
from harness.reference.specification import SpecificationReference
from harness.targets import Claim
from harness.targets.litert.convert import Converted, convert, convert_network
from tests.support import functions, images
from tests.support.every_operator import NETWORKS
from tests.support.programs.board_program import parse, uniform_vectors
from tests.support.programs.convolutions import random_convolutions

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")
from harness.model.tflite.interpreter import Interpreter

REPEATED = dict.fromkeys(("gated", "raised"), "it repeats an activation along an axis")
REFUSED = {
    "images uint8": REPEATED,
    "images int8": REPEATED,
    "codes uint8": {"softmax": "it has kernels for"},
    "codes int8": {"softmax": "it has kernels for"},
    "float images": {
        "aligned": "it has kernels for",
        "dilated": "MAX_POOL_2D has no dilation",
        "linear": "it has kernels for",
        "means": "TFLite would divide by other numbers of values",
        "wider": "it has kernels for",
    },
    "functions": {"elu": "alpha is 0.3", "powers": "it has kernels for"},
}
KINDS = [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")]


def converted(layer: Layer) -> Converted:
    lowerings: Any = targets.find("litert:xnnpack").lowerings
    return convert([layer], list(layer.inputs), [layer.output.name], lowerings)


def computed(layer: Layer, file: Converted, inputs: list[Array]) -> Array:
    """Return what LiteRT computes with the file, (vectors, size)."""
    engine, found = Interpreter(encode(file.file)), []
    for vector in range(len(inputs[0])):
        given = {
            file.inputs[tensor.name].tensor: encoded(values[vector], file.inputs[tensor.name])
            for tensor, values in zip(layer.inputs, inputs, strict=True)
        }
        value = file.layers[layer.name]
        output = {value.tensor: engine.run(given)[value.tensor][None]}
        found.append(decoded(output, value, layer.dtype))
    return np.concatenate(found)


def wrong(layer: Layer, inputs: list[Array], right: Array) -> str:
    """Return what is wrong with a layer that LiteRT computes, or nothing."""
    file = converted(layer)
    actual = computed(layer, file, inputs)
    if file.claims[layer.name] is Claim.EXACT:
        differing = (actual.view(f"V{actual.itemsize}") != right.view(f"V{right.itemsize}")).sum()
        return f"{differing} of {right.size} values differ" if differing else ""
    tolerance = layer.tolerance(inputs, right)
    assert tolerance is not None
    ratio = float(ratios_to(actual, right, tolerance).max())
    return "" if ratio <= 1 else f"{ratio} times the tolerance"


def wrong_and_refused(net: Network, vectors: Array) -> tuple[dict[str, str], dict[str, str]]:
    target = targets.find("litert:xnnpack")
    right = SpecificationReference(net).activations(vectors)
    values = {net.vector.name: vectors} | {layer.output.name: of for layer, of in zip(net.layers, right, strict=True)}
    found, refused = {}, {}
    for layer, expected in zip(net.layers, right, strict=True):
        reason = target.unsupported(layer)
        if reason:
            refused[layer.name] = reason
        elif text := wrong(layer, [values[name] for name in layer.sources], expected):
            found[layer.name] = text
    return found, refused


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NETWORKS)
def test_every_operator_keeps_its_bits_or_its_bound(name: str) -> None:
    net = NETWORKS[name]()
    found, refused = wrong_and_refused(net, uniform_vectors(net, 12, seed=1))
    assert found == {}
    expected = REFUSED.get(name, {})
    assert set(refused) == set(expected)
    assert [layer for layer, reason in expected.items() if not refused[layer].startswith(reason)] == []


@pytest.mark.parametrize(("code", "weights"), KINDS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 40))])
def test_random_convolutions_keep_their_bits(code: str, weights: str, seed: int) -> None:
    net = random_convolutions(np.random.default_rng(seed), 2, code, weights, 3)
    assert wrong_and_refused(net, uniform_vectors(net, 8, seed=seed)) == ({}, {})


def test_a_refusal_names_the_node_and_the_reason() -> None:
    layer = next(layer for layer in functions.every_function().layers if layer.name == "elu")
    with pytest.raises(RequestError, match=r"node 'elu' \(Elu\) cannot be converted: alpha is 0.3"):
        converted(layer)


def changed(file: Converted, role: str, by: int) -> Converted:
    """Return the file with another value in the middle of the constant of this role."""
    at = next(at for at, tensor in enumerate(file.file.tensors) if tensor.name.endswith(f"/{role}"))
    tensor = file.file.tensors[at]
    assert tensor.values is not None
    values = tensor.values.copy()
    values.reshape(-1)[values.size // 2] += by
    tensors = (*file.file.tensors[:at], replace(tensor, values=values), *file.file.tensors[at + 1 :])
    return replace(file, file=replace(file.file, tensors=tensors))


def test_a_wrong_constant_of_a_file_is_found() -> None:
    net = images.every_operator("int8", "conv")
    vectors = uniform_vectors(net, 12, seed=1)
    right = SpecificationReference(net).activations(vectors)
    values = {net.vector.name: vectors} | {layer.output.name: of for layer, of in zip(net.layers, right, strict=True)}
    place, layer = next((at, layer) for at, layer in enumerate(net.layers) if layer.name == "conv")
    assert isinstance(layer, QLinearConv)
    file, inputs = converted(layer), [values[name] for name in layer.sources]
    assert (computed(layer, file, inputs) == right[place]).all()
    a_code = int(np.ceil(1 / layer.multiplier.min()))
    for role, by in (("weights", 40), ("bias", a_code)):
        assert (computed(layer, changed(file, role, by), inputs) != right[place]).any(), role


def sequences() -> Network:
    """Convolutions, pooling, normalisation and functions over time, as of a speech classifier, then a dense layer."""
    rng, graph = np.random.default_rng(0), []

    def constant(name: str, *shape: int) -> str:
        values[name] = rng.normal(0, 0.3, shape).astype(np.float32)
        return name

    values: dict[str, Array] = {"variance": rng.uniform(0.5, 1.5, 8).astype(np.float32)}
    channels = [constant(name, 8) for name in ("scale", "offset", "mean")]
    for operator, *inputs, attributes in (
        ("Conv", constant("w1", 8, 4, 5), constant("b1", 8), {"pads": [2, 2]}),
        ("BatchNormalization", *channels, "variance", {}),
        ("Relu", {}),
        ("MaxPool", {"kernel_shape": [2], "strides": [2]}),
        ("Conv", constant("w2", 8, 1, 3), constant("b2", 8), {"group": 8, "pads": [1, 1]}),
        ("Conv", constant("w3", 6, 8, 1), constant("b3", 6), {}),
        ("LeakyRelu", {}),
        ("Flatten", {}),
        ("Gemm", constant("w4", 48, 3), constant("b4", 3), {}),
    ):
        source = f"y{len(graph)}" if graph else "x"
        graph.append(helper.make_node(operator, [source, *inputs], [f"y{len(graph) + 1}"], **attributes))
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["vectors", 4, 16])
    made = helper.make_tensor_value_info(f"y{len(graph)}", onnx.TensorProto.FLOAT, ["vectors", 3])
    constants = [numpy_helper.from_array(value, name) for name, value in values.items()]
    whole = helper.make_graph(graph, "sequences", [given], [made], constants)
    return parse(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def test_sequences_stay_images_until_the_dense_layer() -> None:
    net = sequences()
    file = convert_network(net, [net.layers[-1].output.name])
    names = [call.name for call in file.file.operators]
    assert names == [
        *("CONV_2D", "SUB", "DIV", "MUL", "ADD", "RELU", "MAX_POOL_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "LEAKY_RELU"),
        *("RESHAPE", "FULLY_CONNECTED"),
    ]
    assert wrong_and_refused(net, np.random.default_rng(1).normal(0, 1, (8, 64)).astype(np.float32)) == ({}, {})

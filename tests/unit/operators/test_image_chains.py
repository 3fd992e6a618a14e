"""Operators on images between convolutions: ONNX Runtime's optimisations and its layout of channels change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.reference.runtime import OnnxRuntimeReference
from harness.reference.specification import SpecificationReference
from tests.support.codes import node
from tests.support.images import image_network


def assert_agree(parsed: Network, x: Array) -> None:
    """Both references agree with all activations given out, and without."""
    right = SpecificationReference(parsed).activations(x)
    runtime = OnnxRuntimeReference(parsed)
    for layer, one, other in zip(parsed.layers, runtime.activations(x), right, strict=True):
        assert one.dtype == other.dtype == layer.dtype
        assert one.tobytes() == other.tobytes(), layer.name
    for name, output in runtime.given_outputs(x).items():
        layer = next(index for index, layer in enumerate(parsed.layers) if layer.output.name == name)
        assert output.tobytes() == right[layer].tobytes()


ZEROS = "largest of zeros"
WINDOWS: dict[str, Any] = {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}
CHAINS: dict[str, list[tuple[str, tuple[str, ...], dict[str, Any]]]] = {
    "largest": [("MaxPool", (), WINDOWS)],
    "mean": [("QLinearAveragePool", ("s", "z", "t", "y"), WINDOWS)],
    "mean with padding": [("QLinearAveragePool", ("s", "z", "t", "y"), WINDOWS | {"count_include_pad": 1})],
    "mean of the image": [("QLinearAveragePool", ("s", "z", "t", "y"), {"kernel_shape": [6, 6]})],
    "global mean": [("QLinearGlobalAveragePool", ("s", "z", "t", "y"), {})],
    "padding": [("Pad", ("pads", "z"), {})],
    "largest of padding": [("Pad", ("pads", "z"), {}), ("MaxPool", (), {"kernel_shape": [2, 2]})],
    "largest of lowest padding": [("Pad", ("pads", "low"), {}), ("MaxPool", (), {"kernel_shape": [2, 2]})],
    ZEROS: [("Pad", ("pads",), {}), ("MaxPool", (), {"kernel_shape": [2, 2]})],
    "mean of padding": [
        ("Pad", ("pads",), {}),
        ("QLinearAveragePool", ("s", "z", "t", "y"), WINDOWS | {"count_include_pad": 1}),
    ],
    "transposed": [("Transpose", (), {"perm": [0, 1, 3, 2]})],
    "transposed twice": [("Transpose", (), {"perm": [0, 2, 3, 1]}), ("Transpose", (), {"perm": [0, 3, 1, 2]})],
    "part": [("Slice", ("first", "last", "axes"), {})],
    "joined": [("Concat", ("c1",), {"axis": 1}), ("Slice", ("first_channel", "last_channel", "channels"), {})],
    "the same": [("Identity", (), {})],
}


def chain(name: str, dtype: str, *, last: bool) -> Network:
    """A network of a convolution, these operators, and another convolution after choice."""
    rng, shift = np.random.default_rng(0), 0 if dtype == "uint8" else -128
    constants: dict[str, Any] = {
        "image": np.array([-1, 8, 6, 6]),
        "s": np.float32(0.9), "t": np.float32(3.3),
        "z": np.array(100 + shift, dtype), "y": np.array(131 + shift, dtype),
        "w": rng.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8),
        "sw": np.full(8, 0.01, np.float32), "zw": np.zeros(8, np.int8),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "low": np.array(np.iinfo(dtype).min, dtype),
        "first": np.array([1]), "last": np.array([5]), "axes": np.array([2]),
        "first_channel": np.array([4]), "last_channel": np.array([12]), "channels": np.array([1]),
    }  # fmt: skip
    weights = ("s", "z", "w", "sw", "zw", "s", "z")
    nodes = [
        node("Reshape", "x", "image", output="images"),
        node("QuantizeLinear", "images", "s", "z", output="q"),
        node("QLinearConv", "q", *weights, output="c1", pads=[1] * 4),
    ]
    for operator, inputs, attributes in CHAINS[name]:
        output = f"t{len(nodes)}"
        nodes.append(node(operator, nodes[-1].output[0], *inputs, output=output, **attributes))
    if last:
        nodes.append(node("QLinearConv", nodes[-1].output[0], *weights, output="c2", pads=[1] * 4))
    used = {each for made in nodes for each in made.input}
    return image_network(nodes, {each: value for each, value in constants.items() if each in used}, dtype, 8 * 36)


@pytest.mark.half_of_cases
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", [name for name in CHAINS if name != ZEROS])
def test_onnx_runtime_agrees_with_and_without_all_activations(name: str, dtype: str) -> None:
    for last in (True, False):
        net = chain(name, dtype, last=last)
        assert_agree(net, np.random.default_rng(1).uniform(-120, 140, (20, net.vector.size)).astype(np.float32))


def test_zeros_around_int8_that_onnx_runtime_leaves_out_are_refused() -> None:
    """0 is the lowest code of uint8."""
    with pytest.raises(RequestError, match=r"'t\d' \(MaxPool\): pools what 't\d' pads with 0") as caught:
        chain(ZEROS, "int8", last=False)
    assert caught.value.hint == "padding with the lowest code, -128, or pads of the MaxPool"
    net = chain(ZEROS, "uint8", last=True)
    assert_agree(net, np.random.default_rng(1).uniform(-120, 140, (20, net.vector.size)).astype(np.float32))

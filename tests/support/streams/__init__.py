"""Networks over frames for tests of streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.model.network import Network
from harness.model.stream import Stream
from harness.model.transforms.edit import declare_functions
from harness.reference.specification import SpecificationReference
from tests.support.builders import make_model
from tests.support.codes import node
from tests.support.programs.board_program import parse
from tests.support.recurrent import STATES, Recurrences

QUANTISATION = {"s": np.float32(0.05), "z": np.array(3, np.int8), "o": np.float32(0.11), "y": np.array(-20, np.int8)}


def frames_network(nodes: list[onnx.NodeProto], constants: dict[str, Any], *shape: int, dtype: str = "int8") -> Network:
    """A network of nodes from "x" to "out" over inputs of this shape, the channels first."""
    model = make_model(nodes, {**QUANTISATION, **constants}, {"out": (dtype, 1)}, width=1)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["vectors", *shape]))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "any"
    for written in {name for each in nodes for name in each.output} - {name for each in nodes for name in each.input}:
        model.graph.output[0].name = written
    declare_functions(model)
    return parse(model)


def convolution(rng: np.random.Generator, source: str, name: str, inputs: int, outputs: int, **window: Any) -> Any:
    """A QLinearConv with random weights, and these weights by name."""
    kernel, group = window.pop("kernel"), window.get("group", 1)
    weights = rng.integers(-90, 90, (outputs, inputs // group, *kernel)).astype(np.int8)
    constants = {f"{name}_w": weights, f"{name}_s": np.float32(0.002), f"{name}_z": np.array(0, np.int8)}
    operands = [source, "s", "z", *constants, "s", "z"]
    return node("QLinearConv", *operands, output=name, **window), constants


def small_stream() -> Network:
    """A causal strided and a dilated convolution, a residual sum, and a mean, a dense layer; 3 channels, 16 frames."""
    rng = np.random.default_rng(7)
    first, one = convolution(rng, "q", "a", 3, 4, kernel=[3], strides=[2], pads=[1, 0])
    second, two = convolution(rng, "a", "b", 4, 4, kernel=[3], dilations=[2], pads=[4, 0], group=4)
    dense: dict[str, Any] = {
        "d_w": rng.integers(-90, 90, (4, 5)).astype(np.int8),
        "d_b": rng.integers(-900, 900, 5).astype(np.int32),
    }
    operands = ["flat", "s", "z", "d_w", "d_s", "d_z", "d_b", "o", "y"]
    nodes = [
        node("QuantizeLinear", "x", "s", "z", output="q"),
        first,
        second,
        node("QLinearAdd", "a", "s", "z", "b", "s", "z", "o", "y", output="c"),
        node("QLinearGlobalAveragePool", "c", "o", "y", "s", "z", output="mean"),
        node("Flatten", "mean", output="flat"),
        helper.make_node("QGemm", operands, ["scores"], "scores", domain="com.microsoft"),
    ]
    dense |= {"d_s": np.float32(0.004), "d_z": np.array(0, np.int8)}
    return frames_network(nodes, {**one, **two, **dense}, 3, 16)


def recurrent_stream(operator: str, seed: int = 0, **attributes: int) -> Network:
    """A convolution that gives frames, a recurrence over them that begins with constants, its last state, and Tanh."""
    rng = np.random.default_rng(seed)
    network = Recurrences(8, 4, 3, rng)
    network.add(operator, states=["constant"] * len(STATES[operator]), **attributes)
    [recurrence] = network.nodes
    recurrence.input[0] = "frames"
    constants = {**network.constants, "k": rng.normal(0, 0.1, (4, 3, 3)).astype(np.float32), "last": np.array([-1])}
    nodes = [
        node("Conv", "x", "k", output="convolved", kernel_shape=[3]),
        node("Transpose", "convolved", output="frames", perm=[0, 2, 1]),
        recurrence,
        node("Gather", "layer_0", "last", output="state", axis=1),
        node("Tanh", "state", output="out"),
    ]
    return frames_network(nodes, constants, 3, 10, dtype="float32")


def inputs_of(stream: Stream, streams: int, seed: int = 0) -> Array:
    """The steps of some streams, float32 (streams * steps, K)."""
    shape = (streams * stream.steps, stream.network.vector.size)
    vectors: Array = (np.random.default_rng(seed).normal(size=shape) * 3).astype(np.float32)
    return vectors


def differing_layers(stream: Stream, vectors: Array) -> list[str]:
    """The layers whose frames in the specification of the steps differ from those of the whole network."""
    steps = SpecificationReference(stream.network).activations(vectors)
    whole = SpecificationReference(stream.whole).activations(stream.windows_of(vectors))
    written = {layer.output.name: values for layer, values in zip(stream.network.layers, steps, strict=True)}
    found = ((layer, stream.frames_of(layer, written[layer.output.name])) for layer in stream.whole.layers)
    return [
        layer.name
        for (layer, frames), right in zip(found, whole, strict=True)
        if frames.shape != right.shape or frames.tobytes() != right.tobytes()
    ]

"""Streams: the specification of the steps against that of the whole network, byte for byte, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from harness import model as networks
from harness import operators
from harness.core.errors import ReferenceFailed, RequestError
from harness.core.installation import ROOT
from harness.model import stream as streams
from harness.model.network import Network
from harness.operators.delay import Delay
from harness.operators.frames import Frames
from harness.operators.recurrent_steps import RecurrentSteps
from harness.reference.stream import StreamReference
from tests.support.codes import layer_of, node
from tests.support.recurrent import Recurrences
from tests.support.streams import (
    convolution,
    differing_layers,
    frames_network,
    inputs_of,
    recurrent_stream,
    small_stream,
)  # fmt: skip

RECURRENCES: list[tuple[str, dict[str, int]]] = [
    ("LSTM", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {}),
]  # fmt: skip


def shipped(name: str) -> Network:
    return networks.load(ROOT / "models" / f"{name}.onnx")


@pytest.mark.parametrize(
    ("model", "axis", "pulse", "steps", "delays"),
    [
        ("kws_stream_int8", 2, None, None, {"conv_1": 1, "depthwise_4": 29, "pool": 48}),
        ("kws_stream_int8", 2, 14, 8, {"conv_1": 1, "depthwise_4": 29, "dense": 6}),
        ("kws_causal_int8", 2, 2, None, {"conv_1": 0, "add_4": 0, "dense": 48}),
        ("lenet5_int8", 2, None, 9, {"conv_1": 4, "pool_1": 2, "conv_2": 6, "flatten": 6}),
        ("lenet5", 3, 4, None, {"conv_1": 4, "pool_1": 2, "softmax": 6}),
        ("kws_lstm", 1, None, 60, {"lstm_0": 0, "gather_1": 24}),
        ("kws_gru", 1, 5, None, {"gru_0": 0, "add_3": 4}),
    ],
)
def test_steps_give_the_frames_of_the_whole_network(
    model: str, axis: int, pulse: int | None, steps: int | None, delays: dict[str, int]
) -> None:
    found = streams.stream(shipped(model), axis, pulse, steps)
    flows = {layer.name: found.flows[layer.output.name] for layer in found.whole.layers}
    assert {name: flows[name].delay for name in delays} == delays
    assert differing_layers(found, inputs_of(found, 3)) == []


@pytest.mark.half_of_cases
@pytest.mark.parametrize("seed", range(24))
def test_random_networks_give_the_frames_of_the_whole_network(seed: int) -> None:
    """Convolutions and poolings of any window, with causal padding or none, a sum of branches with different delays."""
    rng = np.random.default_rng(seed)
    images = bool(rng.integers(2))
    other = [4] if images else []
    nodes, constants, source, channels = [node("QuantizeLinear", "x", "s", "z", output="q")], {}, "q", 2
    padded = bool(rng.integers(2))
    for number in range(int(rng.integers(1, 4))):
        kernel, stride, dilation = (int(rng.integers(1, most)) for most in (4, 3, 4))
        before = int(rng.integers(0, (kernel - 1) * dilation + 1)) if padded else 0
        rest = [0] * len(other)
        window: dict[str, Any] = {"strides": [stride, *[1] * len(other)], "pads": [before, *rest, 0, *rest]}
        name = f"n{number}"
        if rng.random() < 0.3:
            window |= {"kernel_shape": [kernel, *[1] * len(other)], "pads": [min(before, kernel - 1), *rest, 0, *rest]}
            nodes.append(node("MaxPool", source, output=name, **window))
        else:
            window |= {"dilations": [dilation, *[1] * len(other)]}
            proto, more = convolution(rng, source, name, channels, 3, kernel=[kernel, *[1] * len(other)], **window)
            nodes.append(proto)
            constants, channels = constants | more, 3
        source = name
    if rng.random() < 0.5:
        branches = []
        for name, kernel in (("left", 1), ("right", 3)):
            one, pads = [1] * len(other), [kernel - 1, *[0] * (2 * len(other) + 1)]
            proto, more = convolution(rng, source, name, channels, 3, kernel=[kernel, *one], pads=pads)
            nodes.append(proto)
            constants |= more
            branches += [name, "s", "z"]
        nodes.append(node("QLinearAdd", *branches, "o", "y", output="out"))
    whole = frames_network(nodes, constants, 2, 24, *other)
    least = streams.stream(whole, 2).pulse
    for pulse in range(least, 2 * least + 1, least):
        found = streams.stream(whole, 2, pulse)
        assert differing_layers(found, inputs_of(found, 2, seed)) == []


def test_branches_wait_for_the_latest() -> None:
    """A convolution without padding is two frames later than the identity beside it."""
    rng = np.random.default_rng(1)
    proto, constants = convolution(rng, "q", "right", 2, 2, kernel=[3])
    bounds = {"starts": np.array([1], np.int64), "ends": np.array([9], np.int64), "axes": np.array([2], np.int64)}
    nodes = [node("QuantizeLinear", "x", "s", "z", output="q"), proto]
    whole = frames_network([*nodes, node("Concat", "right", "right", output="out", axis=1)], constants, 2, 10)
    assert differing_layers(streams.stream(whole, 2), inputs_of(streams.stream(whole, 2), 3)) == []
    cut = [*nodes, node("Slice", "q", *bounds, output="part"), node("Concat", "right", "part", output="out", axis=1)]
    with pytest.raises(RequestError, match=r"node 'part' \(Slice\): Slice has no streaming form along axis 2"):
        streams.stream(frames_network(cut, {**constants, **bounds}, 2, 10), 2)


@pytest.mark.parametrize("pulse", [1, 2, 3])
@pytest.mark.parametrize(("operator", "attributes"), RECURRENCES)
def test_states_of_recurrences_carry_over(operator: str, attributes: dict[str, int], pulse: int) -> None:
    """Behind a convolution the first whole frame comes late; the states begin with constants there."""
    steps_of_stream = streams.stream(recurrent_stream(operator, **attributes), 2, pulse, steps=13)
    assert not steps_of_stream.shifted
    assert differing_layers(steps_of_stream, inputs_of(steps_of_stream, 4)) == []
    [layer] = (layer for layer in steps_of_stream.network.layers if isinstance(layer, RecurrentSteps))
    assert steps_of_stream.history_bytes == 4 * (sum(layer.streaming.kept for layer in steps_of_stream.network.layers))
    assert (layer.start, layer.streaming.kept) == (-(-2 // pulse), 3 * len(layer.recurrence.states))


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "attributes"), RECURRENCES)
def test_wrong_states_are_fault_models(operator: str, attributes: dict[str, int]) -> None:
    network = streams.stream(recurrent_stream(operator, **attributes), 2, 2, steps=5).network
    [layer] = (layer for layer in network.layers if isinstance(layer, RecurrentSteps))
    layer = replace(layer, start=0)
    x = np.random.default_rng(2).normal(size=(13, layer.input.size)).astype(np.float32)
    right = layer.prepare()(x)
    alone = [layer.prepare()(stream) for stream in (x[:5], x[5:10], x[10:])]
    assert np.array_equal(np.concatenate(alone), right)
    causes = {model.cause for model in layer.fault_models(x) if (model.output != right).any()}
    assert causes >= {"the states are not updated", "a stream begins with states of the one before"}


def test_a_recurrence_that_begins_with_the_last_frame_is_refused() -> None:
    network = Recurrences(4, 3, 2, np.random.default_rng(0))
    network.add("GRU", "reverse")
    with pytest.raises(RequestError, match="begins with the last step, and a stream has none"):
        streams.stream(networks.parse(network.model().SerializeToString(), "reverse"), 1)


@pytest.mark.parametrize(
    ("model", "asked", "message", "advice"),
    [
        ("kws_stream_int8", (0,), "--stream 0: its input has shape (vectors, 20, 98)", "axis from 1 to 2"),
        ("kws_stream_int8", (3,), "--stream 3", "axis from 1 to 2"),
        ("kws_stream_int8", (1,), "node 'conv_1' (QLinearConv): QLinearConv computes each channel", "docs/stream"),
        ("kws_stream_int8", (2, 3), "--pulse 3: its strides along axis 2 take 2 frames", "multiple of 2"),
        ("kws_stream_int8", (2, 100), "--pulse 100", "at most the 98 frames"),
        ("kws_stream_int8", (2, 2, 48), "--steps 48: the whole network takes 49 steps of 2 frames", "choose 49 to"),
        ("ds_cnn_int8", (2,), "node 'conv_1' (QLinearConv): pads 5 frames after the last one", "before the first"),
        ("acas_coc", (1,), "node 'dense_1' (QGemm): QGemm has no streaming form along axis 1", "docs/stream"),
    ],
)
def test_refusals_name_the_node_and_the_choices(model: str, asked: tuple[int, ...], message: str, advice: str) -> None:
    with pytest.raises(RequestError) as refused:
        streams.stream(shipped(model), *asked)
    assert message in refused.value.message
    assert advice in (refused.value.hint or "")


def test_every_operator_says_whether_it_has_a_streaming_form() -> None:
    """Those without a rule of their own have that of `Layer`, which refuses what is neither elementwise nor joined."""
    own = {
        name
        for (_, name), operator in operators.by_onnx_name().items()
        if operator.streaming is not operators.base.Layer.streaming
    }
    assert own >= {"QLinearConv", "Conv", "MaxPool", "AveragePool", "Flatten", "QLinearGlobalAveragePool"}
    dense = small_stream().layers[-1].streaming.frames(0)
    assert isinstance(dense, str)
    assert "QGemm" in dense


@pytest.mark.parametrize("changed", ["steps", "weights", "whole", "no whole network"])
def test_a_forged_network_of_steps_is_refused(changed: str) -> None:
    found = streams.stream(small_stream(), 2)
    assert streams.of(found.network).network.sha256 == found.network.sha256  # type: ignore[union-attr]
    model = onnx.load_model_from_string(found.network.onnx_bytes)
    metadata = dict(found.network.metadata)
    if changed == "steps":
        metadata[streams.SETTINGS] = json.dumps({**json.loads(metadata[streams.SETTINGS]), "steps": 40})
    elif changed == "weights":
        weights = next(each for each in model.graph.initializer if each.name == "b_w")
        weights.raw_data = bytes([weights.raw_data[0] ^ 1]) + weights.raw_data[1:]
    elif changed == "whole":
        metadata[streams.WHOLE] = metadata[streams.WHOLE][:-8]
    else:
        del metadata[streams.WHOLE]
    del model.metadata_props[:]
    helper.set_model_props(model, metadata)
    forged = networks.parse(model.SerializeToString(), "network")
    with pytest.raises(RequestError, match=r"damaged|is not the network of steps"):
        streams.of(forged)


def test_the_reference_is_confirmed_by_the_whole_network() -> None:
    found = streams.stream(small_stream(), 2, steps=12)
    vectors = inputs_of(found, 4)
    assert StreamReference(found).activations(vectors)[-1].shape == (4 * found.steps, 5)
    late = replace(found.flows["b"], delay=found.flows["b"].delay + 1)
    with pytest.raises(
        ReferenceFailed, match=r"layer 'b' \(QLinearConv\), stream 0, window 0, column 1: the steps say"
    ):
        StreamReference(replace(found, flows={**found.flows, "b": late})).activations(vectors)


def delay(**attributes: Any) -> Delay:
    proto = helper.make_node("Delay", ["x"], ["y"], "y", domain="harness", **attributes)
    layer = layer_of(proto, {}, {"x": np.zeros((1, 2, 3, 2), np.int8)})
    assert isinstance(layer, Delay)
    return layer


@pytest.mark.parametrize("start", [0, 1])
def test_a_delay_is_a_queue_of_frames(start: int) -> None:
    layer = delay(axis=2, history=4, start=start, steps=5, value=-7.0)
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (13, 2, 3, 2)).astype(np.int8)
    queue, right = np.full((2, 4, 2), -7, np.int8), []
    for index, frames in enumerate(x):
        if index % 5 <= start:
            queue[:] = -7
        right.append(np.concatenate([queue, frames], axis=1))
        queue = right[-1][:, 3:].copy()
    assert np.array_equal(layer.prepare()(x.reshape(13, -1)).reshape(13, 2, 7, 2), right)
    causes = {model.cause: model.output for model in layer.fault_models(x.reshape(13, -1))}
    assert all((output != np.reshape(right, (13, -1))).any() for output in causes.values())
    assert ("a stream begins with frames of the one before" in causes) == (start == 0)


def test_a_streaming_form_is_that_of_its_window() -> None:
    whole = small_stream()
    forms = {layer.name: layer.streaming.frames(1) for layer in whole.layers if len(layer.input.shape) == 2}
    assert forms["a"] == Frames(1, extent=3, stride=2, before=1, padding=3)
    assert forms["b"] == Frames(1, extent=5, before=4, padding=3)
    assert forms["mean"] == Frames(None, extent=8)

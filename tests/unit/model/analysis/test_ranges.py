"""Bounds of activations: no vector leaves them, they are exact for one layer, and findings follow from them."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest

from harness.applications.decide.bounds import accumulators
from harness.core.installation import ROOT
from harness.model import load, parse
from harness.model.analysis import Analysis, analyse
from harness.model.analysis.ranges import ranges
from harness.model.network import Network
from harness.reference.stimuli import stimuli
from tests.campaigns.misra.check import NETWORKS, network
from tests.support.builders import random_network
from tests.support.dags import random_dag
from tests.support.examples import count

pytestmark = pytest.mark.slow


def assert_sound(network: Network, vectors: int = 64) -> None:
    """Vectors in the box, corners of it among them, stay within the bounds of every activation and accumulator."""
    found = ranges(network, accumulators(network), None)
    rng, box = np.random.default_rng(5), network.values(network.box)
    drawn = network.values(stimuli(network, vectors, 3).chunk(0, vectors))
    values = {}
    for name, (low, high) in box.items():
        inside = drawn[name].clip(low, high)
        corners = np.where(rng.integers(0, 2, inside.shape) == 1, low, high)
        values[name] = np.concatenate([inside, corners]).astype(low.dtype)
    for layer, numbers in zip(network.layers, found.layers, strict=True):
        inputs = [values[name] for name in layer.sources]
        y = values[layer.output.name] = layer.prepare()(*inputs)
        least, most = found.bounds[layer.output.name]
        assert (y >= least).all(), layer.name
        assert (y <= most).all(), layer.name
        assert numbers.low <= y.min(), layer.name
        assert y.max() <= numbers.high, layer.name
        if layer.sums is not None:
            sums = layer.sums.accumulate()(*inputs)
            assert numbers.accumulator_low is not None
            assert numbers.accumulator_high is not None
            assert numbers.accumulator_low <= sums.min(), layer.name
            assert sums.max() <= numbers.accumulator_high, layer.name


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NETWORKS)
def test_bounds_of_every_operator_are_sound(name: str) -> None:
    assert_sound(network(name))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", ["acas_coc", "lenet5", "lenet5_int8"])
def test_bounds_of_shipped_networks_are_sound(name: str) -> None:
    assert_sound(load(ROOT / "models" / f"{name}.onnx"), 8)


@pytest.mark.half_of_cases
@pytest.mark.parametrize("seed", range(count(40)))
def test_bounds_of_random_networks_are_sound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_sound(parse(random_dag(rng, 6).SerializeToString(), "dag"))
    model = random_network(rng, [3, 6, 5, 2], per_column=True, zero_points=True)
    assert_sound(parse(model.SerializeToString(), "dense"))


def test_intervals_of_the_first_layer_are_exact_and_the_zonotope_is_tighter() -> None:
    dense = parse(random_network(np.random.default_rng(1), [3, 5, 4, 2]).SerializeToString(), "dense")
    quantiser, first = dense.layers[:2]
    plain, tight = ranges(dense, {}, None), ranges(dense, accumulators(dense), None)
    low, high = plain.bounds[quantiser.output.name]
    corners = np.array([*itertools.product(*zip(low[0], high[0], strict=True))], low.dtype)
    assert first.sums is not None
    sums = first.sums.accumulate()(corners)
    assert (plain.layers[1].accumulator_low, plain.layers[1].accumulator_high) == (sums.min(), sums.max())
    assert plain.layers[1].method == "interval"
    assert "zonotope" in [each.method for each in tight.layers]
    for one, other in zip(plain.layers, tight.layers, strict=True):
        assert one.low <= other.low
        assert other.high <= one.high


def analysed(model: onnx.ModelProto, vectors: int = 0) -> Analysis:
    def seeded(network: Network) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None:
        return stimuli(network, vectors, 1).chunk(0, vectors) if vectors else None

    return analyse(model, (), seeded)


def with_initializer(model: onnx.ModelProto, name: str, values: object) -> onnx.ModelProto:
    for tensor in model.graph.initializer:
        if tensor.name == name:
            old = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.broadcast_to(values, old.shape).astype(old.dtype), name))
            return model
    raise KeyError(name)


def findings_of(model: onnx.ModelProto, kind: str, vectors: int = 0) -> list[tuple[str, str]]:
    return [(each.node, each.reason) for each in analysed(model, vectors).findings if each.kind == kind]


def dense() -> onnx.ModelProto:
    return onnx.load(ROOT / "models" / "acas_coc.onnx")


def test_constant_channels_are_listed() -> None:
    [(node, reason), *_] = findings_of(dense(), "constant_channels")
    assert node == "dense_1"
    assert reason.startswith("3 of 50 channels (5, 23, 42) have one value for every input in the box, 3 of them 0")
    weights = np.ones((50, 50), np.int8)
    weights[:, 7] = 0
    found = dict(findings_of(with_initializer(dense(), "dense_2_weight", weights), "constant_channels"))
    assert "channels (7)" in found["dense_2"]


def test_a_scale_that_is_too_large_is_reported_from_the_bounds() -> None:
    [(node, reason), *_] = findings_of(with_initializer(dense(), "dense_1_scale", 0.5), "scale")
    assert node == "dense_1"
    assert reason == "at most 7 of 256 codes occur, 0 to 6"


def test_a_scale_that_is_too_small_saturates() -> None:
    small = with_initializer(dense(), "dense_2_scale", 1e-4)
    found = dict(findings_of(small, "saturation", 32))
    assert "dense_2" in found
    assert "dense_2" not in dict(findings_of(dense(), "saturation", 32))


def test_accumulators_that_float32_cannot_hold_are_noted() -> None:
    wide = with_initializer(dense(), "dense_1_bias", 1 << 27)
    [(node, reason)] = findings_of(wide, "accumulator")
    assert (node, reason.split(":")[0]) == ("dense_1", "its accumulators need 29 bits")


def test_a_network_that_harness_refuses_has_no_ranges_but_facts() -> None:
    overflowing = with_initializer(dense(), "dense_1_bias", (1 << 31) - 1)
    found = analysed(overflowing)
    assert found.layers == ()
    [note] = [each for each in found.findings if each.kind == "no_ranges"]
    assert "dense_1" in note.reason
    assert found.is_complete


def test_observed_values_are_within_the_bounds() -> None:
    for each in analysed(dense(), 16).layers:
        assert each.observed_low is not None
        assert each.observed_high is not None
        assert each.low <= each.observed_low <= each.observed_high <= each.high


def test_the_lower_end_of_the_codes_counts_only_if_it_is_not_zero() -> None:
    zeros = {layer.name: layer.rounded.zero for layer in load(ROOT / "models" / "resnet8_int8.onnx").layers}
    assert (zeros["conv_1"], zeros["block_1_conv_2"], zeros["block_1_add"]) == (-128, 8, -128)
    assert zeros["flatten"] is None

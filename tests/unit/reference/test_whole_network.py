"""The whole network within the bounds of the errors of all layers together."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.core.errors import ReferenceFailed
from harness.core.installation import ROOT
from harness.model import load, parse
from harness.model.network import Network
from harness.model.onnx_runtime.hostcheck import HostCheck
from harness.reference import Reference, SpecificationReference, Whole, whole_network
from harness.reference.whole_network import NOTHING, WholeNetwork, WholeOutput, bounds, require_within_bounds
from tests.support.builders import make_model
from tests.support.codes import node, pooled_with_zeros
from tests.support.float_images import every_operator

SOUND = HostCheck((), "x86_64 avx2", "1.31.1")
NETWORKS = {
    "acas_reg50": 1.5e-3, "acas_reg100": 4e-3, "acas_reg200": 0.015, "acas_decr128": 3e-3, "acas_decr256": 0.01,
    "lenet5": 0.02, "cifarnet": 0.15,
}  # fmt: skip
"""The float networks of the repository, and what their bounds do not exceed: 5 % of their largest output at most."""


def model_of(
    nodes: list[onnx.NodeProto], constants: dict[str, Array], outputs: dict[str, tuple[str, int]], width: int = 20
) -> Network:
    return parse(make_model(nodes, constants, outputs, width=width).SerializeToString(), "test")


@pytest.mark.parametrize("vectors", [1, 20])
def test_a_skip_from_the_input_has_bounds(vectors: int) -> None:
    """The form of the input has no rows for any number of vectors."""
    constants = {"w": np.eye(4, dtype=np.float32), "b": np.ones(4, np.float32)}
    nodes = [node("Gemm", "x", "w", "b", output="fc"), node("Add", "fc", "x", output="z")]
    network = model_of(nodes, constants, {"z": ("float32", 4)}, width=4)
    x = np.random.default_rng(0).normal(size=(vectors, 4)).astype(np.float32)
    written = {"x": x, "fc": x + 1, "z": x + 1 + x}
    for _, bound in bounds(network, written):
        assert bound.shape == (vectors, 4)
        assert ((bound > 0) & (bound < 1e-4)).all()


def deep(seed: int) -> Network:
    """Images through layers of every kind that passes errors on, with branches that join again."""
    rng = np.random.default_rng(seed)
    constants: dict[str, Any] = {
        "w": rng.normal(0, 0.3, (20, 60)), "image": np.array([-1, 3, 5, 4], np.int64), "v": rng.normal(size=3),
        "k": rng.normal(0, 0.3, (3, 3, 3, 3)), "b": rng.normal(size=3), "s": np.abs(rng.normal(size=3)) + 0.5,
        "m": rng.normal(size=3), "c": rng.normal(size=(3, 1, 1)), "low": np.float32(-0.8), "high": np.float32(0.9),
        "near": np.array(0.1), "around": np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64),
        "last": rng.normal(0, 0.3, (12, 30)),
        "offset": rng.normal(size=12),
    }  # fmt: skip
    constants = {name: value if value.dtype == np.int64 else np.float32(value) for name, value in constants.items()}
    nodes = [
        node("Gemm", "x", "w", output="dense"),
        node("Reshape", "dense", "image", output="images"),
        node("Conv", "images", "k", "b", output="conv", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "conv", "s", "b", "m", "s", output="normal"),
        node("Relu", "normal", output="relu"),
        node("Add", "relu", "images", output="residual"),
        node("Sigmoid", "conv", output="gate"),
        node("Clip", "residual", "low", "high", output="clipped"),
        node("Mul", "clipped", "gate", output="gated"),
        node("Tanh", "residual", output="tanh"),
        node("Sub", "clipped", "c", output="shifted"),
        node("LRN", "tanh", output="lrn", size=3, alpha=0.3, beta=0.75, bias=1.0),
        node("Sum", "lrn", "shifted", "gated", output="total"),
        node("HardSwish", "total", output="swish"),
        node("LeakyRelu", "total", output="leaky", alpha=0.2),
        node("Elu", "total", output="elu"),
        node("Max", "swish", "leaky", "c", output="upper"),
        node("Pad", "upper", "around", output="padded", mode="edge"),
        node("Transpose", "elu", output="turned", perm=[0, 1, 3, 2]),
        node("MaxPool", "padded", output="pooled", kernel_shape=[3, 2], strides=[2, 2]),
        node("AveragePool", "turned", output="means", kernel_shape=[2, 3], strides=[2, 1]),
        node("Flatten", "pooled", output="flat"),
        node("Flatten", "means", output="flat_means"),
        node("Concat", "flat", "flat_means", output="joined", axis=1),
        node("Gemm", "joined", "last", output="scores", transB=1),
        node("Add", "scores", "offset", output="moved"),
        node("Softmax", "moved", output="shares"),
        node("ArgMax", "moved", output="advisory", axis=1),
    ]
    return model_of(nodes, constants, {"shares": ("float32", 12), "advisory": ("int64", 1)})


def mixed(seed: int) -> Network:
    """Float layers before, between and after quantised ones."""
    rng = np.random.default_rng(seed)
    constants: dict[str, Any] = {
        "w": rng.normal(0, 0.3, (20, 6)).astype(np.float32), "scale": np.float32(0.003), "zero": np.uint8(128),
        "codes": rng.integers(-127, 128, (6, 5)).astype(np.int8), "unit": np.float32(0.01), "none": np.int8(0),
        "v": rng.normal(size=(5, 4)).astype(np.float32),
    }  # fmt: skip
    nodes = [
        node("MatMul", "x", "w", output="before"),
        node("QuantizeLinear", "before", "scale", "zero", output="q"),
        helper.make_node(
            "QGemm", ["q", "scale", "zero", "codes", "unit", "none", "", "scale", "zero"], ["sums"],
            domain="com.microsoft",
        ),
        node("DequantizeLinear", "sums", "scale", "zero", output="real"),
        node("MatMul", "real", "v", output="after"),
    ]  # fmt: skip
    return model_of(nodes, constants, {"after": ("float32", 4)})


def vectors_of(network: Network, count: int) -> Array:
    low, high = network.box
    return np.random.default_rng(1).uniform(low, high, (count, network.vector.size)).astype(np.float32)


def specified(network: Network, x: Array) -> dict[str, Array]:
    right = SpecificationReference(network).activations(x)
    names = (layer.output.name for layer in network.layers)
    return {network.vector.name: x, **dict(zip(names, right, strict=True))}


def by_another_engine(network: Network, x: Array, signs: Array, share: float) -> dict[str, Array]:
    """Every value is off by this share of its tolerance, by its sign; the next layers read it."""
    written = {network.vector.name: x}
    for layer in network.layers:
        inputs = [written[source] for source in layer.sources]
        y = layer.prepare()(*inputs)
        tolerance = layer.tolerance(inputs, y)
        if tolerance is not None:
            off = y.astype(np.float64) + share * np.resize(signs, y.shape) * np.where(
                np.isfinite(tolerance), tolerance, 0
            )
            y = np.where(np.abs(off.astype(np.float32) - y.astype(np.float64)) <= tolerance, off.astype(np.float32), y)
        written[layer.output.name] = y
    return written


CASES = {
    "every operator": every_operator,
    **{f"deep {seed}": functools.partial(deep, seed) for seed in range(4)},
    **{f"mixed {seed}": functools.partial(mixed, seed) for seed in range(3)},
    **{name: functools.partial(load, ROOT / "models" / f"{name}.onnx") for name in ("acas_reg50", "acas_decr128")},
}


@pytest.mark.half_of_cases
@pytest.mark.slow
@pytest.mark.parametrize("symbols", [0, 1500])
@pytest.mark.parametrize("name", CASES)
def test_an_engine_with_other_roundings_lies_within_the_bounds(
    name: str, symbols: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of the tolerance is beyond no bound of one layer: the own error is part of the tolerance."""
    monkeypatch.setattr(whole_network, "MOST_SYMBOLS", symbols)
    network = CASES[name]()
    x, rng = vectors_of(network, 4 if name == "every operator" else 20), np.random.default_rng(2)
    right = specified(network, x)
    found = list(bounds(network, right))
    assert [layer for layer, _ in found] == list(network.layers)
    differing = 0
    for signs in (np.ones(1), -np.ones(1), *(rng.choice([-1, 1], 9973) for _ in range(4))):
        others = by_another_engine(network, x, signs, 1 / 3)
        for layer, bound in found:
            difference = np.abs(others[layer.output.name].astype(np.float64) - right[layer.output.name])
            assert (difference <= bound).all(), layer.name
            differing += np.count_nonzero(difference)
    assert differing > 10 * len(network.layers)


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_as_a_whole_lies_within_narrow_bounds(name: str) -> None:
    network = load(ROOT / "models" / f"{name}.onnx")
    x = vectors_of(network, 3)
    found = Reference(network).expected(x)
    [output] = found.whole.outputs
    assert output.output == network.layers[-1].output.name
    assert 1 <= output.vectors <= 3
    assert output.values == output.compared == output.vectors * network.layers[-1].size
    assert 0 < output.ratio < 0.05
    assert 0 < output.bound < NETWORKS[name]
    assert NETWORKS[name] < 0.05 * np.abs(found.activations[-1]).max()
    assert len(found.whole.ratios) == len(network.layers)
    assert all(ratio is not None and 0 <= ratio <= 1 for ratio in found.whole.ratios)


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("seed", range(4))
def test_what_onnx_runtime_fuses_lies_within_the_bounds(seed: int) -> None:
    network = deep(seed)
    whole = Reference(network).expected(vectors_of(network, 50)).whole
    shares, advisory = whole.outputs
    assert (shares.output, shares.compared, advisory.output, advisory.vectors) == ("shares", 600, "advisory", 50)
    assert 0 < shares.ratio < 0.2
    assert advisory.compared > 45  # indices of values that are far enough from the others
    assert (advisory.ratio, advisory.bound) == (0, 0)


def test_a_fusion_that_changes_values_is_beyond_the_bound() -> None:
    """ONNX Runtime 1.31 makes zeros around an image the padding of a MaxPool, which is never chosen."""
    weights = -np.abs(np.random.default_rng(0).normal(size=(20, 12))).astype(np.float32)
    nodes, constants = pooled_with_zeros(weights)
    network = model_of(nodes, constants, {"y": ("float32", 20)})
    with pytest.raises(ReferenceFailed, match=r"output 'y', vector 0, column 0: ONNX Runtime with the whole network"):
        Reference(network).expected(np.ones((2, 20), np.float32))


def with_weight(network: Network, change: float) -> Network:
    """The same layers, and a file in which one weight is another."""
    model = onnx.load_model_from_string(network.onnx_bytes)
    tensor = next(each for each in model.graph.initializer if each.name == "dense_8_weight")
    weights = numpy_helper.to_array(tensor).copy()
    weights[2, 7] += np.float32(change)
    tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    return dataclasses.replace(network, onnx_bytes=model.SerializeToString())


def test_a_changed_weight_is_beyond_the_bound() -> None:
    network = load(ROOT / "models" / "acas_reg50.onnx")
    x = vectors_of(network, 100)
    right = SpecificationReference(network).activations(x)
    largest = np.abs(right[-2][:, 7]).max()  # of the input that the weight multiplies
    seen, unseen = 2e-3 / largest, 1e-7 / largest
    comparison = WholeNetwork(with_weight(network, seen), 1, x64_quant_precision=True)
    with pytest.raises(
        ReferenceFailed, match=r"output 'dense_8', vector \d+, column 2: ONNX Runtime with the whole"
    ) as caught:
        comparison.compare(x, right, SOUND)
    assert "further apart than the propagated bound 0.000" in caught.value.message
    comparison = WholeNetwork(with_weight(network, unseen), 1, x64_quant_precision=True)
    assert 0 < comparison.compare(x, right, SOUND).outputs[0].ratio < 1


def test_behind_a_code_that_may_differ_nothing_is_compared() -> None:
    network = mixed(0)
    x = vectors_of(network, 1000)
    right = specified(network, x)
    by_layer = {layer.output.name: bound for layer, bound in bounds(network, right)}
    certain = (by_layer["q"] == 0).all(axis=1)
    assert 0 < np.count_nonzero(~certain) < 100
    assert set(np.unique(by_layer["q"])) == {0, 1}
    assert (by_layer["sums"][certain] == 0).all()
    assert np.isinf(by_layer["sums"][~certain]).all()
    assert np.isfinite(by_layer["after"][certain]).all()
    [output] = Reference(network).expected(x).whole.outputs
    assert (output.vectors, output.values) == (1000, 4000)
    assert output.compared == 4 * np.count_nonzero(certain)
    assert 0 < output.bound < 1e-3


def test_a_wrong_code_that_is_certain_is_beyond_the_bound() -> None:
    network = mixed(0)
    right = specified(network, vectors_of(network, 40))
    wrong = right["sums"].copy()
    wrong[:, 3] += 1
    with pytest.raises(ReferenceFailed, match=r"output 'sums', vector 107, column 3.*bound 0 \(\d+ values"):
        require_within_bounds(network, right, [{"sums": wrong}], SOUND, first=107)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_value_that_is_no_finite_number_is_beyond_the_bound(wrong: float) -> None:
    network = load(ROOT / "models" / "acas_reg50.onnx")
    right = specified(network, vectors_of(network, 2))
    other = right["dense_8"].copy()
    other[1, 4] = wrong
    with pytest.raises(ReferenceFailed, match=f"vector 1, column 4: ONNX Runtime .* {wrong}"):
        require_within_bounds(network, right, [{"dense_8": other}], SOUND)


def products(count: int, between: str = "") -> Network:
    """A model of products with random matrices, with an operator between each two."""
    rng = np.random.default_rng(0)
    constants = {f"w{k}": rng.normal(size=(20, 20)).astype(np.float32) for k in range(count)}
    constants["slope"] = rng.uniform(-1, 2, 20).astype(np.float32)
    nodes = [node("MatMul", f"x{k}" if k else "x", f"w{k}", output=f"y{k}") for k in range(count)]
    more = {"LeakyRelu": {"alpha": 0.3}}.get(between, {})
    slope = ["slope"] if between == "PRelu" else []
    nodes[1:1] = [node(between or "Identity", f"y{k}", *slope, output=f"x{k + 1}", **more) for k in range(count - 1)]
    nodes.sort(key=lambda each: (int(each.output[0][1:]), each.output[0][0] == "y"))
    return model_of(nodes, constants, {f"y{count - 1}": ("float32", 20)})


@pytest.mark.parametrize("between", ["Relu", "LeakyRelu", "PRelu"])
def test_symbols_pass_through_what_is_linear_on_both_sides_of_0(between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = products(8, between)
    x, rng = vectors_of(network, 20), np.random.default_rng(2)
    right = specified(network, x)
    found = list(bounds(network, right))
    for signs in (np.ones(1), *(rng.choice([-1, 1], 9973) for _ in range(5))):
        others = by_another_engine(network, x, signs, 1 / 3)
        for layer, bound in found:
            difference = np.abs(others[layer.output.name].astype(np.float64) - right[layer.output.name])
            assert (difference <= bound).all(), layer.name
    monkeypatch.setattr(whole_network, "MOST_SYMBOLS", 0)
    *_, (_, wide) = bounds(network, right)
    assert np.median(wide) > 30 * np.median(found[-1][1])


def test_symbols_keep_the_bounds_of_a_deep_network_below_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    network = products(16)
    right = specified(network, vectors_of(network, 5))
    *_, (layer, last) = bounds(network, right)
    assert last.max() < 1e-3 * np.abs(right[layer.output.name]).max()
    monkeypatch.setattr(whole_network, "MOST_SYMBOLS", 0)
    found = [bound for _, bound in bounds(network, right)]
    assert np.isfinite(found[9]).all()
    assert np.isinf(found[-1]).all()  # the errors exceeded the values before
    for value in (1e6, np.inf, np.nan):
        wrong = {"y15": np.full_like(right["y15"], value)}
        [output] = require_within_bounds(network, right, [wrong], SOUND).outputs
        assert (output.values, output.compared, output.bound, output.ratio) == (100, 0, 0, 0)


def test_a_vector_without_bounds_leaves_those_of_the_others() -> None:
    network = products(6)
    x = vectors_of(network, 5)
    alone = [bound for _, bound in bounds(network, specified(network, x[1:]))]
    x[0] = 1e37
    with np.errstate(all="ignore"):
        right = specified(network, x)
    together = [bound for _, bound in bounds(network, right)]
    assert np.isinf(together[-1][0]).all()
    assert together[-1][1:] == pytest.approx(alone[-1], rel=1e-9)


def test_parts_of_the_vectors_give_the_result_of_all() -> None:
    network = load(ROOT / "models" / "acas_decr128.onnx")
    x = vectors_of(network, 11)
    right = SpecificationReference(network).activations(x)
    comparison = WholeNetwork(network, 1, x64_quant_precision=True)
    once = comparison.compare(x, right, SOUND)
    comparison._at_once = 4
    assert comparison.compare(x, right, SOUND).outputs[0].vectors == 11
    parts = comparison.compare(x, right, SOUND)
    assert parts.outputs[0].bound == pytest.approx(once.outputs[0].bound, rel=1e-3)
    comparison._most = 5
    assert comparison.compare(x, right, SOUND).outputs[0].vectors == 5


def test_results_of_chunks_are_added() -> None:
    one = Whole((WholeOutput("y", 2, 10, 10, 0.5, 0.1),), (0.25, None))
    other = Whole((WholeOutput("y", 3, 15, 5, 0.75, 0.05),), (0.125, 0.5))
    assert one + other == Whole((WholeOutput("y", 5, 25, 15, 0.75, 0.1),), (0.25, 0.5))
    assert sum([NOTHING, one, NOTHING], NOTHING) == one


def test_a_quantised_network_agrees_on_every_byte_and_has_no_bounds() -> None:
    network = load(ROOT / "models" / "acas_coc.onnx")
    assert Reference(network).expected(vectors_of(network, 3)).whole == NOTHING

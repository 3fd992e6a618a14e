"""ONNX Runtime's own nodes held against the integer specification; a wrong constant in either is found."""

from __future__ import annotations

import dataclasses
import tracemalloc
from threading import Event
from typing import Any

import numpy as np
import onnx.helper
import pytest

from harness.core.errors import ReferenceFailed
from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.operators.quantize_linear import QuantizeLinear
from harness.operators.sweeps import Sweep
from harness.reference import exhaustive
from harness.reference.exhaustive import confirm
from tests.support import builders
from tests.support.programs.board_program import parse
from tests.support.programs.chains import chain, qgemm, quantize

NETWORKS: dict[str, dict[str, Any]] = {
    "int8 weights": {"per_column": True, "zero_points": True},
    "uint8 weights": {"weights": "uint8", "zero_points": True, "transposed": True},
    "int8 activations": {"activations": "int8", "zero_points": True, "alpha": 0.7},
    "power of two": {"power_of_two": True, "per_column": True},
    "float": {"float_output": True, "per_column": True, "weights": "uint8"},
    "residual": {"residual": 2, "zero_points": True},
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return parse(builders.random_network(np.random.default_rng(1), (5, 7, 3), **NETWORKS[request.param]))


def qgemms(net: Network) -> list[QGemm]:
    return [layer for layer in net.layers if isinstance(layer, QGemm)]


def test_the_end_of_every_qgemm_is_confirmed(network: Network) -> None:
    for layer in qgemms(network):
        confirm(network, layer, Event())


def test_a_wrong_multiplier_is_found(network: Network) -> None:
    """By a thousandth: a step moves."""
    layer = qgemms(network)[0]
    wrong = layer.multiplier.copy()
    wrong[2] *= np.float32(1.001)
    with pytest.raises(ReferenceFailed, match=f"layer '{layer.name}', column 2, input -?\\d+: ONNX Runtime says"):
        confirm(network, dataclasses.replace(layer, multiplier=wrong), Event())


def test_a_multiplier_wrong_in_its_last_place_is_found_in_a_float_output() -> None:
    network = parse(builders.random_network(np.random.default_rng(1), (5, 3), **NETWORKS["float"]))
    layer = qgemms(network)[0]
    wrong = layer.multiplier.copy()
    wrong[1] = np.nextafter(wrong[1], np.float32(1))
    with pytest.raises(ReferenceFailed, match="column 1"):
        confirm(network, dataclasses.replace(layer, multiplier=wrong), Event())


@pytest.mark.parametrize("by", [1, -1])
def test_a_wrong_output_zero_point_is_found(by: int) -> None:
    network = parse(builders.random_network(np.random.default_rng(1), (5, 7, 3), zero_points=True))
    layer = qgemms(network)[1]
    with pytest.raises(ReferenceFailed, match=f"layer '{layer.name}'"):
        confirm(network, dataclasses.replace(layer, y_zero_point=layer.y_zero_point + by), Event())


def test_a_wrong_input_zero_point_is_found_because_nothing_is_fed_with_it() -> None:
    network = parse(builders.random_network(np.random.default_rng(1), (5, 7, 3), zero_points=True))
    layer = qgemms(network)[0]
    with pytest.raises(ReferenceFailed, match=f"layer '{layer.name}'"):
        confirm(network, dataclasses.replace(layer, a_zero_point=layer.a_zero_point - 9), Event())


def test_a_single_wrong_tie_is_found() -> None:
    """A scale of 1 with ties at every odd accumulator; the multiplier one ulp larger turns ties with even floors up."""
    network = _ladder(scale=0.5)
    layer = qgemms(network)[0]
    confirm(network, layer, Event())
    wrong = np.nextafter(layer.multiplier, np.float32(1))
    with pytest.raises(ReferenceFailed, match="ONNX Runtime says"):
        confirm(network, dataclasses.replace(layer, multiplier=wrong), Event())


def _ladder(scale: float) -> Network:
    layer = qgemm(np.array([[1, -1]], np.int8), np.array([-300, 80]), np.full(1, scale), (1.0, 100))
    return chain([quantize(1, 0, "uint8"), layer], ("uint8", 2), 1)


@pytest.mark.parametrize("output", [None, (1.0, 128)])
def test_accumulators_at_the_ends_of_int32(output: tuple[float, int] | None) -> None:
    bias = np.array([2**31 - 2 - 255 * 127, -(2**31) + 255 * 128, 0])
    layer = qgemm(np.array([[127, -128, 1]], np.int8), bias, np.full(3, 2.0**-24), output)
    network = chain([quantize(1, 0, "uint8"), layer], ("uint8" if output else "float32", 3), 1)
    low, high = qgemms(network)[0].accumulator_bounds()
    assert (low.min(), high.max()) == (-(2**31), 2**31 - 2)
    confirm(network, qgemms(network)[0], Event())


@pytest.mark.parametrize("last", ["bias", "y_zero_point"])
def test_a_node_without_bias_gets_one(last: str) -> None:
    """Left out at the end, or an empty name in the middle."""
    model = builders.random_network(np.random.default_rng(4), (5, 3), float_output=last == "bias")
    node = model.graph.node[-1]
    if last == "bias":
        del node.input[6:]
    else:
        node.input[6] = ""
    network = parse(model)
    assert not qgemms(network)[0].bias.any()
    confirm(network, qgemms(network)[0], Event())


def test_constants_may_be_nodes() -> None:
    model = builders.random_network(np.random.default_rng(4), (5, 3))
    initializers = list(model.graph.initializer)
    del model.graph.initializer[:]
    constants = [onnx.helper.make_node("Constant", [], [value.name], value=value) for value in initializers]
    nodes = [*constants, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    network = parse(model)
    confirm(network, qgemms(network)[0], Event())


def test_a_wide_layer() -> None:
    network = parse(builders.random_network(np.random.default_rng(5), (1, 5000), weights="uint8"))
    layer = qgemms(network)[0]
    low, high = layer.accumulator_bounds()
    middle = Sweep((low + high) // 2, np.minimum(high - (low + high) // 2 + 1, 300))
    exhaustive._confirm_part(layer, layer.step_functions(), exhaustive._node(network, layer), middle)


def test_the_inputs_of_a_deep_layer_do_not_fill_the_memory() -> None:
    weights = np.zeros((20_000, 1), np.int8)
    weights[:60] = 1
    layer = qgemm(weights, np.zeros(1), np.array([0.01]), (1.0, 0))
    network = chain([quantize(1, 0, "uint8"), layer], ("uint8", 1), len(weights))
    assert qgemms(network)[0].sweep().cases * len(weights) > 300e6
    tracemalloc.start()
    confirm(network, qgemms(network)[0], Event())
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_nobody_waits_for_what_is_abandoned() -> None:
    network = parse(builders.random_network(np.random.default_rng(1), (5, 3)))
    abandoned = Event()
    abandoned.set()
    with pytest.raises(ReferenceFailed, match="was not tried to the end"):
        confirm(network, network.layers[0], abandoned)  # type: ignore[arg-type] # the first is QuantizeLinear


# QuantizeLinear: parts of its sweep, as all of it takes long.


def confirm_edges(network: Network, layer: QuantizeLinear) -> None:
    """Two floats on either side of every step."""
    node = exhaustive._node(network, layer)
    for edge in layer.step_function().starts[1:].tolist():
        exhaustive._confirm_part(layer, [layer.step_function()], node, Sweep(np.array([edge - 2]), np.array([4])))


@pytest.mark.parametrize(("scale", "zero_point", "dtype"), [(0.1, 0, "uint8"), (0.0236721, -3, "int8")])
def test_quantize_linear_is_confirmed_at_every_step(scale: float, zero_point: int, dtype: str) -> None:
    network = chain([quantize(scale, zero_point, dtype)], (dtype, 3), 3)
    layer = network.layers[0]
    assert isinstance(layer, QuantizeLinear)
    assert len(layer.step_function().starts) > 250
    confirm_edges(network, layer)


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: {"scale": np.nextafter(layer.scale, np.float32(1))},
        lambda layer: {"zero_point": layer.zero_point + 1},
    ],
)
def test_a_wrong_constant_of_quantize_linear_is_found(change: Any) -> None:
    network = chain([quantize(0.0236721, 7, "uint8")], ("uint8", 1), 1)
    layer = network.layers[0]
    assert isinstance(layer, QuantizeLinear)
    wrong = dataclasses.replace(layer, **change(layer))
    with pytest.raises(ReferenceFailed, match=r"column 0, input \d+: ONNX Runtime says"):
        confirm_edges(network, wrong)


def test_the_question_to_quantize_linear_are_all_floats() -> None:
    network = chain([quantize(0.1, 7, "uint8")], ("uint8", 4), 4)
    sweep = network.layers[0].rounded.swept.sweep()
    assert sweep is not None
    assert (sweep.start.tolist(), sweep.count.tolist()) == ([0], [2**32])


def test_the_parts_of_a_sweep_are_all_of_it() -> None:
    sweep = Sweep(np.array([-5, 100, 7]), np.array([10, 0, 3]))
    parts = list(exhaustive._parts(sweep, 4))
    assert [part.start.tolist() for part in parts] == [[-5, 100, 7], [-1, 104, 11], [3, 108, 15]]
    assert [part.count.tolist() for part in parts] == [[4, 0, 3], [4, 0, 0], [2, 0, 0]]

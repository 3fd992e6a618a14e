from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from harness.core.errors import RequestError
from harness.model import parse
from harness.model.float_network import Dense, DenseNetwork
from harness.model.importer import check, graph, quantised, steps
from harness.model.importer.check import box_of, within_bound
from harness.model.onnx_runtime.sessions import Stored
from tests.support.builders import make_model
from tests.support.importer import quantised as notations
from tests.support.importer.graphs import Array

DOUBLE = np.dtype(np.float64)


def network() -> DenseNetwork:
    random = np.random.default_rng(2)
    widths = [3, 20, 20, 20, 2]
    layers = tuple(
        Dense(random.normal(size=(k, n)).astype(np.float32), random.normal(size=n).astype(np.float32), relu=n != 2)
        for k, n in itertools.pairwise(widths)
    )
    return DenseNetwork("net", layers)


def compare(ours: DenseNetwork, file: DenseNetwork) -> check.Agreement:
    taken = steps.of_layers(file.layers)

    def original(vectors: Array) -> Array:
        return steps.evaluate(taken, vectors.astype(np.float64))

    return within_bound(ours, taken, original, DOUBLE)


def changed(layer: int, change: Callable[[Dense], Dense]) -> DenseNetwork:
    layers = list(network().layers)
    layers[layer] = change(layers[layer])
    return replace(network(), layers=tuple(layers))


def test_the_network_itself_is_well_within_its_bound() -> None:
    found = compare(network(), network())
    assert found.vectors == 256
    assert 0 < found.difference < 1e-4
    assert found.tightest_difference <= found.tightest_bound


MUTANTS: dict[str, Callable[[Dense], Dense]] = {
    "transposed": lambda layer: replace(layer, weight=layer.weight.T.copy()),
    "without ReLU": lambda layer: replace(layer, relu=False),
    "without bias": lambda layer: replace(layer, bias=np.zeros_like(layer.bias)),
    "a thousandth more": lambda layer: replace(layer, weight=layer.weight * np.float32(1.001)),
    "one neuron's bias off by 0.01": lambda layer: replace(
        layer, bias=layer.bias + np.float32(0.01) * (np.arange(len(layer.bias)) == 7)
    ),
}


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_another_network_is_beyond_it(mutant: str, layer: int) -> None:
    with pytest.raises(RequestError, match=r"output \d is .* in the file and .* as read, .* bound .*, at input \["):
        compare(changed(layer, MUTANTS[mutant]), network())


def test_a_result_that_is_no_number_is_beyond_it() -> None:
    with pytest.raises(RequestError, match=r"its values are not finite"):
        within_bound(
            network(), steps.of_layers(network().layers), lambda vectors: np.full((len(vectors), 2), np.nan), DOUBLE
        )


def test_sums_too_long_for_a_bound_are_refused() -> None:
    long = DenseNetwork("net", (Dense(np.ones((2100, 1), np.float32), np.zeros(1, np.float32), relu=False),))
    with pytest.raises(RequestError, match=r"its sums are too long for a bound in float16"):
        within_bound(long, steps.of_layers(long.layers), lambda vectors: vectors.sum(axis=1), np.dtype(np.float16))


def test_the_box_is_the_networks_or_the_default() -> None:
    assert box_of(network()).tolist() == [[-1.0] * 3, [1.0] * 3]
    box = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    assert box_of(replace(network(), box=box)) is box


@pytest.mark.parametrize("constant", ["weight", "bias", "y_scale", "y_zero_point"])
def test_a_quantised_network_with_one_other_constant_is_refused(constant: str) -> None:
    constants = notations.draw(np.random.default_rng(1), (4, 9, 3))
    file = notations.built(notations.qgemm(1) + notations.qgemm(2), constants)
    value = getattr(constants.products[0], constant)
    other = value + (np.float32(1e-3) if constant == "y_scale" else np.ones_like(value))
    wrong = notations.built(notations.qgemm(1) + notations.qgemm(2), constants.changed(**{constant: other}))
    converted = quantised.canonical(graph.read(graph.decode(wrong, "wrong"), "wrong"))
    ours = parse(converted.model.SerializeToString(), "wrong")
    original = graph.decode(file, "file")
    compared = check.Converted.from_network(ours, converted.codes)
    with pytest.raises(RequestError, match=r"has -?\d+ at value \d in the file and -?\d+ as converted"):
        check.bit_for_bit(graph.read(original, "file"), Stored(original), compared)


def test_adversarial_vectors_meet_ties_and_what_no_number_is() -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"])]
    quantising = parse(
        make_model(nodes, {"s": np.float32(0.25)}, {"q": ("uint8", 3)}, width=3).SerializeToString(), "q"
    )
    vectors = check._adversarial_vectors(quantising)
    assert {"nan", "inf", "-inf"} <= {str(value) for value in vectors.ravel()}
    ties = vectors[3::4] / np.float32(0.25)
    assert (ties - np.floor(ties) == 0.5).all()
    assert len(np.unique(ties)) > 100
    rectifying = make_model([helper.make_node("Relu", ["x"], ["y"])], {}, {"y": ("float32", 3)}, width=3)
    assert np.isfinite(check._adversarial_vectors(parse(rectifying.SerializeToString(), "r"))).all()

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.model.float_network import DenseNetwork, activations
from harness.model.network import Normalisation
from harness.model.quantizer import Choices, calibration_vectors, codes_for, equalize, quantize
from tests.support.quantizer.networks import dense, random_network

FEW = Choices(vectors=300)
BOX = np.array([[-1.0, -1.0], [1.0, 1.0]], np.float32)


def network_of(*layers: object, box: np.ndarray | None = BOX) -> DenseNetwork:
    return DenseNetwork("small", tuple(layers), box=box)  # type: ignore[arg-type]


def test_one_scale_of_the_input_spans_the_whole_box() -> None:
    network = random_network(np.random.default_rng(1), [4, 3])
    assert network.box is not None
    assert quantize(network, FEW).input == codes_for(float(network.box.min()), float(network.box.max()))


def test_calibration_puts_the_greatest_activation_met_at_the_last_code() -> None:
    network = random_network(np.random.default_rng(2), [4, 20, 10, 3], [True, False, False])
    made = quantize(network, FEW)
    vectors = np.concatenate(list(calibration_vectors(network.box, 300, seed=1)))  # type: ignore[arg-type]
    relu, linear, scores = activations(network.layers, made.input.rounded(vectors))
    first, second, third = (layer.output for layer in made.layers)
    assert first is not None
    assert second is not None
    assert (first.zero_point, first.range) == (0, pytest.approx((0, relu.max()), rel=1e-5))
    assert second.range == pytest.approx((linear.min(), linear.max()), abs=float(second.scale))
    assert third is None
    last = quantize(network, dataclasses.replace(FEW, scores="uint8")).layers[-1].output
    assert last is not None
    assert last.range == pytest.approx((min(scores.min(), 0), max(scores.max(), 0)), abs=float(last.scale))


def test_bounds_are_wider_than_calibration_and_need_no_vectors() -> None:
    network = random_network(np.random.default_rng(2), [13, 20, 10, 3])
    met, bounded = (quantize(network, Choices(ranges=ranges, vectors=300)) for ranges in ("calibration", "bounds"))
    for narrow, wide in zip(met.layers[:-1], bounded.layers[:-1], strict=True):
        assert narrow.output is not None
        assert wide.output is not None
        assert narrow.output.scale < wide.output.scale
    assert Choices(ranges="bounds", vectors=3).document() == {
        "weights": "int8-per-column", "ranges": "bounds", "equalize": False, "residual": 1, "scores": "float32",
        "select": "none",
    }  # fmt: skip
    assert Choices(ranges="bounds", equalize=True, vectors=3).document()["vectors"] == 3
    assert Choices(seed=5).document()["seed"] == 5


def test_equalising_is_done_with_the_vectors_of_the_calibration() -> None:
    network = random_network(np.random.default_rng(2), [4, 20, 10, 3])
    vectors = [quantize(network, FEW).input.rounded(x) for x in calibration_vectors(network.box, 300, seed=1)]  # type: ignore[arg-type]
    by_hand = dataclasses.replace(network, layers=equalize(network.layers, vectors))
    expected, made = quantize(by_hand, FEW), quantize(network, dataclasses.replace(FEW, equalize=True))
    for one, other in zip(made.layers, expected.layers, strict=True):
        assert np.array_equal(one.terms[0].weight, other.terms[0].weight)
        assert np.array_equal(one.terms[0].scale, other.terms[0].scale)
    assert not np.array_equal(made.layers[1].terms[0].weight, quantize(network, FEW).layers[1].terms[0].weight)


def test_calibration_passes_by_the_watcher() -> None:
    passed: list[int] = []

    def watch(batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        for batch in batches:
            passed.append(len(batch))
            yield batch

    quantize(random_network(np.random.default_rng(2), [2, 3, 1]), FEW, watch)
    assert sum(passed) == 300 + 4


def test_activation_that_is_always_zero_keeps_a_normal_scale_and_is_noted() -> None:
    network = network_of(dense([[1.0], [1.0]], -5, relu=True), dense([[1.0]], 0.25))
    made = quantize(network, FEW)
    assert made.layers[0].output == codes_for(0, 1)
    assert made.notes == ("dense_1 is 0 for every vector; its codes span 0 to 1",)


def test_input_with_few_codes_and_column_without_any_weight_left_are_noted() -> None:
    normalisation = Normalisation(("rho", "theta"), ("ft", "rad"), (0, 0), (1, 1))
    box = np.array([[0, -3], [60000, 3]], np.float32)
    layer = dense([[1.0, 1e-5], [1.0, 1e-5]])
    network = dataclasses.replace(network_of(layer, box=box), normalisation=normalisation)
    notes = quantize(network, Choices("int8", vectors=10)).notes
    assert notes[0].startswith("theta meets only 1 of 256 codes, because one scale serves all inputs")
    assert notes[1] == "dense_1: all weights of 1 of 2 columns are too small for their scale"
    assert len(notes) == 2
    assert len(quantize(network, Choices("int8", vectors=10, residual=4)).notes) == 1
    unseen = dataclasses.replace(network, normalisation=dataclasses.replace(normalisation, names=("rho", "\x1b[31m")))
    assert quantize(unseen, Choices("int8", vectors=10)).notes[0].startswith(r"'\x1b[31m' meets only 1 of 256 codes")


def test_box_of_one_point_at_zero_is_quantised() -> None:
    made = quantize(network_of(dense([[1.0], [1.0]], 0.5), box=np.zeros((2, 2), np.float32)), FEW)
    assert made.input == codes_for(0, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_with_the_layer(value: float) -> None:
    with pytest.raises(RequestError, match="layer dense_2: 1 of its 2 weights are NaN or infinite"):
        quantize(network_of(dense(np.ones((2, 2))), dense([[1.0], [value]])), FEW)
    with pytest.raises(RequestError, match="layer dense_1: 2 of its 2 biases"):
        quantize(network_of(dense(np.ones((2, 2)), value)), FEW)


@pytest.mark.parametrize(
    ("box", "message", "hint"),
    [
        (None, "network 'small' does not say between which bounds", r"--box LOW:HIGH, or one pair .* 2 inputs"),
        (np.zeros((2, 3), np.float32), "the box has 3 inputs, network 'small' has 2", "one pair for all, or 2"),
        (BOX[::-1], "the box of input 0 is 1.0:-1.0", "LOW no greater than HIGH"),
        (BOX * np.array([1, np.inf], np.float32), "the box of input 1 is -inf:inf", "finite"),
        (BOX * np.array([1, np.nan], np.float32), "the box of input 1 is nan:nan", "finite"),
    ],
)
def test_box_that_is_none_is_refused_with_the_way_out(box: np.ndarray | None, message: str, hint: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        quantize(network_of(dense([[1.0], [1.0]]), box=box), FEW)
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize("ranges", ["calibration", "bounds"])
def test_activations_beyond_float32_are_refused_with_the_layer(ranges: str) -> None:
    layers = [dense(np.full((2, 2), 1e38)), *[dense(np.full((2, 2), 3e38))] * 8]
    with pytest.raises(RequestError, match=r"layer dense_2: its activations reach from .* beyond float32"):
        quantize(network_of(*layers), Choices(ranges=ranges, vectors=10))  # type: ignore[arg-type]

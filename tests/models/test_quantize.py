from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime
import pytest

from models.acas import dense, quantize
from models.acas.dense import Dense

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = np.ndarray


def random_layers(rng: np.random.Generator, widths: Sequence[int]) -> tuple[Dense, ...]:
    return tuple(
        Dense(
            rng.normal(scale=inputs**-0.5, size=(inputs, outputs)).astype(np.float32),
            rng.normal(scale=0.1, size=outputs).astype(np.float32),
        )
        for inputs, outputs in itertools.pairwise(widths)
    )


def run(layers: Sequence[Dense], scales: Floats, states: Floats) -> tuple[Floats, Floats]:
    model = quantize.to_onnx(quantize.quantize(layers, scales), "network", {})
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    scores, advisories = session.run(["scores", "advisory"], {"state": states})
    return scores, advisories


def error_bound(layers: Sequence[Dense], scales: Floats, states: Floats) -> Floats:
    """The greatest error (n, outputs) that rounding can cause, layer by layer, for states that lie on codes.

    Half a step of every weight, bias and activation, and what the error of the layer before becomes through the
    weights; clamping at 255 only brings an activation nearer, because no true one is greater.
    """
    error, values, input_scale = np.zeros_like(states), states, quantize.INPUT_SCALE
    for layer, outputs, scale in zip(layers, dense.activations(layers, states), [*scales, 0.0], strict=True):
        weight_step = quantize.weight_scales(layer.weight)
        by_weights = (np.abs(values) + error).sum(axis=1, keepdims=True) * weight_step / 2
        error = error @ np.abs(layer.weight) + by_weights + input_scale * weight_step / 2 + scale / 2
        values, input_scale = outputs, scale
    return error


@pytest.mark.parametrize("widths", [(3, 5), (3, 16, 5), (3, 12, 12, 4)])
def test_quantised_network_is_as_near_as_half_steps_allow(rng: np.random.Generator, widths: tuple[int, ...]) -> None:
    layers = random_layers(rng, widths)
    states = quantize.on_codes(rng.uniform(-0.5, 0.5, size=(500, 3)))
    scales = quantize.activation_scales(layers, states)
    scores, advisories = run(layers, scales, states)
    error = np.abs(scores - dense.forward(layers, states))
    assert (error <= error_bound(layers, scales, states) + 1e-6).all()
    assert 0 < error.max() < 0.05
    assert (advisories[:, 0] == scores.argmax(axis=1)).all()


def test_the_first_of_equal_scores_is_advised() -> None:
    layers = (Dense(np.ones((2, 4), dtype=np.float32), np.array([-1, 2, 2, 0], dtype=np.float32)),)
    _, advisories = run(layers, np.zeros(0), np.zeros((3, 2), dtype=np.float32))
    assert advisories.tolist() == [[1], [1], [1]]


def test_weights_are_symmetric_by_column_and_biases_at_the_accumulator_scale(rng: np.random.Generator) -> None:
    layers = random_layers(rng, (3, 7, 2))
    first, second = quantize.quantize(layers, np.array([0.01], dtype=np.float32))
    assert np.abs(first.weight).max(axis=0).tolist() == [127] * 7
    assert (np.abs(first.weight * first.weight_scale - layers[0].weight) <= first.weight_scale * 0.501).all()
    assert (first.output_scale, second.output_scale) == (np.float32(0.01), None)
    for layer, quantised, input_scale in zip(layers, (first, second), (quantize.INPUT_SCALE, 0.01), strict=True):
        step = input_scale * quantised.weight_scale
        assert (np.abs(quantised.bias * step - layer.bias) <= step * 0.501).all()


def test_a_column_of_zeros_stays_zero() -> None:
    (quantised,) = quantize.quantize((Dense(np.zeros((2, 1), np.float32), np.ones(1, np.float32)),), np.zeros(0))
    assert quantised.weight.tolist() == [[0], [0]]
    assert quantised.bias * quantize.INPUT_SCALE * quantised.weight_scale == pytest.approx([1.0], rel=1e-3)


def test_activation_scales_put_the_greatest_activation_at_255() -> None:
    weight = np.array([[2.0, -8.0]], dtype=np.float32)
    layers = (Dense(weight, np.zeros(2, np.float32)), Dense(np.ones((2, 1), np.float32), np.zeros(1, np.float32)))
    scales = quantize.activation_scales(layers, np.array([[0.5], [-0.25]]))
    assert scales == pytest.approx([8.0 * 0.25 / 255])


def test_angles_of_the_grid_and_the_ends_of_the_box_lie_on_codes() -> None:
    angles = np.linspace(-0.5, 0.5, 41)
    assert quantize.on_codes(angles) == pytest.approx(angles, abs=1e-7)
    assert quantize.on_codes(np.array([-9.0, 9.0])) == pytest.approx([-0.5, 135 / 240])


def test_model_is_a_readable_chain_with_a_free_batch_dimension(rng: np.random.Generator) -> None:
    layers = quantize.quantize(random_layers(rng, (3, 4, 5)), np.array([0.01], dtype=np.float32))
    model = quantize.to_onnx(layers, "network", {"score_mean": "1.5"})
    assert [(node.op_type, node.name) for node in model.graph.node] == [
        ("QuantizeLinear", "quantize_input"),
        ("QGemm", "dense_1"),
        ("QGemm", "dense_2"),
        ("ArgMax", "select_advisory"),
    ]
    assert [len(node.input) for node in model.graph.node] == [3, 9, 7, 1]
    shapes = {value.name: value.type.tensor_type.shape.dim for value in (*model.graph.input, *model.graph.output)}
    assert {name: (dims[0].dim_param, dims[1].dim_value) for name, dims in shapes.items()} == {
        "state": ("vectors", 3),
        "scores": ("vectors", 5),
        "advisory": ("vectors", 1),
    }
    assert {entry.key: entry.value for entry in model.metadata_props} == {"score_mean": "1.5"}

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import RequestError
from harness.model.float_network import Dense, activations
from harness.model.quantizer import Codes, codes_for, quantize_layers
from tests.support.quantizer.networks import dense, random_layers

UNIT = Codes(np.float32(1 / 255))


@pytest.mark.parametrize("order", [1, 2])
def test_bias_is_at_the_accumulator_scale_of_the_first_term(order: int) -> None:
    layers = random_layers(np.random.default_rng(3), (3, 7, 2))
    codes = (Codes(np.float32(1 / 240), 120), Codes(np.float32(0.01)))
    made = quantize_layers(layers, codes, order=order)
    assert [layer.output for layer in made] == [codes[1], None]
    assert [len(layer.terms) for layer in made] == [order, order]
    for layer, quantized, a_scale in zip(layers, made, (1 / 240, 0.01), strict=True):
        step = a_scale * quantized.terms[0].scale
        assert quantized.bias.dtype == np.int32
        assert (np.abs(quantized.bias * step - layer.bias) <= step * 0.501).all()


@pytest.mark.parametrize("bias", [3e4, -3e4])
def test_large_bias_of_small_weights_fits_int32(bias: float) -> None:
    (made,) = quantize_layers([dense([[1e-9, 1.0]], [bias, 1.0])], [UNIT])
    assert abs(made.bias[0]) == pytest.approx(2**30, rel=1e-6)
    assert made.bias * made.terms[0].scale / 255 == pytest.approx([bias, 1.0], rel=1e-3)
    assert made.terms[0].scale[1] == np.float32(1) / np.float32(127)


def test_constant_layer_keeps_its_bias() -> None:
    (made,) = quantize_layers([dense(np.zeros((2, 2)), [0.1, 0.0])], [Codes(np.float32(100))])
    assert made.bias * made.terms[0].scale * 100 == pytest.approx([0.1, 0.0], rel=1e-5)


@pytest.mark.parametrize("kind", ["int8-per-column", "int8", "uint8"])
def test_accumulator_beyond_int32_is_refused_with_the_layer(kind: str) -> None:
    wide = dense(np.ones((70_000, 1)))
    layers = [dense(np.ones((1, 70_000))), wide]
    with pytest.raises(RequestError, match=r"layer dense_2: its accumulator can reach \d,\d{3},\d{3},\d{3}") as caught:
        quantize_layers(layers, [UNIT, UNIT], kind=kind)  # type: ignore[arg-type]
    assert "2,147,483,646" in caught.value.hint
    assert "66,000 with int8" in caught.value.hint


def test_relu_behind_float_scores_is_refused_with_the_way_out() -> None:
    layer = dense([[1.0]], relu=True)
    with pytest.raises(RequestError, match=r"layer dense_1, the last, ends in a ReLU") as caught:
        quantize_layers([layer], [UNIT])
    assert "--scores uint8" in caught.value.hint
    assert quantize_layers([layer], [UNIT], UNIT)[0].output == UNIT


def test_codes_that_do_not_fit_the_layers_are_a_mistake_of_the_caller() -> None:
    layers = random_layers(np.random.default_rng(0), (2, 3, 1))
    with pytest.raises(ValueError, match="zip"):
        quantize_layers(layers, [UNIT])
    with pytest.raises(ValueError, match="dense_1 ends in a ReLU: the zero point of its output is 0, not 128"):
        quantize_layers(layers, [UNIT, Codes(np.float32(1), 128)])


def half_steps(layers: tuple[Dense, ...], codes: list[Codes], errors: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The greatest error (n, N) of the scores that rounding can cause, for vectors on codes and ranges that hold.

    Half a step of every bias and activation, the weights' own errors (N,), and what both become through the weights.
    """
    error, values = np.zeros_like(x), x
    outputs = [*codes[1:], Codes(np.float32(0))]
    for layer, after, source, output, lost in zip(layers, activations(layers, x), codes, outputs, errors, strict=True):
        by_weights = (np.abs(values) + error) @ lost
        by_bias = float(source.scale) * np.abs(layer.weight).max(axis=0) / 127 / 2
        error = error @ np.abs(layer.weight) + by_weights + by_bias + output.scale / 2
        values = after
    return error


@pytest.mark.parametrize("order", [1, 2, 3])
def test_real_sum_of_the_terms_is_as_near_as_half_steps_allow(order: int) -> None:
    rng = np.random.default_rng(11)
    layers = random_layers(rng, (4, 12, 9, 3))
    source = codes_for(-0.5, 0.5)
    x = source.rounded(rng.uniform(-0.5, 0.5, (500, 4)))
    hidden = [codes_for(0.0, float(values.max())) for values in activations(layers, x)][:-1]
    codes = [source, *hidden]
    made = quantize_layers(layers, codes, order=order)
    values = x
    for layer, a in zip(made, codes, strict=True):
        exact = values @ sum(term.values() for term in layer.terms) + layer.bias * (a.scale * layer.terms[0].scale)
        values = exact if layer.output is None else layer.output.rounded(np.maximum(exact, 0))
    lost = [
        np.abs(layer.weight - sum(term.values() for term in quantized.terms))
        for layer, quantized in zip(layers, made, strict=True)
    ]
    *_, expected = activations(layers, x)
    error = np.abs(values - expected)
    assert (error <= half_steps(layers, codes, lost, x) + 1e-5).all()
    assert 0 < error.max() < 0.1

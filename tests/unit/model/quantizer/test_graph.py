from __future__ import annotations

import json
from typing import get_args

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import model as networks
from harness.model.quantizer import (
    FRESH,
    Choices,
    Codes,
    QuantizedNetwork,
    Select,
    WeightKind,
    codes_for,
    drawn,
    quantize,
    quantize_layers,
    to_onnx,
)
from harness.reference import Reference
from tests.support.examples import examples
from tests.support.quantizer.networks import random_layers, random_network

INPUT = Codes(np.float32(0.01), 100)
HIDDEN = Codes(np.float32(0.02))
SCORES = codes_for(-2, 3)


def made(order: int = 1, scores: Codes | None = None, **options: object) -> onnx.ModelProto:
    """A network 3 -> 4 -> 2."""
    layers = random_layers(np.random.default_rng(5), (3, 4, 2))
    network = QuantizedNetwork(INPUT, quantize_layers(layers, (INPUT, HIDDEN), scores, order=order))
    return to_onnx(network, "small", {}, **options)  # type: ignore[arg-type]


def nodes(model: onnx.ModelProto) -> list[str]:
    return [f"{node.op_type} {node.name} -> {node.output[0]}" for node in model.graph.node]


def test_plain_network_is_a_readable_chain() -> None:
    model = made(select=Select("ArgMin"))
    assert nodes(model) == [
        "QuantizeLinear quantize_input -> x_quantized",
        "QGemm dense_1 -> activation_1",
        "QGemm dense_2 -> scores",
        "ArgMin select -> selected",
    ]
    assert [len(node.input) for node in model.graph.node] == [3, 9, 7, 1]
    assert (model.opset_import[0].version, model.opset_import[1].domain, model.ir_version) == (17, "com.microsoft", 8)
    shapes = {value.name: value.type.tensor_type.shape.dim for value in (*model.graph.input, *model.graph.output)}
    assert {name: (dims[0].dim_param, dims[1].dim_value) for name, dims in shapes.items()} == {
        "x": ("vectors", 3),
        "scores": ("vectors", 2),
        "selected": ("vectors", 1),
    }


def test_expansion_is_terms_left_to_right_sums_and_one_rounding() -> None:
    assert nodes(made(order=3)) == [
        "QuantizeLinear quantize_input -> x_quantized",
        "QGemm dense_1_term_1 -> activation_1_term_1",
        "QGemm dense_1_term_2 -> activation_1_term_2",
        "Add dense_1_sum_2 -> activation_1_sum_2",
        "QGemm dense_1_term_3 -> activation_1_term_3",
        "Add dense_1_sum_3 -> activation_1_sum_3",
        "QuantizeLinear dense_1_quantize -> activation_1",
        "QGemm dense_2_term_1 -> scores_term_1",
        "QGemm dense_2_term_2 -> scores_term_2",
        "Add dense_2_sum_2 -> scores_sum_2",
        "QGemm dense_2_term_3 -> scores_term_3",
        "Add dense_2_sum_3 -> scores",
    ]
    by_name = {node.name: node for node in made(order=3).graph.node}
    assert list(by_name["dense_1_sum_3"].input) == ["activation_1_sum_2", "activation_1_term_3"]
    assert {by_name[f"dense_2_term_{k}"].input[0] for k in (1, 2, 3)} == {"activation_1"}
    assert [len(by_name[f"dense_1_term_{k}"].input) for k in (1, 2, 3)] == [7, 6, 6]  # the bias is in the first


@pytest.mark.parametrize("order", [1, 2])
def test_uint8_scores_leave_as_float32(order: int) -> None:
    model = made(order, SCORES, select=Select("ArgMax", "select_advisory", "advisory"))
    assert nodes(model)[-3:] == [
        "QGemm dense_2 -> scores_quantized" if order == 1 else "QuantizeLinear dense_2_quantize -> scores_quantized",
        "DequantizeLinear dequantize_output -> scores",
        "ArgMax select_advisory -> advisory",
    ]
    assert model.graph.node[-1].input[0] == "scores"


def test_equal_arguments_give_equal_bytes_and_metadata_in_its_order() -> None:
    network = QuantizedNetwork(
        INPUT, quantize_layers(random_layers(np.random.default_rng(5), (3, 4, 2)), (INPUT, HIDDEN))
    )
    one, other = (to_onnx(network, "small", {"b": "1", "a": "2"}) for _ in range(2))
    assert one.SerializeToString() == other.SerializeToString()
    assert [(entry.key, entry.value) for entry in one.metadata_props] == [("b", "1"), ("a", "2")]


def test_names_of_inputs_and_outputs_come_first() -> None:
    model = made(2, SCORES, input_name="activation_1", output_name="dense_1_scale", select=Select("ArgMax"))
    parsed = networks.parse(model.SerializeToString(), "small")
    assert parsed.vector.name == "activation_1"
    assert [value.name for value in model.graph.output] == ["dense_1_scale", "selected"]
    tensors = [tensor.name for tensor in model.graph.initializer]
    assert "dense_1_scale_" in tensors
    assert "activation_1_" in [node.output[0] for node in model.graph.node]


@pytest.mark.parametrize("names", [{"input_name": "selected"}, {"output_name": "selected"}])
def test_the_selection_gives_way_to_them(names: dict[str, str]) -> None:
    model = made(select=Select("ArgMin"), **names)
    networks.parse(model.SerializeToString(), "small")
    assert model.graph.output[1].name == "selected_"


@pytest.mark.slow
@examples(60)
@given(
    seed=st.integers(0, 2**32),
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=5),
    weights=st.sampled_from(get_args(WeightKind)),
    ranges=st.sampled_from(["calibration", "bounds"]),
    residual=st.integers(1, 4),
    scores=st.sampled_from(["float32", "uint8"]),
    select=st.sampled_from([None, Select("ArgMax"), Select("ArgMin")]),
    magnitude=st.integers(-20, 20),
    data=st.data(),
)
def test_model_is_accepted_and_onnxruntime_equals_the_integers_on_every_activation(
    seed: int,
    widths: list[int],
    weights: str,
    ranges: str,
    residual: int,
    scores: str,
    select: Select | None,
    magnitude: int,
    data: st.DataObject,
) -> None:
    relus = data.draw(st.lists(st.booleans(), min_size=len(widths) - 1, max_size=len(widths) - 1))
    relus[-1] &= scores == "uint8"
    floats = random_network(np.random.default_rng(seed), widths, relus)
    for layer in floats.layers:
        layer.weight[:] *= np.float32(2.0**magnitude)  # the biases stay: they may need wider scales
    choices = Choices(weights, ranges, vectors=500, seed=seed, residual=residual, scores=scores)  # type: ignore[arg-type]
    box = {
        key: json.dumps(row.tolist()) for key, row in zip(("input_box_low", "input_box_high"), floats.box, strict=True)
    }
    model = to_onnx(quantize(floats, choices), "made", box, select=select)
    network = networks.parse(model.SerializeToString(), "made")
    assert np.array_equal(network.box, floats.box)
    vectors = np.concatenate(list(drawn(floats.box, 200, seed, FRESH)))
    beyond = np.concatenate([vectors, vectors * np.float32(3), np.full((1, widths[0]), np.nan, np.float32)])
    activations = Reference(network, x64_quant_precision=True).activations(beyond)  # raises where they differ
    by_output = {layer.output.name: values for layer, values in zip(network.layers, activations, strict=True)}
    assert by_output["scores"].shape == (401, widths[-1])
    if select:
        best = np.argmax if select.operator == "ArgMax" else np.argmin
        assert np.array_equal(by_output["selected"][:, 0], best(by_output["scores"], axis=1))

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper

from harness.model import parse
from harness.model.network import Network
from harness.model.text.document import decoded, document, readable
from harness.model.text.facts import parameter_count, short_widths, widths
from harness.operators.qgemm import QGemm
from harness.operators.scaled_sum import Accumulator
from tests.support.builders import make_model, random_network
from tests.support.codes import every_operator


def parsed(*asked: object, **options: object) -> Network:
    model = random_network(np.random.default_rng(1), *asked, **options)  # type: ignore[arg-type]
    return parse(model.SerializeToString(), "net")


@pytest.mark.parametrize(
    ("low", "high", "headroom", "exact"),
    [
        (0, 0, 31, True),
        (-1, 1, 30, True),
        (-128, 127, 24, True),
        (-128, 128, 23, True),
        (-(1 << 24), 1 << 24, 6, True),
        (-(1 << 24) - 1, 0, 6, False),
        (0, (1 << 24) + 1, 6, False),
        (-(1 << 31), (1 << 31) - 2, 0, False),
    ],
)
def test_the_margins_of_an_accumulator(low: int, high: int, headroom: int, exact: bool) -> None:
    bounds = Accumulator(low, high)
    assert bounds.headroom_bits == headroom
    assert bounds.float32_exact is exact
    assert low << headroom >= -(1 << 31)
    assert high << headroom < 1 << 31


def test_the_bounds_of_an_accumulator_are_reached() -> None:
    layer = parsed([6, 9], zero_points=True).layers[1]
    assert isinstance(layer, QGemm)
    bounds = layer.sums and layer.sums.accumulator()
    weights = layer.weights.astype(np.int64) - layer.weights_zero_point
    reached = [(np.where((weights > 0) == upper, 255, 0) - layer.a_zero_point) * weights for upper in (False, True)]
    assert bounds.low == (reached[0].sum(axis=0) + layer.bias).min()
    assert bounds.high == (reached[1].sum(axis=0) + layer.bias).max()


def test_parameters_and_widths_are_those_of_the_float_network() -> None:
    plain, expanded = parsed([5, 50, 50, 5]), parsed([5, 50, 50, 5], residual=2, per_column=True)
    weights, bias = 5 * 50 + 50 * 50 + 50 * 5, 50 + 50 + 5
    assert parameter_count(plain) == weights + bias
    assert parameter_count(expanded) == 2 * weights + bias
    assert widths(plain) == widths(expanded) == (5, 50, 50, 5)


def test_widths_in_short() -> None:
    assert short_widths((5, *[50] * 8, 5)) == "5-50x8-5"
    assert short_widths((784, 10)) == "784-10"


def test_the_document_holds_every_fact() -> None:
    net = parsed([3, 4, 2], per_column=True, argmax=True, alpha=0.7)
    facts = json.loads(json.dumps(document(net)))
    assert facts["sha256"] == net.sha256
    assert (facts["widths"], facts["parameters"]) == ([3, 4, 2], 3 * 4 + 4 + 4 * 2 + 2)
    quantize, dense, _, select = facts["layers"]
    assert quantize["scale"]["bits"] == [f"0x{int(net.layers[0].scale.view(np.uint32)):08x}"]  # type: ignore[attr-defined]
    layer = net.layers[1]
    assert isinstance(layer, QGemm)
    assert (dense["reads"], dense["writes"]) == (["quantize_out"], "layer_0_out")
    assert np.array(dense["multiplier"]["values"], np.float32).tobytes() == layer.multiplier.tobytes()
    assert [int(bits, 16) for bits in dense["multiplier"]["bits"]] == layer.multiplier.view(np.uint32).tolist()
    bounds = layer.sums and layer.sums.accumulator()
    assert dense["accumulator"] == {
        "low": bounds.low,
        "high": bounds.high,
        "int32_overflow": "excluded",
        "headroom_bits": bounds.headroom_bits,
        "float32_exact": True,
    }
    assert select["of_equal_values"] == "the first"


def test_metadata_does_not_disturb_the_terminal() -> None:
    assert readable("a\x1b[31m") == '"a\\u001b[31m"'
    assert readable("plain") == "plain"
    assert readable(["a", 1]) == '["a", 1]'


def test_metadata_is_json_where_it_can_be() -> None:
    assert decoded('["a", 1]') == ["a", 1]
    assert decoded("NaN") == "NaN"
    for text in ("plain words", "[" * 100_000, "9" * 5000):
        assert decoded(text) == text


def test_the_document_says_that_a_model_gives_no_box() -> None:
    model = random_network(np.random.default_rng(1), [3, 4])
    assert "note" not in document(parse(model.SerializeToString(), "net"))["input_box"]
    del model.metadata_props[:]
    assert document(parse(model.SerializeToString(), "net"))["input_box"]["note"] == "the model gives no box"


@pytest.mark.parametrize(
    ("node", "facts", "summary"),
    [
        (helper.make_node("Mul", ["c", "x"], ["y"]), {"factor": {"values": [2.0], "bits": ["0x40000000"]}},
         "A * 2.0 0x40000000"),
        (helper.make_node("Sub", ["c", "x"], ["y"]), {"subtrahend": None}, "2.0 0x40000000 - B"),
        (helper.make_node("Sub", ["x", "c"], ["y"]), {"minuend": None}, "A - 2.0 0x40000000"),
        (helper.make_node("Clip", ["x", "", "c"], ["y"]), {"high": {"values": [2.0], "bits": ["0x40000000"]}},
         "-3.4028235e+38 0xff7fffff to 2.0 0x40000000"),
        (helper.make_node("LeakyRelu", ["x"], ["y"], alpha=2.0),
         {"alpha": {"values": [2.0], "bits": ["0x40000000"]}}, "alpha 2.0 0x40000000"),
        (helper.make_node("Relu", ["x"], ["y"]), {"operator": "Relu", "type": "float32"}, ""),
        (helper.make_node("Tanh", ["x"], ["y"]), {"operator": "Tanh", "type": "float32"}, ""),
        (helper.make_node("Elu", ["x"], ["y"], alpha=2.0), {"alpha": {"values": [2.0], "bits": ["0x40000000"]}},
         "alpha 2.0 0x40000000"),
        (helper.make_node("HardSigmoid", ["x"], ["y"], beta=0.25),
         {"alpha": {"values": [0.2], "bits": ["0x3e4ccccd"]}, "beta": {"values": [0.25], "bits": ["0x3e800000"]}},
         "alpha 0.2 0x3e4ccccd beta 0.25 0x3e800000"),
        (helper.make_node("Softmax", ["x"], ["y"]), {"length": 1}, "1 x 1"),
    ],
)  # fmt: skip
def test_facts_of_float_operators(node: onnx.NodeProto, facts: dict[str, object], summary: str) -> None:
    constants = {"c": np.float32(2)} if "c" in node.input else {}
    net = parse(make_model([node], constants, {"y": ("float32", 1)}, width=1).SerializeToString(), "net")
    (layer,) = document(net)["layers"]
    assert {key: layer[key] for key in facts} == facts
    assert " ".join(net.layers[0].text.summary()) == summary
    assert parameter_count(net) == (1 if "c" in node.input and node.op_type != "Clip" else 0)


def test_facts_of_operators_on_codes() -> None:
    net = every_operator("uint8", 3, (0.5, 0.25, 1.0))
    summaries = {layer.name: " ".join(layer.text.summary()) for layer in net.layers}
    assert summaries["leaky"] == "0.5 0x3f000000 to 0.25 0x3e800000 100 to 141 alpha 0.3 0x3e99999a"
    assert summaries["sum"] == "0.5 0x3f000000 and 0.25 0x3e800000 100 and 141 to 100"
    assert summaries["row_sum"] == "0.25 0x3e800000 and 0.5 0x3f000000 141 and 100 to 100"
    assert summaries["exchanged_sum"] == "0.5 0x3f000000 and 0.25 0x3e800000 100 and 141 to 100"
    assert summaries["product"] == "0.125 0x3e000000 100 and 141 to 100"
    facts = {layer["name"]: layer for layer in document(net)["layers"]}
    assert facts["row_sum"]["addend"] == [0, 3, 6]
    assert facts["product"]["multiplier"]["bits"] == ["0x3e000000"]
    assert len(facts["sigmoid"]["table"]) == 256

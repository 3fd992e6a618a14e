"""Verdicts of `judge`: `identical` only if all outputs were compared for all vectors, and nothing differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.applications.judge import texts
from harness.boards import workspace
from harness.core.arrays import Array
from harness.model.network import Network
from harness.operators.base import Layer
from tests.support import judged


@pytest.fixture(scope="module")
def network() -> Network:
    return judged.network(argmax=True)


def test_dumps_of_all_layers_are_identical(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)
    document = judged.judge(network, tmp_path, judged.activations(network, values), values)
    assert (document.verdict, document.vectors) == ("identical", 200)
    assert [layer.compared for layer in document.layers] == [200 * layer.size for layer in network.layers]
    assert {(layer.differing, layer.own) for layer in document.layers} == {(0, 0)}
    assert [(one.output, one.changed) for one in document.decisions] == [("layer_2_out", 0), ("advisory_out", 0)]


def test_outputs_alone_are_identical_and_inner_layers_alone_inconclusive(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    outputs = {name: dumps[name] for name in ("layer_2_out", "advisory_out")}
    assert judged.judge(network, tmp_path, outputs, values).verdict == "identical"
    del dumps["advisory_out"]
    document = judged.judge(network, tmp_path, dumps, values)
    assert document.verdict == "inconclusive"
    assert document.missing_outputs == ["advisory_out"]
    assert "lack the outputs 'advisory_out'" in document.reason


def test_one_wrong_layer_does_not_blame_those_behind_it(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)

    def off_by_one(layer: Layer, acc: Array) -> Array:
        codes: Array = layer.finish()(acc)  # type: ignore[attr-defined]
        codes[3, 2] ^= 1
        return codes

    dumps = judged.activations(network, values, {"layer_0": off_by_one})
    document = judged.judge(network, tmp_path, dumps, values)
    layers = judged.by_name(document)
    assert (document.verdict, document.first_layer) == ("differs", "layer_0")
    assert layers["layer_0"].own == layers["layer_0"].differing == 1
    assert (layers["layer_0"].first.vector, layers["layer_0"].first.unit) == (3, 2)
    assert layers["layer_0"].largest == 1
    assert layers["layer_1"].own == layers["layer_2"].own == 0


def test_changed_decisions_are_counted(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    dumps["advisory_out"] = dumps["advisory_out"].copy()
    dumps["advisory_out"][[5, 9]] = (dumps["advisory_out"][[5, 9]] + 1) % 3
    document = judged.judge(network, tmp_path, dumps, values)
    [_, decisions] = document.decisions
    assert (document.verdict, decisions.changed, decisions.first) == ("differs", 2, 5)


@pytest.mark.parametrize("fewer", ["dumps", "one tensor"])
def test_fewer_vectors_are_inconclusive(network: Network, tmp_path: Path, fewer: str) -> None:
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    for name in dumps if fewer == "dumps" else ["layer_1_out"]:
        dumps[name] = dumps[name][:150]
    document = judged.judge(network, tmp_path, dumps, values)
    assert (document.verdict, document.vectors) == ("inconclusive", 150)
    assert "200" in document.reason


def test_nan_where_the_specification_has_a_number_is_inconclusive(tmp_path: Path) -> None:
    network = judged.network(float_output=True)
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    dumps["layer_2_out"] = dumps["layer_2_out"].copy()
    dumps["layer_2_out"][7, 1] = np.nan
    document = judged.judge(network, tmp_path, dumps, values)
    assert document.verdict == "inconclusive"
    assert "NaN in layer_2" in document.reason
    dumps["layer_2_out"][8, 1] += 1
    assert judged.judge(network, tmp_path, dumps, values).verdict == "differs"


def test_vectors_are_the_inputs_in_the_dumps_if_no_others_are_stated(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)
    dumps = judged.activations(network, values) | {"x": values}
    assert judged.judge(network, tmp_path, dumps, None).verdict == "identical"
    other = judged.judge(network, tmp_path, dumps | {"x": values + 1}, values)
    assert (other.verdict, other.problems) == (
        "inconclusive",
        ["the input 'x' in the dumps is not that of the vectors"],
    )


def test_without_vectors_layers_are_judged_for_their_dumped_inputs(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    document = judged.judge(network, tmp_path, dumps, None)
    assert document.verdict == "inconclusive"
    assert "give --vectors" in document.reason
    layers = judged.by_name(document)
    assert (layers["layer_0"].differing, layers["layer_1"].own_compared) == (None, 800)
    dumps["layer_1_out"] = dumps["layer_1_out"] ^ 1
    assert judged.judge(network, tmp_path, dumps, None).verdict == "differs"


@pytest.mark.slow
def test_float_sums_in_another_order_are_within_their_bounds(tmp_path: Path) -> None:
    network = judged.images()
    values = judged.vectors(network, 30)
    dumps = judged.activations(network, values)
    convolved = network.layers[0]
    exact, _ = convolved.exact(values)  # type: ignore[attr-defined]
    dumps["sums_1"] = exact.astype(np.float32).reshape(dumps["sums_1"].shape)
    dumps["positive"] = np.maximum(dumps["sums_1"], 0)
    for index, name in ((2, "sums_2"), (4, "scores")):
        source = {"sums_2": "positive", "scores": "sums_2"}[name]
        inputs = dumps[source].reshape(30, -1)
        dumps[name] = network.layers[index].prepare()(inputs).reshape(dumps[name].shape)
    dumps["flat"] = dumps["sums_2"].reshape(30, -1)
    document = judged.judge(network, tmp_path, dumps, values)
    layers = judged.by_name(document)
    assert document.verdict == "within bound"
    assert layers["conv_1"].unequal > 0
    assert layers["conv_1"].own == layers["relu_1"].unequal == 0
    assert 0 < layers["conv_1"].ratio <= 1
    [entry] = document.arithmetic
    assert "products and sum are computed in double precision" in (entry.cause, *entry.also)
    alone = judged.judge(network, tmp_path, {"scores": dumps["scores"]}, values, explains=False)
    assert alone.verdict == "within bound"
    dumps["sums_1"][2, 1, 0, 0] += 1
    wrong = judged.judge(network, tmp_path, dumps, values, explains=False)
    assert (wrong.verdict, wrong.first_layer) == ("differs", "conv_1")
    assert judged.by_name(wrong)["conv_1"].own == 1


def test_an_output_beyond_the_bound_of_the_whole_network_differs(tmp_path: Path) -> None:
    network = judged.images()
    values = judged.vectors(network, 10)
    scores = judged.activations(network, values)["scores"].copy()
    scores[4, 3] *= np.float32(1.01)
    document = judged.judge(network, tmp_path, {"scores": scores}, values, explains=False)
    [layer] = document.layers
    assert layer.own_first is not None
    assert (document.verdict, layer.own, layer.own_first.vector) == ("differs", 1, 4)
    assert layer.with_layers == ["conv_1", "relu_1", "conv_2", "flatten_1"]


def test_an_exact_layer_of_a_float_network_must_have_equal_bits(tmp_path: Path) -> None:
    network = judged.images()
    values = judged.vectors(network, 10)
    dumps = judged.activations(network, values)
    place = tuple(np.argwhere(dumps["positive"] == 0)[0])
    dumps["positive"][place] = -0.0
    document = judged.judge(network, tmp_path, dumps, values)
    assert (document.verdict, judged.by_name(document)["relu_1"].own) == ("differs", 1)


def test_causes_are_searched_only_if_that_is_asked_for(network: Network, tmp_path: Path) -> None:
    values = judged.vectors(network)
    dumps = judged.activations(network, values)
    dumps["layer_0_out"] = dumps["layer_0_out"] ^ 1
    document = judged.judge(network, tmp_path, dumps, values, explains=False)
    assert (document.verdict, document.arithmetic) == ("differs", [])
    assert list(texts.unexplained(document)) == [f"causes were not searched in {', '.join(document.unexplained)}"]
    assert "layer_0" in document.unexplained


@pytest.mark.parametrize("model", ["text_tiny", "forest_tiny", "acas_sl", "kws_stream_int8"])
def test_random_values_of_any_layer_differ(model: str, tmp_path: Path) -> None:
    """Indices and NaN too."""
    network, rng = workspace.find().model(model), np.random.default_rng(0)
    values = judged.vectors(network, 2 * network.steps)
    dumps = judged.activations(network, values)
    for name, right in dumps.items():
        content = rng.integers(0, 256, right.nbytes, np.uint8).tobytes()
        dumps[name] = np.frombuffer(content, right.dtype).reshape(right.shape)
    document = judged.judge(network, tmp_path, dumps, values, explains=False)
    assert document.verdict == "differs"
    assert document.first_layer == network.layers[0].name

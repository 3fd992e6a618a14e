"""LSTM, GRU and RNN against ONNX Runtime, a direct computation, wrong variants and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from harness.core.errors import RequestError
from harness.model import parse
from harness.operators.recurrent import Gru, Lstm, Recurrent, Rnn
from harness.reference import Reference
from harness.reference.stimuli import stimuli
from tests.support.codes import COUNTS, assert_agree_at_random
from tests.support.floats import read_node
from tests.support.recurrent import STATES, Recurrences, every_recurrence

NETWORK = parse(every_recurrence().SerializeToString(), "recurrences")
VECTORS = stimuli(NETWORK, 64, 1).chunk(0, 64)


def of_random_sizes(rng: np.random.Generator) -> None:
    network = Recurrences(*rng.integers(1, 9, 3).tolist(), rng)
    for _ in range(2):
        operator = str(rng.choice(list(STATES)))
        states = [str(rng.choice(["zero", "constant", "input"])) for _ in STATES[operator]]
        more = {"linear_before_reset": int(rng.integers(2))} if operator == "GRU" else {}
        network.add(operator, str(rng.choice(["forward", "reverse"])), states, **more)
    parsed = parse(network.model().SerializeToString(), "random")
    vectors = stimuli(parsed, 40, int(rng.integers(1000))).chunk(0, 40)
    expected = Reference(parsed).expected(vectors)  # ONNX Runtime lies within the bounds, layer by layer and as a whole
    for layer, values in zip(parsed.layers, expected.activations, strict=True):
        assert (np.abs(values) <= layer.output.bound).all()


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_random_recurrences_agree(count: int) -> None:
    assert_agree_at_random(of_random_sizes, max(count // 20, 4))


@pytest.mark.parametrize("scale", [10, 1e4])
def test_large_inputs_that_saturate_gates_agree(scale: float) -> None:
    """ONNX Runtime has an absolute error in the logistic function, and gives 0 below -18."""
    values = NETWORK.values(VECTORS) | {"x": (NETWORK.values(VECTORS)["x"] * scale).astype(np.float32)}
    expected = Reference(NETWORK).expected(NETWORK.vectors(values))
    assert len(expected.activations) == len(NETWORK.layers)


def test_an_lstm_computes_its_gates_in_the_order_of_onnx() -> None:
    """The sums begin with the biases, then have the products of x, then those of h, each rounded."""
    layer = NETWORK.layers[0]
    assert isinstance(layer, Lstm)
    values = NETWORK.values(VECTORS)
    x, steps = values["x"].reshape(64, 5, 3), layer.prepare()(values["x"]).reshape(64, 5, 4)
    w, r = layer.w.reshape(4, 4, 3), layer.r.reshape(4, 4, 4)
    h = c = np.zeros((64, 4), np.float32)
    for step in range(5):
        sums = np.broadcast_to(layer.biases, (64, 4, 4))
        for place in range(3):
            sums = sums + x[:, step, None, None, place] * w[..., place]
        for place in range(4):
            sums = sums + h[:, None, None, place] * r[..., place]
        i, o, f = (1 / (1 + np.exp(-sums[:, gate].astype(np.float64))) for gate in range(3))
        c = (f * c + i * np.tanh(sums[:, 3].astype(np.float64))).astype(np.float32)
        h = (o * np.tanh(c.astype(np.float64))).astype(np.float32)
        np.testing.assert_allclose(steps[:, step], h, rtol=0, atol=3e-7)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(NETWORK.layers)))
def test_every_fault_model_changes_some_values(number: int) -> None:
    layer, values = NETWORK.layers[number], NETWORK.values(VECTORS)
    inputs = [values[name] for name in layer.sources]
    right, causes = layer.prepare()(*inputs), []
    for model in layer.fault_models(*inputs):
        assert (model.output.shape, model.output.dtype) == (right.shape, right.dtype), model.cause
        if model.output.tobytes() != right.tobytes():
            causes.append(model.cause)
    assert "the steps go in the other direction" in causes
    assert len(causes) == len(set(causes)) >= 5


def test_each_layer_is_of_its_class_and_begins_as_the_node_says() -> None:
    assert [type(layer) for layer in NETWORK.layers] == [Lstm, Lstm, Lstm, Gru, Gru, Rnn]
    forms = [
        {state: "input" if values is None else "constant" if values.any() else "zero"
         for state, values in layer.initial.items()}
        for layer in NETWORK.layers if isinstance(layer, Recurrent)
    ]  # fmt: skip
    assert forms == [
        {"h": "zero", "c": "zero"}, {"h": "input", "c": "constant"}, {"h": "constant", "c": "input"},
        {"h": "zero"}, {"h": "input"}, {"h": "constant"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"hidden_size": 3}, "W, R and B have shapes"),
        ({"direction": "bidirectional"}, "direction 'bidirectional'"),
        ({"clip": 3.0}, "attribute 'clip' is unknown"),
    ],
)
def test_refusal_names_what_is_accepted(change: dict[str, Any], message: str) -> None:
    network = Recurrences(2, 3, 4, np.random.default_rng(0))
    network.add("LSTM")
    [node] = network.nodes
    kept = [attribute for attribute in node.attribute if attribute.name not in change]
    del node.attribute[:]
    node.attribute.extend([*kept, *(onnx.helper.make_attribute(name, value) for name, value in change.items())])
    with pytest.raises(RequestError) as caught:
        read_node(node, network.constants, {"x": np.ones((2, 2, 3), np.float32)})
    assert message in f"{caught.value}; {caught.value.hint}"

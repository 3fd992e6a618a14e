"""LSTM, GRU and RNN of ONNX, whose own batch is 1, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness.backend
from harness.core.errors import RequestError
from harness.model.graph import load
from harness.operators.recurrent import Recurrent

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, INPUTS, HIDDEN = 5, 3, 4


def network(
    operator: str, *, directions: int = 1, initial: str = "", batch: int = 1, outputs: str = "Y", **attributes: Any
) -> onnx.ModelProto:
    """One node with its inputs; `initial` is "constant", "input", or nothing."""
    random, rows = np.random.default_rng(1), GATES[operator] * HIDDEN
    shapes = {"W": (rows, INPUTS), "R": (rows, HIDDEN), "B": (2 * rows,)}
    constants = {name: random.normal(0, 0.5, (directions, *shape)) for name, shape in shapes.items()}
    inputs: dict[str, tuple[int, ...]] = {"X": (STEPS, batch, INPUTS)}
    read = ["X", "W", "R", "B"]
    states = [f"initial_{state}" for state in ("h", "c")[: 1 + (operator == "LSTM")]] if initial else []
    for state in states:
        if initial == "constant":
            constants[state] = random.normal(size=(directions, batch, HIDDEN))
        else:
            inputs[state] = (directions, batch, HIDDEN)
    if states:
        read += ["", *states]
    names = [name if name in outputs.split() else "" for name in ("Y", "Y_h", "Y_c")]
    node = helper.make_node(operator, read, names[: 2 + (operator == "LSTM")], "cell", hidden_size=HIDDEN, **attributes)
    last = (directions, batch, HIDDEN)
    shapes_of_outputs = {"Y": (STEPS, *last), "Y_h": last, "Y_c": last}
    graph = helper.make_graph(
        [node],
        "cell",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes_of_outputs[name]) for name in outputs.split()],
        [numpy_helper.from_array(values.astype(np.float32), name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("initial", ["", "constant", "input"])
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "GRU of a product", "RNN"])
def test_one_vector_is_a_batch_of_one(operator: str, initial: str, direction: str) -> None:
    name, linear = operator.partition(" ")[0], {"linear_before_reset": 1} if " " in operator else {}
    directions = 1 + (direction == "bidirectional")
    model = network(name, directions=directions, initial=initial, outputs="Y Y_h", direction=direction, **linear)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(2)
    values = {value.name: random.normal(size=value.shape).astype(np.float32) for value in session.get_inputs()}
    prepared = harness.backend.prepare(model)
    for ours, theirs in zip(prepared.run(values), session.run(None, values), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_a_model_without_biases_begins_its_sums_with_0(tmp_path: Path) -> None:
    model = network("LSTM")
    model.graph.initializer.remove(next(tensor for tensor in model.graph.initializer if tensor.name == "B"))
    del model.graph.node[0].input[3:]
    onnx.save(model, tmp_path / "cell.onnx")
    [layer] = [layer for layer in load(tmp_path / "cell.onnx").layers if isinstance(layer, Recurrent)]
    assert not layer.biases.any()
    assert (layer.operator, layer.output.shape) == ("LSTM", (STEPS, HIDDEN))


REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "several sequences": (lambda: network("GRU", batch=2), "its batch has 2 places in one vector"),
    "the last cell state": (lambda: network("LSTM", outputs="Y Y_c"), "Y_c is read"),
    "another activation": (lambda: network("RNN", activations=["Relu"]), "the activations are ['Relu']"),
    "clip": (lambda: network("LSTM", clip=3.0), "clip is given"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_forms_are_refused_with_what_is_accepted(name: str, tmp_path: Path) -> None:
    from harness.model.importer import simplify, vector_axis

    build, message = REFUSED[name]
    onnx.save(build(), tmp_path / "cell.onnx")
    simplified, _ = simplify.read(tmp_path / "cell.onnx")
    shapes = vector_axis.input_shapes(simplified.model, simplified.batch)
    with pytest.raises(RequestError) as refused:
        vector_axis.add_axis(simplified.model, simplified.source, "cell", shapes)
    assert message in refused.value.message
    with pytest.raises(RequestError):
        load(tmp_path / "cell.onnx")

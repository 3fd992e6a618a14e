"""LSTM, GRU and RNN of ONNX, whose own batch is 1, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


@pytest.mark.slow
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


LENGTHS = numpy_helper.from_array(np.array([3, 5], np.int32), "lengths")
OTHERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "two sequences": lambda: network("GRU", batch=2, directions=2, direction="bidirectional", outputs="Y Y_h"),
    "two sequences with states": lambda: network("LSTM", batch=2, initial="input", outputs="Y Y_h Y_c"),
    "two lengths": lambda: with_inputs(network("LSTM", batch=2, outputs="Y Y_h"), {4: LENGTHS}),
    "two lengths of both directions": lambda: with_inputs(
        network("GRU", batch=2, directions=2, direction="bidirectional", initial="input", outputs="Y Y_h"), {4: LENGTHS}
    ),
    "two lengths, step by step": lambda: with_inputs(
        network("RNN", batch=2, direction="reverse", activations=["Relu"], outputs="Y Y_h"), {4: LENGTHS}
    ),
    "the last cell state": lambda: network("LSTM", outputs="Y Y_c", initial="constant"),
    "peepholes": lambda: with_inputs(
        network("LSTM", outputs="Y Y_h Y_c"),
        {7: numpy_helper.from_array(np.random.default_rng(5).normal(size=(1, 3 * HIDDEN)).astype(np.float32), "P")},
    ),
    "clip": lambda: network("GRU", clip=0.25, initial="input"),
    "clip, after the product": lambda: network("GRU", clip=0.25, initial="constant", linear_before_reset=1),
    "activations of both directions": lambda: network(
        "LSTM", directions=2, direction="bidirectional",
        activations=["HardSigmoid", "Affine", "Softsign", "Sigmoid", "ScaledTanh", "LeakyRelu"],
        activation_alpha=[0.3, 0.75, 1.5, 0.25], activation_beta=[0.4, 0.125, 0.5],
    ),
    "other activations": lambda: network("GRU", activations=["HardSigmoid", "Elu"]),
    "unbounded activations": lambda: network("LSTM", activations=["Sigmoid", "Relu", "Softplus"]),
    "a threshold": lambda: network("RNN", activations=["ThresholdedRelu"], activation_alpha=[0.5], initial="input"),
}  # fmt: skip


def with_inputs(model: onnx.ModelProto, constants: Mapping[int, onnx.TensorProto]) -> onnx.ModelProto:
    """Return the model with optional inputs at these places."""
    [node] = model.graph.node
    for place, tensor in constants.items():
        node.input.extend([""] * (place + 1 - len(node.input)))
        node.input[place] = tensor.name
        model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms_have_the_values_of_onnx_runtime(name: str) -> None:
    model = OTHERS[name]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    values = {value.name: random.normal(size=value.shape).astype(np.float32) for value in session.get_inputs()}
    results = harness.backend.prepare(model).run(values)
    for ours, theirs in zip(results, session.run(None, values), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_layout_1_has_the_sequences_in_front(operator: str) -> None:
    outputs = {"LSTM": "Y Y_h Y_c", "GRU": "Y Y_h", "RNN": "Y_h"}[operator]
    model = network(operator, batch=2, initial="input", outputs=outputs)
    random = np.random.default_rng(4)
    values = {value.name: random.normal(size=[size.dim_value for size in value.type.tensor_type.shape.dim])
              .astype(np.float32) for value in model.graph.input}  # fmt: skip
    expected = harness.backend.prepare(model).run(values)
    model.graph.node[0].attribute.append(helper.make_attribute("layout", 1))
    perms = {value.name: [1, 0, 2] for value in (*model.graph.input, *model.graph.output)} | {"Y": [2, 0, 1, 3]}
    for value in (*model.graph.input, *model.graph.output):
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
        for size, place in zip(value.type.tensor_type.shape.dim, perms[value.name], strict=True):
            size.dim_value = sizes[place]
    results = harness.backend.prepare(model).run({name: np.swapaxes(array, 0, 1) for name, array in values.items()})
    for output, ours, theirs in zip(model.graph.output, results, expected, strict=True):
        np.testing.assert_array_equal(ours, np.transpose(theirs, perms[output.name]))


REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "an activation without its numbers": (
        lambda: network("RNN", initial="input", activations=["Affine"]), "Affine has no alpha"
    ),
    "clip of the cell": (lambda: network("LSTM", clip=0.25), "clip of an LSTM"),
    "too many steps": (lambda: network("GRU", batch=20, clip=3.0), "has 100 steps"),
    "coupled gates": (lambda: network("LSTM", input_forget=1), "input_forget is 1"),
}  # fmt: skip


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

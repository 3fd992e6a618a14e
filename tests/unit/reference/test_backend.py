"""The backend of ONNX's interface: outputs of the specification in the shapes of the model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import harness.backend
from harness.core.errors import RequestError

VALUES = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)


def model_of(*nodes: onnx.NodeProto, inputs: dict[str, list[int]], output: list[int]) -> onnx.ModelProto:
    """A model of float32 inputs with one output "y"."""
    stated = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(
        list(nodes), "graph", stated, [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


RELU = model_of(helper.make_node("Relu", ["x"], ["y"]), inputs={"x": [2, 3]}, output=[2, 3])


def test_a_model_is_computed_for_inputs_in_order_or_by_name() -> None:
    prepared = harness.backend.prepare(RELU)
    for inputs in ([VALUES], {"x": VALUES}):
        [result] = prepared.run(inputs)
        assert np.array_equal(result, np.maximum(VALUES, 0))


def test_the_output_has_the_shape_that_the_model_states() -> None:
    summed = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    [result] = harness.backend.run_model(model_of(summed, inputs={"x": [2, 3]}, output=[]), [VALUES])
    assert result.shape == ()
    assert result == 9


def test_a_model_of_several_inputs_is_computed_for_all_of_them() -> None:
    model = model_of(helper.make_node("Sub", ["a", "b"], ["y"]), inputs={"a": [2, 3], "b": [3]}, output=[2, 3])
    for offset in (np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)):
        [result] = harness.backend.prepare(model).run([VALUES, offset])
        assert np.array_equal(result, VALUES - offset)


def test_inputs_that_no_network_can_have_become_constants() -> None:
    model = model_of(helper.make_node("Reshape", ["x", "s"], ["y"]), inputs={"x": [2, 3]}, output=[3, 2])
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    [result] = harness.backend.prepare(model).run([VALUES, np.array([3, 2])])
    assert np.array_equal(result, VALUES.reshape(3, 2))
    with pytest.raises(RequestError, match="the shape is object"):
        harness.backend.prepare(model).run([VALUES.astype(bool), np.array([3, 2]).astype(str)])


def test_other_types_and_shapes_of_an_input_are_refused() -> None:
    prepared = harness.backend.prepare(RELU)
    for value in (VALUES.astype(np.float64), VALUES[:, :2]):
        with pytest.raises(RequestError, match=r"input 'x' is float\d\d of shape"):
            prepared.run([value])


def test_the_processor_is_the_only_device() -> None:
    assert harness.backend.supports_device("CPU")
    assert not harness.backend.supports_device("CUDA")

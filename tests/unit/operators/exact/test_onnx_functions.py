"""A definition as an ONNX function has the same values in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from harness.operators import by_onnx_name
from harness.operators.exact.evaluation import Evaluation
from harness.operators.exact.expression import DefinitionError, argument, bits, from_bits, select, unary
from harness.operators.exact.onnx_functions import function_of
from harness.operators.pointwise import Approximated, Pointwise

OPERATORS = sorted({operator for operator in by_onnx_name().values() if issubclass(operator, Pointwise)}, key=str)
NUMBERS = np.random.default_rng(1).normal(0, 4, 1 << 12).astype(np.float32)


def values(function: onnx.FunctionProto, x: np.ndarray) -> np.ndarray:
    """Return what ONNX Runtime computes by the function, (n,), with the attributes' defaults."""
    node = helper.make_node(function.name, ["x"], ["y"], domain=function.domain)
    tensors = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([node], "graph", tensors[:1], tensors[1:])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid(function.domain, 1)]
    model = helper.make_model(graph, functions=[function], opset_imports=domains, ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_the_function_of_a_definition_has_its_values(operator: type[Pointwise]) -> None:
    function = function_of(("example", "Other"), operator.definition, ["x"], operator.defaults, 17)
    x = np.abs(NUMBERS) if operator.least >= 0 else NUMBERS
    numbers = {name: np.float32(number) for name, number in operator.defaults.items()}
    right = Evaluation(operator.definition)({"x": x, **numbers})
    own = values(function, x)
    if issubclass(operator, Approximated):
        np.testing.assert_allclose(own, right, rtol=2e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(own.view(np.uint32), right.view(np.uint32))


def test_the_function_of_an_argument_is_the_identity() -> None:
    function = function_of(("example", "Other"), argument("x"), ["x"], {}, 17)
    np.testing.assert_array_equal(values(function, NUMBERS), NUMBERS)


def test_attributes_that_a_node_does_not_state_are_the_defaults() -> None:
    x, bound = argument("x"), argument("bound")
    function = function_of(("example", "Other"), select(x > bound, bound, x), ["x"], {"bound": 1.5}, 17)
    np.testing.assert_array_equal(values(function, NUMBERS), np.minimum(NUMBERS, np.float32(1.5)))


@pytest.mark.parametrize("operation", ["truncate", "bits"])
def test_an_operation_that_onnx_does_not_have_is_refused(operation: str) -> None:
    x = argument("x")
    definition = unary("truncate", x) if operation == "truncate" else from_bits(bits(x) & 0xFFFFFF00)
    with pytest.raises(DefinitionError, match="state as_function"):
        function_of(("example", "Other"), definition, ["x"], {}, 17)


def test_arguments_are_in_the_order_of_the_node() -> None:
    one, other = argument("one"), argument("other")
    function = function_of(("example", "Other"), other - one, ["one", "other"], {}, 17)
    assert list(function.input) == ["one", "other"]
    assert list(function.node[0].input) == ["other", "one"]

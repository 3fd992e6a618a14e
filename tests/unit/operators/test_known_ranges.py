"""Ranges of activations, from which Sqrt, Log, Pow and Div know that a network gives them no wrong number."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from harness.core.errors import RequestError
from harness.model import parse
from harness.model.network import Network
from harness.operators import by_onnx_name
from harness.operators.base import Layer
from harness.reference.specification import SpecificationReference
from tests.support.builders import make_model
from tests.support.codes import node
from tests.support.functions import inputs

WIDTH = 6
CONSTANTS: dict[str, Any] = {
    "one": np.float32(1),
    "two": np.float32(2),
    "half": np.float32(0.5),
    "epsilon": np.float32(1e-5),
    "least": np.float32(-0.25),
    "most": np.float32(0.75),
    "tenth": np.float32([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
    "axis": np.array([1], np.int64),
    "weights": np.eye(WIDTH, dtype=np.float32),
}


def network(nodes: list[onnx.NodeProto], width: int = WIDTH) -> Network:
    used = {name for each in nodes for name in each.input}
    given = {name: value for name, value in CONSTANTS.items() if name in used}
    return parse(make_model(nodes, given, {"y": ("float32", width)}, width=WIDTH).SerializeToString(), "ranges")


SQUARE = node("Mul", "x", "x", output="square")
ACCEPTED = {
    "log(exp(x) + 1)": [node("Exp", "x", output="e"), node("Add", "e", "one", output="s"), node("Log", "s")],
    "sqrt(x * x + 1)": [SQUARE, node("Add", "square", "one", output="s"), node("Sqrt", "s")],
    "root of a mean square": [
        SQUARE, node("ReduceMean", "square", "axis", output="m"), node("Add", "m", "epsilon", output="s"),
        node("Sqrt", "s", output="root"), node("Div", "x", "root"),
    ],
    "a variance": [
        node("ReduceMean", "x", "axis", output="m"), node("Sub", "x", "m", output="d"),
        node("Pow", "d", "two", output="square"), node("ReduceMean", "square", "axis", output="v"),
        node("Add", "v", "epsilon", output="s"), node("Sqrt", "s", output="deviation"), node("Div", "d", "deviation"),
    ],
    "sqrt(1 - sigmoid(x))": [node("Sigmoid", "x", output="p"), node("Sub", "two", "p", output="q"), node("Sqrt", "q")],
    "a clipped number": [node("Clip", "x", "epsilon", "most", output="c"), node("Log", "c")],
    "a magnitude": [node("Abs", "x", output="a"), node("Pow", "a", "half")],
    "moved magnitudes": [
        node("Abs", "x", output="a"), node("Mul", "a", "tenth", output="b"), node("Max", "b", "a", output="c"),
        node("Sqrt", "c"),
    ],
    **{name: [node(name, "x", output="p"), node("Sqrt", "p")] for name in ("Relu", "Exp", "Sigmoid", "Softplus")},
    "Softmax": [node("Softmax", "x", output="p", axis=1), node("Log", "p")],
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_network_whose_values_are_in_the_range_is_read_and_computes_no_nan(name: str) -> None:
    net = network(ACCEPTED[name])
    x = np.clip(inputs(WIDTH), -1e15, 1e15)
    for values in SpecificationReference(net).activations(x):
        assert not np.isnan(values).any()


REFUSED = {
    "the input": ([node("Sqrt", "x")], "'x', which are between -3.40282e.38 and 3.40282e.38"),
    "a product of two": ([node("Neg", "x", output="n"), node("Mul", "x", "n", output="m"), node("Log", "m")], "'m'"),
    "a clipped number": ([node("Clip", "x", "least", "most", output="c"), node("Sqrt", "c")], "between -0.25 and 0.75"),
    "a difference": ([node("Abs", "x", output="a"), node("Sub", "a", "one", output="d"), node("Log", "d")], "'d'"),
    "one column": ([node("Clip", "x", "least", "most", output="c"), node("Add", "c", "tenth", output="d"),
                    node("Sqrt", "d")], "between -0.15"),
    "a sum of products": ([node("Abs", "x", output="a"), node("MatMul", "a", "weights", output="d"),
                           node("Sqrt", "d")], "'d'"),
    "a power": ([node("Pow", "x", "half")], "an input of at least 0|between"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_number_that_can_be_negative_is_refused_with_its_range(name: str) -> None:
    nodes, message = REFUSED[name]
    with pytest.raises(RequestError, match=f"node 'y' .*result can be NaN.*{message}") as caught:
        network(nodes)
    assert caught.value.hint == "an input of at least 0: Clip it, or take its Relu or Abs"


def test_a_divisor_that_can_be_zero_is_refused() -> None:
    with pytest.raises(RequestError, match="its divisor can be 0, 'square'"):
        network([SQUARE, node("Div", "x", "square")])


def test_an_exponent_without_a_definition_is_refused() -> None:
    with pytest.raises(RequestError, match=r"its exponent is 0\.75, of which ONNX does not fix the bits") as caught:
        network([node("Abs", "x", output="a"), node("Pow", "a", "most")])
    assert "one of 1, 2, 3, -1, 0.5, -0.5" in caught.value.hint
    with pytest.raises(RequestError, match="the exponent has shape"):
        network([node("Abs", "x", output="a"), node("Pow", "a", "tenth")])


def test_the_first_power_moves_nothing() -> None:
    [layer] = network([node("Pow", "x", "one")]).layers
    x = inputs(WIDTH)
    assert layer.prepare()(x).tobytes() == x.tobytes()


@pytest.mark.parametrize("operator", sorted({*by_onnx_name().values()}, key=lambda kind: kind.__name__))
def test_a_stated_range_is_that_of_all_values(operator: type[Layer]) -> None:
    least = getattr(operator, "least_output", -np.inf)
    if least == -np.inf:
        return
    net = network([node(name, "x") for _, name in operator.ONNX])
    [values] = SpecificationReference(net).activations(inputs(WIDTH, 2000))
    assert (values.min() >= least, net.layers[0].errors.least) == (True, least)

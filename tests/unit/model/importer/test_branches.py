"""Loop and Scan whose steps depend on no data, against ONNX Runtime, and those that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import harness.backend
from harness.core.errors import RequestError
from harness.model.importer.simplify import simplify

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def value(name: str, *shape: Any, kind: int = FLOAT) -> onnx.ValueInfoProto:
    """Return a value of a graph."""
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    node: onnx.NodeProto, constants: dict[str, Any], outputs: list[onnx.ValueInfoProto], *states: int
) -> onnx.ModelProto:
    """Return a model of one node, which reads x (2, 3, 4) and s, a state of this shape."""
    read = [each for each in (value("x", 2, 3, 4), value("s", *states)) if each.name in node.input]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph([node], "control", read, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def loop(count: int, *, condition: str = "Identity") -> onnx.ModelProto:
    """Return a Loop that adds its number and a weight to s, and writes the products with it."""
    nodes = [
        helper.make_node("Cast", ["number"], ["n"], to=FLOAT),
        helper.make_node("Mul", ["n", "weight"], ["m"]),
        helper.make_node("Add", ["before", "m"], ["after"]),
        helper.make_node("Mul", ["after", "before"], ["product"]),
        helper.make_node("Identity", ["holds"], ["next"])
        if condition == "Identity"
        else helper.make_node("Less", ["number", "last"], ["next"]),
    ]
    tensors = [numpy_helper.from_array(np.arange(4, dtype=np.float32), "weight"),
               numpy_helper.from_array(np.array(1), "last")]  # fmt: skip
    body = helper.make_graph(
        nodes, "body",
        [value("number", kind=INT64), value("holds", kind=BOOL), value("before", 4)],
        [value("next", kind=BOOL), value("after", 4), value("product", 4)],
        tensors,
    )  # fmt: skip
    node = helper.make_node("Loop", ["count", "true", "s"], ["last_s", "products"], "loop", body=body)
    outputs = [value("last_s", 4), value("products", count, 4)]
    return model(node, {"count": np.array(count), "true": np.array(True)}, outputs, 4)


def scan(**attributes: Any) -> onnx.ModelProto:
    """Return a Scan along the second axis of x, whose state is s, and which writes its sums."""
    nodes = [helper.make_node("Add", ["before", "row"], ["after"]), helper.make_node("Relu", ["after"], ["kept"])]
    body = helper.make_graph(
        nodes, "body", [value("before", 2, 4), value("row", 2, 4)], [value("after", 2, 4), value("kept", 2, 4)]
    )
    node = helper.make_node("Scan", ["s", "x"], ["sums", "all"], "scan", body=body, num_scan_inputs=1,
                            scan_input_axes=[1], **attributes)  # fmt: skip
    return model(node, {}, [value("sums", 2, 4), value("all", None, None, None)], 2, 4)


MODELS = {
    "a loop of one step": lambda: loop(1),
    "a loop": lambda: loop(4),
    "a scan": scan,
    "a reversed scan": lambda: scan(scan_input_directions=[1]),
    "a scan whose output is reversed, along another axis": lambda: scan(
        scan_output_directions=[1], scan_output_axes=[1]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_known_steps_have_the_values_of_onnx_runtime(name: str) -> None:
    network = MODELS[name]()
    random = np.random.default_rng(1)
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {each.name: random.normal(size=each.shape).astype(np.float32) for each in session.get_inputs()}
    for ours, theirs in zip(harness.backend.prepare(network).run(inputs), session.run(None, inputs), strict=True):
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs)


def choice(*shape: int) -> onnx.ModelProto:
    """Return an If of a sum, whose branches write s, and values of this shape."""
    branches = {
        "then_branch": helper.make_graph([helper.make_node("Relu", ["s"], ["one"])], "one", [], [value("one", 4)]),
        "else_branch": helper.make_graph(
            [], "other", [], [value("constant", *shape)],
            [numpy_helper.from_array(np.ones(shape, np.float32), "constant")],
        ),
    }  # fmt: skip
    network = model(helper.make_node("If", ["holds"], ["y"], "choice", **branches), {"zero": np.float32(0)},
                    [value("y", None)], 4)  # fmt: skip
    network.graph.input.append(value("s", 4))
    sums = [helper.make_node("ReduceSum", ["s"], ["sum"], keepdims=0),
            helper.make_node("Greater", ["sum", "zero"], ["holds"])]  # fmt: skip
    nodes = [*sums, *network.graph.node]
    del network.graph.node[:]
    network.graph.node.extend(nodes)
    return network


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_that_depends_on_the_data_chooses(sign: int) -> None:
    s = np.array([1, -0.5, 2, 0.25], np.float32) * np.float32(sign)
    expected = np.maximum(s, 0) if sign > 0 else np.ones(4)
    [output] = harness.backend.prepare(choice(4)).run([s])
    np.testing.assert_array_equal(output.reshape(4), expected)


def test_branches_of_other_shapes_stay() -> None:
    assert "If" in {node.op_type for node in simplify(choice(1), "choice").model.graph.node}


def test_a_loop_whose_condition_depends_on_its_number_stays() -> None:
    simplified = simplify(loop(4, condition="Less"), "loop")
    assert "Loop" in {node.op_type for node in simplified.model.graph.node}


def test_too_many_steps_are_refused() -> None:
    with pytest.raises(RequestError, match="its 4,096 steps have 5 nodes each"):
        simplify(loop(1 << 12), "loop")


def test_constants_of_one_name_in_two_branches_stay_apart() -> None:
    def branch(number: int) -> onnx.GraphProto:
        weight = numpy_helper.from_array(np.full(4, number, np.float32), "weight")
        node = helper.make_node("Add", ["s", "weight"], [f"sum_{number}"])
        return helper.make_graph([node], "branch", [], [value(f"sum_{number}", 1, 4)], [weight])

    both = model(helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2)), {},
                 [value("y", 1, 4)])  # fmt: skip
    nodes = [helper.make_node("ReduceSum", ["s"], ["total"], keepdims=0),
             helper.make_node("Greater", ["total", "zero"], ["c"]), *both.graph.node]  # fmt: skip
    del both.graph.node[:]
    both.graph.node.extend(nodes)
    both.graph.input.append(value("s", 1, 4))
    both.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    simplified = simplify(both, "branches")
    simplified.check()
    assert all(node.op_type != "If" for node in simplified.model.graph.node)

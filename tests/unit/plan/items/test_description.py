"""What the items of a plan say, against the paper's example and word by word."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from harness.model.network import Network
from harness.operators.qgemm import QGemm
from harness.plan.items.description import describe, describe_network, refined, traces
from harness.plan.items.graphs import External, Get, Graph, Instruction, Operation, Send, Shared, Variable
from harness.plan.plan import Plan
from tests.support.builders import make_model
from tests.support.nnef import plans
from tests.support.programs.board_program import parse


def steps(graph: Graph) -> list[Instruction]:
    """Without inputs and parameters."""
    return [entry for entry in graph.instructions if not isinstance(entry, External | Variable)]


def words(graph: Graph) -> list[str]:
    """Operations by their tensors, what is sent and got by arrows."""
    told = {Send: ">", Get: "<", Operation: ""}
    return [f"{told[type(e)]}{e.data if isinstance(e, Send) else e.output}" for e in steps(graph)]  # type: ignore[union-attr]


def test_the_papers_example_5_in_three_items() -> None:
    plan = plans.make("branches")
    one, two, three = describe(plan).items
    assert [words(item) for item in (one, two, three)] == [
        ["e1", "o1", ">o1", "<o3", "<o5", "o6", "o7", "out", "advisory"],
        ["<o1", "o2", "o3", ">o3"],
        ["<o1", "o4", "o5", ">o5"],
    ]
    assert (one.item, one.name) == ("prepost", "NETWORK_prepost")
    assert (one.inputs, one.outputs) == (("x", "vsync_o3", "vsync_o5"), ("vsync_o1", "advisory"))
    assert (two.inputs, two.outputs) == (("vsync_o1",), ("vsync_o3",))
    assert [shared.name for shared in one.shared] == ["vsync_o1", "vsync_o3", "vsync_o5"]
    assert Send("vsync_o1", ("network", "third"), "o1") in one.instructions
    assert Get("o5", "third", "vsync_o5") in one.instructions
    assert not any(isinstance(entry, External) for entry in two.instructions)


def test_parts_of_a_layer_have_their_own_slices_and_their_reader_takes_them_side_by_side() -> None:
    plan = plans.make("argmax", split=("layer_0=network+prepost+third",))
    told = describe(plan)
    layer = plan.network.layers[1]
    assert isinstance(layer, QGemm)
    parts = [f"layer_0_{number}" for number in range(3)]
    for number, part in enumerate(parts):
        (item,) = (item for item in told.items if part in words(item))
        (operation,) = (e for e in steps(item) if isinstance(e, Operation) and e.output == part)
        assert dict(operation.attributes)["columns"] == (2 * number, 2 * number + 2)
        weights = told.parameters[f"parameters/{part}__weights"]
        np.testing.assert_array_equal(weights, layer.weights[:, 2 * number : 2 * number + 2], strict=True)
        assert Shared(f"vsync_{part}", (1, 2)) in item.shared or "layer_1" in words(item)
    reader = next(e for e in refined(plan).instructions if isinstance(e, Operation) and e.output == "layer_1")
    assert reader.inputs[0] == tuple(parts)
    assert traces(plan)["layer_0_1"] == "QGemm, ONNX node 'layer_0', columns 2 to 3"
    assert words(refined(plan)) == ["quantize", *parts, "layer_1", "dequantize", "advisory"]
    assert refined(plan).outputs == ("advisory",)
    assert refined(plans.make("per_column")).outputs == ("layer_1_0", "layer_1_1", "layer_1_2")


def test_all_constants_of_a_layer_appear() -> None:
    plan = plans.make("per_column", split=())
    graph, parameters = describe_network(plan.network)
    layer = plan.network.layers[1]
    assert isinstance(layer, QGemm)
    assert layer.scales.y is not None
    operation = next(e for e in graph.instructions if isinstance(e, Operation) and e.output == "layer_0")
    assert operation.operation == "qgemm"
    assert dict(operation.attributes) == {
        "alpha": float(np.float32(0.7)), "a_scale": float(layer.scales.a), "a_zero_point": layer.a_zero_point,
        "y_scale": float(layer.scales.y), "y_zero_point": layer.y_zero_point, "low": 0, "high": 255,
        "columns": (0, 8), "type": "uint8",
    }  # fmt: skip
    tables = [parameters[f"parameters/{name}"] for name in operation.tensors[1:]]
    expected = [layer.weights, layer.weights_zero_point, layer.bias, layer.multiplier, layer.scales.b]
    for found, wanted in zip(tables, expected, strict=True):
        assert (found.dtype, found.tobytes(), found.ndim) == (wanted.dtype, wanted.tobytes(), 2)


@pytest.mark.parametrize("name", plans.MODELS)
def test_every_task_is_computed_once_and_every_value_is_given_before_it_is_read(name: str) -> None:
    plan = plans.make(name)
    told = describe(plan)
    computed = [word for item in told.items for word in words(item) if word[0] not in "<>"]
    assert sorted(computed) == sorted(task.name for task in plan.tasks)
    for graph in (told.network, refined(plan), *told.items):
        known: set[str] = set()
        for entry in graph.instructions:
            if isinstance(entry, Operation):
                assert known.issuperset(entry.tensors)
            known.add(entry.shared if isinstance(entry, Send) else entry.output)
        assert known.issuperset(graph.outputs)


def odd(input_name: str, *nodes: str) -> Network:
    constants = {"scale": np.float32(0.1), "zero_point": np.array(0, np.uint8)}
    made = [helper.make_node("QuantizeLinear", [input_name, "scale", "zero_point"], ["t0"], name=nodes[0])]
    operators = ["DequantizeLinear", "QuantizeLinear"]
    for index, node in enumerate(nodes[1:]):
        inputs = [f"t{index}", "scale", "zero_point"]
        made.append(helper.make_node(operators[index % 2], inputs, [f"t{index + 1}"], name=node))
    kind = "uint8" if len(nodes) % 2 else "float32"
    model = make_model(made, constants, {f"t{len(nodes) - 1}": (kind, 2)}, width=2)
    model.graph.input[0].name = input_name
    return parse(model)


def test_names_that_nnef_keeps_for_itself_or_cannot_write_are_changed() -> None:
    net = odd("in:0", "graph", "it's \"", "string")
    graph, _ = describe_network(net)
    assert (graph.inputs, graph.outputs) == (("in_0",), ("string_",))
    assert words(graph) == ["graph_", "it_s", "string_"]
    assert words(describe_network(odd("x", "concat"))[0]) == ["concat_"]
    assert describe_network(odd("in", "a"))[0].inputs == ("in_",)
    assert describe_network(odd("0", "a"))[0].inputs == ("x_0",)
    assert describe_network(odd("a", "a"))[0].inputs == ("x_a",)
    assert describe_network(odd("a_1", "a"))[0].inputs == ("x_a_1",)


def test_a_shared_variable_is_called_like_no_layer() -> None:
    plan = plans.planner.make(odd("x", "a", "vsync_a"), plans.board(), split=["vsync_a=network"])
    assert describe(plan).items[1].shared == (Shared("vsync_a_", (1, 2)),)
    assert isinstance(plan, Plan)

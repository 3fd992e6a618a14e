"""Facts of graphs: against ONNX's own shape inference and test cases, symbols, hints, and contradictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import operators
from harness.core.errors import RequestError
from harness.core.installation import ROOT
from harness.model.analysis import analyse, decode, parse_hint
from harness.model.analysis.propagation import propagate
from harness.operators import by_onnx_name, has_rules
from harness.operators.base import Layer
from harness.operators.relu import Relu
from harness.operators.rules_of_others import RULES
from harness.operators.sizes import Size
from harness.operators.tensor_facts import Fact
from tests.campaigns.misra.check import NETWORKS, network
from tests.support.dags import random_float_graph
from tests.support.examples import count
from tests.support.mutated_graphs import mutants

SHIPPED = sorted(path.stem for path in (ROOT / "models").glob("*.onnx"))


def graph(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[Any] | None], constants: dict[str, Any], **options: Any
) -> onnx.ModelProto:
    """A model whose inputs are float32 of these shapes; the output of the last node is its only one."""
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", options.get("opset", 17))], ir_version=8)


def without_stated_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("operator", sorted({*operators.by_onnx_name().values()}, key=lambda each: each.__name__))
def test_every_operator_states_rules(operator: type[Layer]) -> None:
    assert operators.has_rules(operator)


def test_an_operator_without_rules_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.operators.relu.Comparison.rules", Layer.rules)
    assert not operators.has_rules(Relu)
    found = analyse(graph([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": [2]}, {}))
    assert [(each.node, each.kind, each.reason) for each in found.findings[:1]] == [
        ("relu", "not_analysed", "Relu has no rules")
    ]
    assert not found.is_complete


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_layers_of_every_operator_have_the_shapes_that_harness_reads(name: str) -> None:
    read = network(name)
    propagation = propagate(without_stated_shapes(onnx.load_model_from_string(read.onnx_bytes)))
    assert not propagation.contradictions
    for layer in read.layers:
        fact = propagation.facts.of(layer.output.name)
        assert fact.rank == 1 + len(layer.output.shape), layer.name
        assert [fact.sizes[axis].constant for axis in range(1, fact.rank)] == [*layer.output.shape], layer.name
        assert fact.type == helper.np_dtype_to_tensor_dtype(layer.dtype), layer.name


def shapes_of(fact: Fact) -> list[int | None] | None:
    if fact.rank is None:
        return None
    return [size.constant if (size := fact.sizes.get(axis)) else None for axis in range(fact.rank)]


def assert_knows_what_onnx_infers(model: onnx.ModelProto) -> int:
    """ONNX's shape inference finds no type or size that the analysis lacks; return the number of compared tensors."""
    model, compared = without_stated_shapes(model), 0
    propagation = propagate(model)
    assert not propagation.contradictions
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        stated, fact = value.type.tensor_type, propagation.facts.of(value.name)
        if stated.elem_type:
            assert fact.type == stated.elem_type, value.name
        if stated.HasField("shape"):
            compared += 1
            ours = shapes_of(fact)
            assert ours is not None, value.name
            theirs = [each.dim_value if each.HasField("dim_value") else None for each in stated.shape.dim]
            assert len(ours) == len(theirs), value.name
            assert all(other is None or own == other for own, other in zip(ours, theirs, strict=True)), value.name
    return compared


@pytest.mark.slow
@pytest.mark.half_of_cases
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_networks_have_the_shapes_that_onnx_infers(name: str) -> None:
    model = onnx.load(ROOT / "models" / f"{name}.onnx")
    assert_knows_what_onnx_infers(model)
    assert analyse(model).is_complete


def test_random_graphs_have_the_shapes_that_onnx_infers() -> None:
    graphs = (random_float_graph(np.random.default_rng(seed), 12) for seed in range(count(40)))
    assert sum(map(assert_knows_what_onnx_infers, graphs)) > 20


def node_cases() -> Iterator[tuple[Any, onnx.ModelProto]]:
    """ONNX's own test cases of single nodes whose operators have rules."""
    from onnx.backend.test.case.node import collect_testcases

    known = {name for domain, name in operators.by_onnx_name() if not domain} | {*RULES}
    for case in collect_testcases(None):
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in known and case.data_sets:
            yield case, case.model


UNKNOWN = (
    *("test_nonzero_example", "test_range_bfloat16_type_positive_delta"),
    *("test_identity_sequence", "test_identity_opt"),
)
"""The cases whose shapes depend on values, or that have other things than tensors."""


@pytest.mark.campaign
def test_the_cases_of_onnx_have_the_shapes_that_it_states() -> None:
    compared = 0
    for case, model in node_cases():
        if case.name in UNKNOWN or "_not_" in case.name:  # Resize that keeps the ratio of the sizes
            continue
        arrays = [
            (value.name, np.asarray(each)) for value, each in zip(model.graph.input, case.data_sets[0][0], strict=False)
        ]
        hints = [(name, "value", each) for name, each in arrays if each.dtype.kind in "iuf" and each.ndim < 2]
        bare = without_stated_shapes(onnx.ModelProto.FromString(model.SerializeToString()))
        propagation = propagate(bare, hints)
        assert not propagation.contradictions, case.name
        for value in model.graph.output:
            stated = [each.dim_value for each in value.type.tensor_type.shape.dim]
            assert shapes_of(propagation.facts.of(value.name)) == stated, case.name
            assert propagation.facts.of(value.name).type == value.type.tensor_type.elem_type, case.name
            compared += 1
    assert compared > 900


@pytest.mark.campaign
def test_the_networks_in_the_package_of_onnx_have_the_shapes_that_it_infers() -> None:
    files = sorted((Path(onnx.__file__).parent / "backend/test/data").rglob("*.onnx"))
    models = [onnx.load(file, load_external_data=False) for file in files]
    known = [model for model in models if not propagate(model).unanalysed]  # others have sequences or strings
    compared = [*map(assert_knows_what_onnx_infers, known)]
    assert len(compared) > 130
    assert sum(compared) > 4000


def conv(**attributes: Any) -> list[onnx.NodeProto]:
    return [helper.make_node("Conv", ["x", "w"], ["y"], "conv", **attributes)]


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({}, "[N, 8, H - 2, W - 2]"),
        ({"strides": [2, 2], "pads": [1, 1, 1, 1]}, "[N, 8, floor((H + 1)/2), floor((W + 1)/2)]"),
        ({"strides": [2, 2], "auto_pad": "SAME_UPPER"}, "[N, 8, H - floor(H/2), W - floor(W/2)]"),
    ],
)
def test_sizes_have_symbols(attributes: dict[str, Any], shape: str) -> None:
    model = graph(conv(**attributes), {"x": ["N", 3, "H", "W"]}, {"w": np.zeros((8, 3, 3, 3), np.float32)})
    assert analyse(model).edges["y"].shape == shape


def test_symbols_are_followed_through_a_shape_and_solved_by_a_product() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], "gather"),
        helper.make_node("Concat", ["batch", "rest"], ["target"], "concat", axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"], "reshape"),
        helper.make_node("MatMul", ["flat", "w"], ["y"], "product"),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([-1]), "w": np.zeros((48, 5), np.float32)}
    found = analyse(graph(nodes, {"x": ["N", 3, 4, "W"]}, constants))
    assert found.edges["shape"].value == "[N, 3, 4, 4]"
    assert found.edges["target"].value == "[N, -1]"
    assert (found.edges["x"].shape, found.edges["y"].shape) == ("[N, 3, 4, 4]", "[N, 5]")
    assert found.symbols == {"W": "4"}
    assert found.is_complete


def test_facts_go_backward() -> None:
    nodes = [helper.make_node("Pad", ["x", "pads"], ["padded"], "pad"), helper.make_node("Add", ["padded", "b"], ["y"])]
    model = graph(nodes, {"x": None}, {"pads": np.array([1, 0, 2, 0]), "b": np.zeros(1, np.float32)})
    hints = [parse_hint("y:shape=7,4", model)]
    assert analyse(model).edges["x"].shape == "[_, _]"
    assert not analyse(model).is_complete
    assert analyse(model, hints).is_complete
    assert analyse(model, hints).edges["x"].shape == "[4, 4]"
    assert analyse(model, hints).edges["b"].type == "float32"


@pytest.mark.parametrize(
    ("text", "shape", "kind"),
    [
        ("x:shape=1,3,H,_", "[1, 3, H, _]", "float32"),
        ("x:shape=1,..", "[1, ..]", "float32"),
        ("x:value=1,2.5", "[2]", "float32"),
        ("x:type=float32", "[..]", "float32"),
    ],
)
def test_hints(text: str, shape: str, kind: str) -> None:
    model = graph([helper.make_node("Relu", ["x"], ["y"])], {"x": None}, {})
    edge = analyse(model, [parse_hint(text, model)]).edges["x"]
    assert (edge.shape, edge.type) == (shape, kind)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "fact 'x' has another form"),
        ("x:size=1", "fact 'x:size=1' has another form"),
        ("z:shape=1", "unknown tensor 'z'"),
        ("x:shape=1,-2", "fact 'x:shape=1,-2': '1,-2' is no shape"),
        ("x:type=float33", "fact 'x:type=float33': 'float33' is no type"),
        ("x:value=a", "fact 'x:value=a': 'a' is no value"),
    ],
)
def test_wrong_hints_are_refused(text: str, message: str) -> None:
    model = graph([helper.make_node("Relu", ["x"], ["y"])], {"x": None}, {})
    with pytest.raises(RequestError) as caught:
        parse_hint(text, model)
    assert caught.value.message == message


def test_a_contradiction_names_the_edge_the_node_and_both_rules() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Add", ["r", "b"], ["y"], "add")]
    found = analyse(graph(nodes, {"x": [1, 4]}, {"b": np.zeros(3, np.float32)}))
    [error] = [each for each in found.findings if each.severity == "error"]
    assert found.is_contradictory
    assert (error.node, error.edge) == ("add", "b")
    assert error.reason == (
        "tensor 'b': size 0 is 3 and 4; initializer 'b' says the first; "
        "the rule that fails is C.shape[1] = A.shape[-1] = B.shape[-1], where not 1 (node add)"
    )


def test_hints_can_contradict_the_file() -> None:
    model = graph([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": [2, 3]}, {})
    [error] = [each for each in analyse(model, [parse_hint("y:shape=2,4", model)]).findings if each.severity == "error"]
    assert "size 1 is 4 and 3; --fact y:shape says the first" in error.reason
    assert error.node == "relu"


@pytest.mark.slow
def test_planted_errors_are_reported_at_their_nodes() -> None:
    planted = [*mutants(200)]
    found = [(each.change, each.node, propagate(each.model).contradictions) for each in planted]
    assert [(change, node) for change, node, errors in found if not errors or errors[0].node != node] == []
    assert len({change for change, _, _ in found}) > 150


def test_subgraphs_are_named_as_not_analysed() -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"])],
        "branch",
        [],
        [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
    )
    nodes = [helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch, else_branch=branch)]
    found = analyse(graph(nodes, {"x": [2]}, {"c": np.array(True)}))
    assert ("choice", "If: its subgraphs are not analysed") in [(each.node, each.reason) for each in found.findings]
    assert found.edges["y"].shape == "[..]"


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (helper.make_node("Relu", ["x", "x"], ["y"], "n"), "has 2 inputs, Relu has 1 to 1"),
        (helper.make_node("Relu", [], ["y"], "n"), "has 0 inputs, Relu has 1 to 1"),
        (helper.make_node("Concat", ["x"], ["y"], "n", axis="a"), "another form than those of Concat"),
        (helper.make_node("Transpose", ["x"], ["y"], "n", perm=[0, 0]), "perm is [0, 0], of 2 axes"),
        (helper.make_node("Softmax", ["x"], ["y"], "n", axis=5), "axis 5 of 2 axes"),
        (helper.make_node("MaxPool", ["x"], ["y"], "n", kernel_shape=[2]), "a kernel of 1 axes for 0"),
        (helper.make_node("Conv", ["x", "x"], ["y"], "n", strides=[0]), "strides, dilations and pads are for 0 axes"),
    ],
)
def test_malformed_nodes_are_reported(node: onnx.NodeProto, problem: str) -> None:
    [error] = [each for each in analyse(graph([node], {"x": [2, 3]}, {})).findings if each.severity == "error"]
    assert error.node == "n"
    assert problem in error.reason


def test_tensors_that_are_not_written_or_written_twice_are_reported() -> None:
    nodes = [helper.make_node("Relu", ["b"], ["a"], "early"), helper.make_node("Relu", ["x"], ["b"], "late")]
    twice = helper.make_node("Neg", ["x"], ["b"], "twice")
    found = analyse(graph([*nodes, twice], {"x": [2, 3]}, {}))
    assert [
        (each.node, each.edge, each.reason.split(",")[0]) for each in found.findings if each.severity == "error"
    ] == [("early", "b", "it reads tensor 'b'"), ("twice", "b", "it writes tensor 'b'")]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "model 'm' is empty (0 bytes)"), (b"no model", "model 'm' is not an ONNX model, or is cut short (8 bytes)")],
)
def test_other_bytes_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode(content, "m")
    assert caught.value.message == message


def test_sizes_are_polynomials() -> None:
    h, w = Size.of("H"), Size.of("W")
    assert str(h * 3 * w - 2 + w * h) == "4*H*W - 2"
    assert (h * w * 6).exactly_divided(w * 2) == h * 3
    assert (h + 1).exactly_divided(w) is None
    assert str((h * 4 + 3) // 2) == "2*H + 1"
    assert str((h * 3 + 1) // 2) == "H + floor((H + 1)/2)"
    assert str((h + 1) // 2 // 3) == "floor((H + 1)/6)"
    for value in range(1, 9):
        assert ((h + 1) // 2 // 3).substituted({"H": Size.of(value)}).constant == (value + 1) // 2 // 3
        assert ((h * 3 + 1) // 2).substituted({"H": Size.of(value)}).constant == (3 * value + 1) // 2
        assert (-(-h // 3)).substituted({"H": Size.of(value)}).constant == -(-value // 3)


def test_values_of_a_default_that_a_caller_can_replace_are_not_followed() -> None:
    model = graph([helper.make_node("Neg", ["d"], ["y"])], {"d": [1]}, {"d": np.ones(1, np.float32)})
    assert analyse(model).edges["y"].value == ""
    model.ir_version = 3
    assert analyse(model).edges["y"].value == "[-1]"


def test_rules_of_other_operators_are_of_operators_without_own_rules() -> None:
    known = by_onnx_name()
    moved = {"Expand", "Tile", "SpaceToDepth", "DepthToSpace"}  # of one class, which takes the rules from there
    assert {name for name in RULES if ("", name) in known and has_rules(known["", name])} == moved

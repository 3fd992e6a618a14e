"""Constant folding: the figures of the TFDeploy report, the three strategies, and what must not be folded."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness.analysis.folded import verify
from harness.core.errors import RequestError
from harness.model.analysis import parse_hint
from harness.model.analysis.folding import STRATEGIES, Folding, Strategy, fold
from harness.model.analysis.propagation import propagate
from tests.support.analysed_graphs import figure_7, figure_8
from tests.support.examples import count


def folded(
    model: onnx.ModelProto, strategy: Strategy | None = None, hints: list[str] | None = None
) -> tuple[onnx.ModelProto, list[Folding]]:
    """The folded model, whose outputs ONNX Runtime finds unchanged."""
    propagation = propagate(model, [parse_hint(each, model) for each in hints or []])
    after, foldings = fold(model, propagation, strategy)
    onnx.checker.check_model(after)
    assert verify(model, after, propagation, 3, 1).vectors == 3
    return after, foldings


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def graph(nodes: list[onnx.NodeProto], constants: dict[str, Any], outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    facts = propagate(model).facts
    for value in model.graph.output:
        fact = facts.of(value.name)
        shape = [None] * (2 if fact.rank is None else fact.rank)
        value.CopyFrom(helper.make_tensor_value_info(value.name, fact.type or TensorProto.FLOAT, shape))
    return model


@pytest.mark.parametrize("strategy", ["sinks", "lca", None])
def test_figure_7_becomes_one_constant(strategy: Strategy | None) -> None:
    after, [folding] = folded(figure_7(), strategy)
    assert operators(after) == ["Relu", "Reshape"]
    assert folding.component.nodes == ("shape", "strided_slice", "pack")
    assert folding.component.sinks == ("target",)
    assert [numpy_helper.to_array(each).tolist() for each in after.graph.initializer] == [[61, -1]]
    assert folding.estimates["sinks"] == folding.estimates["lca"] < folding.estimates["none"]


def test_figure_8_is_kept_by_its_estimate_and_grows_by_the_other_strategies() -> None:
    after, [folding] = folded(figure_8())
    assert (folding.strategy, folding.removed) == ("none", ())
    assert operators(after) == ["Expand", "Add"]
    assert folding.estimates["sinks"] == folding.estimates["lca"] == 4_000_000 + 2 * len("fill")
    assert folding.estimates["none"] == 4 + 8 + len("fill" + "Expand" + "zero" + "dims") + len("zero" + "dims" + "fill")
    grown, _ = folded(figure_8(), "sinks")
    assert operators(grown) == ["Add"]
    assert grown.ByteSize() > 4_000_000


def diamond() -> onnx.ModelProto:
    """Large constants before a small one, from which two large ones are computed."""
    nodes = [
        helper.make_node("Neg", ["large"], ["negative"], "first"),
        helper.make_node("Slice", ["negative", "zero", "four", "zero"], ["small"], "slice"),
        helper.make_node("Expand", ["small", "wide"], ["left"], "left"),
        helper.make_node("Sign", ["left"], ["right"], "right"),
        helper.make_node("Add", ["x", "small"], ["a"], "a"),
        helper.make_node("Add", ["a", "left"], ["b"], "b"),
        helper.make_node("Add", ["b", "right"], ["y"], "y"),
    ]
    large = np.arange(500, dtype=np.float32)
    return graph(nodes, {"large": large, "zero": [0], "four": [4], "wide": [1000, 1, 4]})


def test_the_lowest_common_ancestor_stays_small_where_sinks_grow() -> None:
    after, [folding] = folded(diamond(), "lca")
    assert folding.component.sinks == ("small", "left", "right")
    assert (folding.removed, folding.folded) == (("first", "slice"), ("small",))
    assert operators(after) == ["Expand", "Sign", "Add", "Add", "Add"]
    assert folding.estimates["lca"] < folding.estimates["none"] < folding.estimates["sinks"]
    chosen, [best] = folded(diamond())
    assert best.strategy == "lca"
    assert chosen.ByteSize() == after.ByteSize() < diamond().ByteSize()


def test_components_without_a_common_ancestor_stay() -> None:
    nodes = [
        helper.make_node("Neg", ["p"], ["a"], "neg"),
        helper.make_node("Sqrt", ["q"], ["b"], "sqrt"),
        helper.make_node("Add", ["a", "b"], ["c"], "sum"),
        helper.make_node("Sum", ["x", "a", "b", "c"], ["y"], "y"),
    ]
    model = graph(nodes, {"p": np.ones(4, np.float32), "q": np.full(4, 2, np.float32)})
    _, [folding] = folded(model, "lca")
    assert folding.removed == ()
    after, [folding] = folded(model, "sinks")
    assert operators(after) == ["Sum"]


def random_constants(seed: int) -> onnx.ModelProto:
    """A random graph of constant and other nodes, some of whose constants are outputs."""
    rng = np.random.default_rng(seed)
    constants = {f"k{at}": rng.normal(size=4).astype(np.float32) for at in range(3)}
    known, mixed, nodes = [*constants], ["x"], []
    for at in range(int(rng.integers(6, 16))):
        pool, into = (known, known) if rng.random() < 0.6 else (known + mixed, mixed)
        inputs = [str(rng.choice(pool)), str(rng.choice(pool if into is known else mixed))]
        nodes.append(helper.make_node(str(rng.choice(["Add", "Sub", "Mul"])), inputs, [f"t{at}"], f"n{at}"))
        into.append(f"t{at}")
    nodes.append(helper.make_node("Sum", [*mixed, known[-1]], ["y"], "y"))
    outputs = ("y", *(each for each in known[-2:] if each.startswith("t")))
    return graph(nodes, constants, tuple(dict.fromkeys(outputs)))


@pytest.mark.parametrize("seed", range(count(40)))
def test_random_graphs_keep_their_bits_by_every_strategy(seed: int) -> None:
    model = random_constants(seed)
    for strategy in (*STRATEGIES, None):
        after, foldings = folded(model, strategy)
        assert {value.name for value in after.graph.output} == {value.name for value in model.graph.output}
        if strategy == "sinks":
            left = {node.name for node in after.graph.node}
            assert not left & {name for each in foldings for name in each.component.nodes}


def test_random_operators_are_not_folded() -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["noise"], "noise", shape=[4], seed=1.0),
        helper.make_node("Mul", ["noise", "zero"], ["none"], "none"),
        helper.make_node("Add", ["x", "none"], ["y"], "y"),
    ]
    model = graph(nodes, {"zero": np.zeros(4, np.float32)})
    after, foldings = fold(model, propagate(model), "sinks")
    assert foldings == []
    assert operators(after) == ["RandomNormal", "Mul", "Add"]


def test_a_constant_that_a_subgraph_reads_stays_readable() -> None:
    output = helper.make_tensor_value_info("inner", TensorProto.FLOAT, ["N", 4])
    branch = helper.make_graph([helper.make_node("Add", ["x", "negative"], ["inner"])], "branch", [], [output])
    nodes = [
        helper.make_node("Neg", ["k"], ["negative"], "neg"),
        helper.make_node("ReduceMax", ["x"], ["most"], "most", keepdims=0),
        helper.make_node("Greater", ["most", "zero"], ["c"], "greater"),
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch, else_branch=branch),
    ]
    model = graph(nodes, {"k": np.ones(4, np.float32), "zero": np.float32(0)})
    after, [folding] = folded(model, "sinks")
    assert folding.folded == ("negative",)
    assert "Neg" not in operators(after)


def test_a_stated_size_folds_what_follows_from_it_and_fixes_the_input() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], "shape"),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"], "zeros"),
        helper.make_node("Add", ["x", "zeros"], ["y"], "y"),
    ]
    model = graph(nodes, {})
    assert folded(model, "sinks")[1] == []
    after, _ = folded(model, "sinks", ["x:shape=2,4"])
    assert operators(after) == ["Add"]
    assert [each.dim_value for each in after.graph.input[0].type.tensor_type.shape.dim] == [2, 4]


def test_a_changed_bit_is_a_bug_that_stops_the_command() -> None:
    model = diamond()
    propagation = propagate(model)
    propagation.facts.of("small").value = np.arange(4, dtype=np.float32)
    after, _ = fold(model, propagation, "sinks")
    with pytest.raises(RuntimeError, match="folding changes output 'y' according to ONNX Runtime"):
        verify(model, after, propagation, 1, 1)


def test_a_contradictory_graph_is_refused() -> None:
    model = graph([helper.make_node("Add", ["x", "k"], ["y"], "add")], {"k": np.zeros(4, np.float32)})
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros(3, np.float32), "k"))
    with pytest.raises(RequestError, match="node 'add' contradicts others: size 0 is 3 and 4"):
        fold(model, propagate(model), None)

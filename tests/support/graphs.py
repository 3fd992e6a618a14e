"""ONNX files that a viewer must show, also such that `harness` cannot run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = ["N", 4]


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE)


def model(
    nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.TensorProto] = (), output: str = "y", **options: object
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "graph", [value("x")], [value(output)], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **options)


def unsupported() -> onnx.ModelProto:
    """An operator of another domain, a local function, a graph in an attribute, and constants of all sources."""
    branch = helper.make_graph(
        [helper.make_node("Add", ["f", "half"], ["inner"], name="add")], "branch", [], [value("inner")]
    )
    body = helper.make_function(
        "custom", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"], name="add")],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Mystery", ["x"], ["m"], name="mystery", domain="custom", level=3, words=["a", "b"]),
        helper.make_node("Twice", ["m"], ["f"], name="twice", domain="custom"),
        helper.make_node("Constant", [], ["half"], name="half", value_float=0.5),
        helper.make_node("If", ["flag"], ["y"], name="if", then_branch=branch, else_branch=branch),
    ]
    flag = numpy_helper.from_array(np.array(True), "flag")
    return model(nodes, [flag], functions=[body])


def chain(count: int, name: Callable[[int], str] = "node_{}".format) -> onnx.ModelProto:
    """A chain of Gemm, Relu and Add, whose Adds also read an earlier result."""
    weights = numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")
    nodes, last, sums = [], "x", ["x"]
    for index in range(count):
        operator = ("Gemm", "Relu", "Add")[index % 3]
        reads = {"Gemm": [last, "w"], "Relu": [last], "Add": [last, sums[max(0, len(sums) - 1 - index % 5)]]}[operator]
        last = "y" if index == count - 1 else f"t{index}"
        nodes.append(helper.make_node(operator, reads, [last], name=name(index)))
        sums += [last] if operator == "Add" else []
    return model(nodes, [weights])

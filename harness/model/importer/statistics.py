"""Variances and softmax functions that a file states by other operators.

    E[x^2] - E[x]^2                        becomes E[(x - E[x])^2], which no rounding makes negative
    exp(x - max(x)) / sum(exp(x - max(x))) becomes Softmax, whose divisor is 1 at least

E, max and sum are along the same axes, which stay with size 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import numpy_helper

from harness.model.importer.replacement import Replacement, attributes_of, operators_of, replace_nodes
from harness.operators.node import domain_of


class _Graph:
    """The nodes of a graph by their outputs, and its constants."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes = {node.output[0]: node for node in graph.node if not domain_of(node)}
        self.constants = {tensor.name: tensor for tensor in graph.initializer}

    def numbers(self, tensor: str) -> list[float]:
        """Return the values of a small constant; none for another tensor."""
        constant = self.constants.get(tensor)
        if constant is None or len(constant.dims) > 1:
            return []
        return [float(value) for value in numpy_helper.to_array(constant).reshape(-1)]

    def operands(self, tensor: str, operator: str) -> list[str]:
        """Return the inputs of the node that writes the tensor; none for another operator."""
        node = self.nodes.get(tensor)
        return [] if node is None or node.op_type != operator else [*node.input]

    def squared(self, tensor: str) -> str:
        """Return the tensor of which this one is the square; empty if it is none."""
        product = self.operands(tensor, "Mul")
        if product and product[0] == product[1]:
            return product[0]
        power = self.operands(tensor, "Pow")
        return power[0] if power and self.numbers(power[1]) == [2] else ""

    def reduced(self, tensor: str, operator: str) -> tuple[str, list[float]]:
        """Return the input and the axes of a reduction that keeps axes of size 1; empty for another node."""
        inputs = self.operands(tensor, operator)
        if not inputs:
            return "", []
        stated = attributes_of(self.nodes[tensor])
        axes = self.numbers(inputs[1]) if len(inputs) > 1 else [*stated.get("axes", ())]
        return (inputs[0], axes) if axes and stated.get("keepdims", 1) else ("", [])


def _variance(to: Replacement, node: onnx.NodeProto, graph: _Graph) -> None:
    """Write a difference that is a variance."""
    of_squares, of_mean = node.input
    mean = graph.squared(of_mean)
    squares, axes = graph.reduced(of_squares, "ReduceMean")
    x = graph.squared(squares)
    if not x or graph.reduced(mean, "ReduceMean") != (x, axes):
        return
    distance = to.add("Sub", [x, mean])
    square = to.add("Mul", [distance, distance])
    to.nodes.append(onnx.NodeProto())
    to.nodes[-1].CopyFrom(graph.nodes[of_squares])
    to.nodes[-1].name = node.name
    to.nodes[-1].input[0] = square
    to.nodes[-1].output[0] = node.output[0]


def _softmax(to: Replacement, node: onnx.NodeProto, graph: _Graph) -> None:
    """Write a quotient that is a softmax function."""
    powers, total = node.input
    summed, axes = graph.reduced(total, "ReduceSum")
    difference = graph.operands(powers, "Exp")
    if summed != powers or len(axes) != 1 or not difference:
        return
    operands = graph.operands(difference[0], "Sub")
    if operands and graph.reduced(operands[1], "ReduceMax") == (operands[0], axes):
        to.add("Softmax", operands[:1], output=node.output[0], axis=int(axes[0]))


RESULTS: Mapping[str, str] = {"Sub": "E[x^2] - E[x]^2 is E[(x - E[x])^2]", "Div": "exp(x - max) / sum is Softmax"}
"""Notes of the replaced nodes, by their operators."""


def convert(model: onnx.ModelProto) -> list[str]:
    """Replace such nodes in place; return notes."""
    graph = _Graph(model.graph)
    rules = {
        "Sub": lambda to, node: _variance(to, node, graph),
        "Div": lambda to, node: _softmax(to, node, graph),
    }
    return [RESULTS[operator] for operator in operators_of(replace_nodes(model.graph, rules))]

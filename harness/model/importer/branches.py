"""Nodes of control flow, replaced by the nodes of their graphs.

If      the branch, if its condition is a constant; else both, and a choice of their outputs of one shape
Loop    a copy of the body for each iteration, if its count is a constant and its condition stays true
Scan    a copy of the body for each step, if the number of steps is known
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.numpy_helper

from harness.model.analysis.propagation import CONTROL_FLOW, Propagation, attribute_graphs
from harness.model.importer.added import Added, replace_nodes
from harness.model.importer.rewriting import attribute
from harness.operators.node import domain_of

MOST_NODES = 1 << 12
"""Nodes that the copies of a body have in all."""


def has_control_flow(graph: onnx.GraphProto) -> bool:
    """Return whether a node has graphs of its own."""
    return any(node.op_type in CONTROL_FLOW for node in graph.node)


def inline_branches(graph: onnx.GraphProto, propagation: Propagation) -> list[str]:
    """Replace the nodes that depend on no data; return their operators.  Raises RequestError for too many copies."""
    replaced: list[str] = []

    def replacement(place: int, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        write = WRITERS.get(node.op_type) if not domain_of(node) else None
        copies = Copies(graph, f"{node.name or node.op_type}_{place}", propagation=propagation)
        if write is None or not write(copies, node):
            return [node]
        replaced.append(node.op_type)
        return copies.nodes

    replace_nodes(graph, replacement)
    return replaced


@dataclass(eq=False, kw_only=True)
class Copies(Added):
    """The nodes that replace a node of control flow."""

    propagation: Propagation

    def body(self, graph: onnx.GraphProto, inputs: Sequence[str], number: int = 0) -> list[str]:
        """Add the nodes of a copy of a graph, which reads these inputs; return the names of its outputs."""
        prefix = f"{self.name}/{number}" if number else self.name
        names = dict(zip((value.name for value in graph.input), inputs, strict=True))
        known = {tensor.name for tensor in self.graph.initializer}
        for tensor in graph.initializer:  # all copies share them
            names[tensor.name] = f"{self.name}/{tensor.name}"
            if names[tensor.name] not in known:
                self.graph.initializer.add().CopyFrom(tensor)
                self.graph.initializer[-1].name = names[tensor.name]
        names |= {tensor: f"{prefix}/{tensor}" for node in graph.node for tensor in node.output if tensor}
        for node in graph.node:
            self.nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
            self.nodes[-1].name = f"{prefix}/{node.name or len(self.nodes)}"
            _rename(self.nodes[-1], names)
        return [names.get(value.name, value.name) for value in graph.output]

    def value(self, tensor: str) -> Any:
        """Return the number of a tensor that has one known value, else None."""
        value = self.propagation.facts.of(tensor).concrete if tensor else None
        return value.reshape(-1)[0] if value is not None and value.size == 1 else None

    def require_moderate(self, node: onnx.NodeProto, count: int, body: onnx.GraphProto) -> None:
        """Refuse too many copies."""
        if count * len(body.node) > MOST_NODES:
            reason = f"its {count:,} steps have {len(body.node)} nodes each"
            raise self.refusal(node, reason, f"at most {MOST_NODES:,} nodes in all")

    def join(self, values: Sequence[str], output: str, axis: int) -> None:
        """Write an output that has the values side by side along a new axis."""
        axes = self.constant([axis])
        rows = [self.add("Unsqueeze", [value, axes]) for value in values]
        self.add("Concat", rows, output, axis=axis)


def _if(copies: Copies, node: onnx.NodeProto) -> bool:
    """Write a branch, or both and a choice of their outputs; return False for outputs of other shapes or types."""
    condition = copies.value(node.input[0])
    branches = [attribute(node, name, None) for name in ("then_branch", "else_branch")]
    if condition is not None:
        for value, output in zip(copies.body(branches[not condition], ()), node.output, strict=True):
            copies.add("Identity", [value], output)
        return True
    kinds = [[value.type.SerializeToString() for value in branch.output] for branch in branches]
    sizes = [size for value in branches[0].output for size in value.type.tensor_type.shape.dim]
    is_fixed = all(value.type.tensor_type.HasField("shape") for value in branches[0].output)
    is_number = copies.propagation.facts.of(node.input[0]).rank == 0
    if kinds[0] != kinds[1] or not is_fixed or not all(size.dim_value for size in sizes) or not is_number:
        return False
    pairs = zip(copies.body(branches[0], (), 1), copies.body(branches[1], (), 2), strict=True)
    for pair, output in zip(pairs, node.output, strict=True):
        copies.add("Where", [node.input[0], *pair], output)
    return True


def _loop(copies: Copies, node: onnx.NodeProto) -> bool:
    """Write the iterations of a Loop; return False for a count or a condition that is no constant."""
    body, states = attribute(node, "body", None), list(node.input[2:])
    count = copies.value(node.input[0])
    starts = not node.input[1] or bool(copies.value(node.input[1]))
    scanned = len(node.output) - len(states)
    if count is None or not starts or not _stays_true(body) or (scanned and count < 1):
        return False
    copies.require_moderate(node, int(count), body)
    condition = copies.constant(True, bool)
    rows = []
    for number in range(int(count)):
        results = copies.body(body, [copies.constant(number), condition, *states], number + 1)
        states, row = results[1 : len(states) + 1], results[len(states) + 1 :]
        rows.append(row)
    _write(copies, node, states, rows)
    return True


def _stays_true(body: onnx.GraphProto) -> bool:
    """Return whether the condition after an iteration is that before it, or true."""
    writers = {tensor: node for node in body.node for tensor in node.output}
    constants = {tensor.name: tensor for tensor in body.initializer}
    name = body.output[0].name
    while name in writers and writers[name].op_type in ("Identity", "Cast"):
        name = writers[name].input[0]
    if name in writers and writers[name].op_type == "Constant":
        constants[name] = attribute(writers[name], "value", None)
    if constants.get(name) is not None:
        return bool(onnx.numpy_helper.to_array(constants[name]).all())
    return bool(name == body.input[1].name)


def _scan(copies: Copies, node: onnx.NodeProto) -> bool:
    """Write the steps of a Scan; return False for a number that is not known, and for the form of opset 8."""
    body, scanned = attribute(node, "body", None), int(attribute(node, "num_scan_inputs", 0))
    if len(node.input) != len(body.input):
        return False
    count = len(node.input) - scanned
    states, sources = list(node.input[:count]), node.input[count:]
    facts = [copies.propagation.facts.of(source) for source in sources]
    stated = attribute(node, "scan_input_axes", [0] * scanned)
    axes = [axis % fact.rank for axis, fact in zip(stated, facts, strict=True) if fact.rank]
    if len(axes) != scanned:
        return False
    sizes = {fact.sizes[axis].constant if axis in fact.sizes else None for axis, fact in zip(axes, facts, strict=True)}
    steps = sizes.pop()
    if sizes or not steps:
        return False
    copies.require_moderate(node, steps, body)
    directions = attribute(node, "scan_input_directions", [0] * scanned)
    rows = []
    for number in range(steps):
        places = [steps - 1 - number if is_reverse else number for is_reverse in directions]
        taken = [
            copies.add("Gather", [source, copies.constant(place)], axis=axis)
            for source, place, axis in zip(sources, places, axes, strict=True)
        ]  # fmt: skip
        results = copies.body(body, [*states, *taken], number + 1)
        states, row = results[:count], results[count:]
        rows.append(row)
    _write(copies, node, states, rows)
    return True


def _write(copies: Copies, node: onnx.NodeProto, states: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the last states, and the values of all steps side by side."""
    scanned = len(node.output) - len(states)
    axes = attribute(node, "scan_output_axes", [0] * scanned)
    directions = attribute(node, "scan_output_directions", [0] * scanned)
    for state, output in zip(states, node.output, strict=False):
        if output:
            copies.add("Identity", [state], output)
    for number, output in enumerate(node.output[len(states) :]):
        values = [row[number] for row in rows]
        if output:
            copies.join(values[::-1] if directions[number] else values, output, axes[number])


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for inner in attribute_graphs(node):
        for part in inner.node:
            _rename(part, names)
        for value in inner.output:
            value.name = names.get(value.name, value.name)


WRITERS = {"If": _if, "Loop": _loop, "Scan": _scan}

"""Nodes of control flow, replaced by the nodes of their graphs.

If      the branch, if its condition is a constant; else both, and a choice of their outputs of one shape
Loop    a copy of the body for each iteration, if its count is a constant and its condition stays true
Scan    a copy of the body for each step, if the number of steps is known
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnx.numpy_helper

from harness.model.analysis.propagation import CONTROL_FLOW, Propagation, attribute_graphs
from harness.model.importer.replacement import Replacement, Unknown, attribute, operators_of, replace_nodes

MOST_NODES = 1 << 12
"""Nodes that the copies of a body have in all."""


def has_control_flow(graph: onnx.GraphProto) -> bool:
    """Return whether a node has graphs of its own."""
    return any(node.op_type in CONTROL_FLOW for node in graph.node)


def inline_branches(graph: onnx.GraphProto, propagation: Propagation) -> list[str]:
    """Replace the nodes that depend on no data; return their operators.  Raises RequestError for too many to."""
    return operators_of(replace_nodes(graph, WRITERS, propagation))


def _copy(
    to: Replacement, graph: onnx.GraphProto, inputs: Sequence[str], part: str, shared: dict[str, str]
) -> list[str]:
    """Add the nodes of a copy of a graph, which reads these inputs; return the names of its outputs.

    Its names begin with `part`; all copies share initializers, which have the names `shared`.
    """
    for tensor in graph.initializer:
        if tensor.name not in shared:
            shared[tensor.name] = to.free(f"{to.name}/{tensor.name}")
            to.graph.initializer.add().CopyFrom(tensor)
            to.graph.initializer[-1].name = shared[tensor.name]
    names = shared | dict(zip((value.name for value in graph.input), inputs, strict=True))
    names |= {tensor: to.free(f"{to.name}/{part}{tensor}") for node in graph.node for tensor in node.output if tensor}
    for node in graph.node:
        to.nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
        to.nodes[-1].name = to.free(f"{to.name}/{part}{node.name or len(to.nodes)}")
        _rename(to.nodes[-1], names)
    return [names.get(value.name, value.name) for value in graph.output]


def _number(to: Replacement, tensor: str) -> Any:
    """Return the number of a tensor that has one known value, else None."""
    value = to.values(tensor) if tensor else None
    return value.reshape(-1)[0] if value is not None and value.size == 1 else None


def _require_moderate(to: Replacement, node: onnx.NodeProto, count: int, body: onnx.GraphProto) -> None:
    """Refuse too many to."""
    if count * len(body.node) > MOST_NODES:
        reason = f"its {count:,} steps have {len(body.node)} nodes each"
        raise to.refusal(node, reason, f"at most {MOST_NODES:,} nodes in all")


def _if(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a branch, or both and a choice of their outputs; raise Unknown for outputs of other shapes or types."""
    condition = _number(to, node.input[0])
    branches = [attribute(node, name, None) for name in ("then_branch", "else_branch")]
    if condition is not None:
        for value, output in zip(_copy(to, branches[not condition], (), "", {}), node.output, strict=True):
            to.add("Identity", [value], output=output)
        return
    kinds = [[value.type.SerializeToString() for value in branch.output] for branch in branches]
    sizes = [size for value in branches[0].output for size in value.type.tensor_type.shape.dim]
    is_fixed = all(value.type.tensor_type.HasField("shape") for value in branches[0].output)
    is_number = to.facts.of(node.input[0]).rank == 0
    if kinds[0] != kinds[1] or not is_fixed or not all(size.dim_value for size in sizes) or not is_number:
        raise Unknown(node.name)
    pairs = zip(*(_copy(to, branch, (), f"{number}/", {}) for number, branch in enumerate(branches, 1)), strict=True)
    for pair, output in zip(pairs, node.output, strict=True):
        to.add("Where", [node.input[0], *pair], output=output)


def _loop(to: Replacement, node: onnx.NodeProto) -> None:
    """Write the iterations of a Loop; raise Unknown for a count or a condition that is no constant."""
    body, states = attribute(node, "body", None), list(node.input[2:])
    count = _number(to, node.input[0])
    starts = not node.input[1] or bool(_number(to, node.input[1]))
    scanned = len(node.output) - len(states)
    if count is None or not starts or not _stays_true(body) or (scanned and count < 1):
        raise Unknown(node.name)
    _require_moderate(to, node, int(count), body)
    condition = to.constant(True, bool)
    rows, shared = [], dict[str, str]()
    for number in range(int(count)):
        results = _copy(to, body, [to.constant(number), condition, *states], f"{number + 1}/", shared)
        states, row = results[1 : len(states) + 1], results[len(states) + 1 :]
        rows.append(row)
    _write(to, node, states, rows)


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


def _scan(to: Replacement, node: onnx.NodeProto) -> None:
    """Write the steps of a Scan; raise Unknown for a number that is not known, and for the form of opset 8."""
    body, scanned = attribute(node, "body", None), int(attribute(node, "num_scan_inputs", 0))
    if len(node.input) != len(body.input):
        raise Unknown(node.name)
    count = len(node.input) - scanned
    states, sources = list(node.input[:count]), node.input[count:]
    facts = [to.facts.of(source) for source in sources]
    stated = attribute(node, "scan_input_axes", [0] * scanned)
    axes = [axis % fact.rank for axis, fact in zip(stated, facts, strict=True) if fact.rank]
    if len(axes) != scanned:
        raise Unknown(node.name)
    sizes = {fact.sizes[axis].constant if axis in fact.sizes else None for axis, fact in zip(axes, facts, strict=True)}
    steps = sizes.pop()
    if sizes or not steps:
        raise Unknown(node.name)
    _require_moderate(to, node, steps, body)
    directions = attribute(node, "scan_input_directions", [0] * scanned)
    rows, shared = [], dict[str, str]()
    for number in range(steps):
        places = [steps - 1 - number if is_reverse else number for is_reverse in directions]
        taken = [
            to.add("Gather", [source, to.constant(place)], axis=axis)
            for source, place, axis in zip(sources, places, axes, strict=True)
        ]  # fmt: skip
        results = _copy(to, body, [*states, *taken], f"{number + 1}/", shared)
        states, row = results[:count], results[count:]
        rows.append(row)
    _write(to, node, states, rows)


def _write(to: Replacement, node: onnx.NodeProto, states: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the last states, and the values of all steps side by side."""
    scanned = len(node.output) - len(states)
    axes = attribute(node, "scan_output_axes", [0] * scanned)
    directions = attribute(node, "scan_output_directions", [0] * scanned)
    for state, output in zip(states, node.output, strict=False):
        if output:
            to.add("Identity", [state], output=output)
    for number, output in enumerate(node.output[len(states) :]):
        values = [row[number] for row in rows]
        if output:
            ordered, axis = values[::-1] if directions[number] else values, axes[number]
            place = to.constant([axis])
            to.add("Concat", [to.add("Unsqueeze", [value, place]) for value in ordered], output=output, axis=axis)


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for inner in attribute_graphs(node):
        for part in inner.node:
            _rename(part, names)
        for value in inner.output:
            value.name = names.get(value.name, value.name)


WRITERS = {"If": _if, "Loop": _loop, "Scan": _scan}

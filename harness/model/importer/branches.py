"""The branch of an If whose condition is a constant, in the place of the If."""

from __future__ import annotations

import onnx
import onnx.helper

from harness.model.analysis.propagation import Propagation, attribute_graphs


def inline_branches(graph: onnx.GraphProto, propagation: Propagation) -> bool:
    """Replace each If of a known condition by the nodes of its branch; return whether there was one."""
    nodes = list(graph.node)
    branches = {}
    for place, node in enumerate(nodes):
        value = propagation.facts.of(node.input[0]).concrete if node.op_type == "If" else None
        if value is not None and value.size == 1:
            branch_name = "then_branch" if value.reshape(-1)[0] else "else_branch"
            branches[place] = next(entry.g for entry in node.attribute if entry.name == branch_name)
    copies = [[node] if place not in branches else _nodes_of(graph, node, branches[place], place)
              for place, node in enumerate(nodes)]  # fmt: skip
    written = [onnx.NodeProto.FromString(node.SerializeToString()) for part in copies for node in part]
    del graph.node[:]
    graph.node.extend(written)
    return bool(branches)


def _nodes_of(
    graph: onnx.GraphProto, node: onnx.NodeProto, branch: onnx.GraphProto, place: int
) -> list[onnx.NodeProto]:
    """Return the nodes of a branch, with names of their own, that write the outputs of the If; store its constants."""
    inner = [tensor.name for tensor in branch.initializer] + [name for part in branch.node for name in part.output]
    names = {name: f"{node.name or 'If'}_{place}/{name}" for name in inner if name}
    for tensor in branch.initializer:
        graph.initializer.add().CopyFrom(tensor)
        graph.initializer[-1].name = names[tensor.name]
    nodes = []
    for part in branch.node:
        nodes.append(onnx.NodeProto.FromString(part.SerializeToString()))
        nodes[-1].name = f"{node.name or 'If'}_{place}/{part.name or len(nodes)}"
        _rename(nodes[-1], names)
    for value, output in zip(branch.output, node.output, strict=True):
        source = names.get(value.name, value.name)
        nodes.append(onnx.helper.make_node("Identity", [source], [output], f"{output}/Identity"))
    return nodes


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for inner in attribute_graphs(node):
        for part in inner.node:
            _rename(part, names)
        for value in inner.output:
            value.name = names.get(value.name, value.name)

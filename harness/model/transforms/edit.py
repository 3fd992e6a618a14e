"""Changes of an ONNX graph that every transform makes: nodes are removed, tensors rewired, constants replaced."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain, count

import onnx
import onnx.inliner
from onnx import helper, numpy_helper

from harness.core.arrays import Array
from harness.model.importer.graph import remove_unread
from harness.model.importer.steps import Step
from harness.operators import by_onnx_name
from harness.operators.exact.onnx_functions import RUNTIME_DOMAINS
from harness.operators.node import DEFAULT_DOMAIN, NEWEST_OPSET

FUNCTIONS_IN_MODELS = 8
"""The first IR version of models with functions."""


INPUTS_ARE_NO_DEFAULTS = 4
"""The first IR version in which an initializer need not be an input."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Arithmetic that a transform multiplied into the weights of a node.

    Before it, the steps `leading` computed the input of the node from the tensor `source`, one value of each step for
    each value of the tensor, and `trailing` computed the tensor `output` from its result, one value for each channel.
    Now the node reads `source` and writes `output`.
    """

    node: str
    source: str
    output: str
    leading: tuple[Step, ...] = ()
    trailing: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Applied:
    """The names of the nodes that a transform removed, why it left others, one sentence each, and its folds."""

    nodes: tuple[str, ...]
    kept: tuple[str, ...] = ()
    folds: tuple[Fold, ...] = ()


def named(node: onnx.NodeProto) -> str:
    """Return the node for a message."""
    return f"node {node.name!r} ({node.op_type})"


def outputs(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the graph's outputs."""
    return {value.name for value in graph.output}


def readers(graph: onnx.GraphProto, tensor: str) -> list[onnx.NodeProto]:
    """Return the nodes that read the tensor."""
    return [node for node in graph.node if tensor in node.input]


def writer(graph: onnx.GraphProto, tensor: str) -> onnx.NodeProto | None:
    """Return the node that writes the tensor; None for inputs and initializers."""
    return next((node for node in graph.node if tensor in node.output), None)


def only_reader(graph: onnx.GraphProto, tensor: str) -> onnx.NodeProto | None:
    """Return the one node that reads the tensor; None if there are more, or it is an output of the graph."""
    found = readers(graph, tensor)
    return found[0] if len(found) == 1 and tensor not in outputs(graph) else None


def rewire(graph: onnx.GraphProto, before: str, after: str) -> None:
    """Make every reader of the tensor `before` read `after`."""
    for node in readers(graph, before):
        for place, tensor in enumerate(node.input):
            if tensor == before:
                node.input[place] = after


def bypass(graph: onnx.GraphProto, node: onnx.NodeProto, source: str) -> bool:
    """Remove a node whose first output is its input `source`, unless both are inputs or outputs of the graph.

    An output of the graph keeps its name: the node that writes `source` writes it then.
    """
    output = node.output[0]
    if output in outputs(graph):
        before = writer(graph, source)
        if before is None or source in outputs(graph):
            return False
        rewire(graph, source, output)
        before.output[list(before.output).index(source)] = output
    else:
        rewire(graph, output, source)
    graph.node.remove(node)
    return True


def add_constant(graph: onnx.GraphProto, values: Array, name: str) -> str:
    """Add an initializer, and return its name: `name`, or the like of it that is not taken."""
    free = free_name(name, names_of(graph))
    graph.initializer.append(numpy_helper.from_array(values, free))
    return free


def names_of(graph: onnx.GraphProto) -> set[str]:
    """Return the names of all tensors of a graph."""
    tensors = {tensor for node in graph.node for tensor in (*node.input, *node.output)}
    return tensors | {value.name for value in (*graph.input, *graph.initializer)}


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, with a number if it is taken."""
    return next(other for other in chain([name], (f"{name}_{number}" for number in count(2))) if other not in taken)


def free_initializers(model: onnx.ModelProto) -> None:
    """State an IR version in which initializers are no inputs, if one is none."""
    inputs = {value.name for value in model.graph.input}
    if any(tensor.name not in inputs for tensor in model.graph.initializer):
        model.ir_version = max(model.ir_version, INPUTS_ARE_NO_DEFAULTS)


def declare_functions(model: onnx.ModelProto) -> list[str]:
    """Add the functions and domains of operators unknown to ONNX Runtime, in place; return the names of functions."""
    opset = max((entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAIN), default=NEWEST_OPSET)
    known = {(function.domain, function.name) for function in model.functions}
    domains = {entry.domain for entry in model.opset_import}
    added = []
    for domain, name, inputs in sorted({(node.domain, node.op_type, len(node.input)) for node in model.graph.node}):
        operator = by_onnx_name().get((domain, name))
        if domain in RUNTIME_DOMAINS or operator is None:
            continue
        if domain not in domains:
            model.opset_import.append(helper.make_opsetid(domain, 1))
            domains.add(domain)
        function = operator.as_function(inputs, opset)
        if function and (domain, name) not in known:
            model.functions.append(function)
            added.append(name)
    if added:
        model.ir_version = max(model.ir_version, FUNCTIONS_IN_MODELS)
    return added


def inlined(model: onnx.ModelProto, functions: Sequence[tuple[str, str]]) -> onnx.ModelProto:
    """Return the model with the bodies of functions, (domain, name) each, in the place of their nodes.

    The inliner of ONNX 1.23 leaves the defaults of attributes out: they are set in the nodes first, in place.
    """
    defaults = {(function.domain, function.name): function.attribute_proto for function in model.functions}
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            stated = {attribute.name for attribute in node.attribute}
            missing = defaults.get((node.domain, node.op_type), ())
            node.attribute.extend(attribute for attribute in missing if attribute.name not in stated)
    return onnx.inliner.inline_selected_functions(model, list(functions))


def name_nodes(graph: onnx.GraphProto) -> None:
    """Name the nodes without a name as `harness.model.parse` does, so that layers keep their names."""
    taken = {node.name for node in graph.node}
    for index, node in enumerate(node for node in graph.node if node.op_type != "Constant"):
        if not node.name:
            node.name = free_name(f"{node.op_type}_{index}", taken)
            taken.add(node.name)


def tidy(graph: onnx.GraphProto) -> None:
    """Remove nodes and initializers that nothing reads, and stated shapes of tensors that may have changed."""
    remove_unread(graph)
    del graph.value_info[:]
    read = {name for node in graph.node for name in node.input} | outputs(graph)
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
        graph.initializer.remove(tensor)
        for value in [value for value in graph.input if value.name == tensor.name]:
            graph.input.remove(value)

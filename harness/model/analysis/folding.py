"""Constant folding: the parts of a graph whose values are known become constants, if that makes the file smaller.

After R. Liautaud, Optimizing neural network inference on embedded devices (2018), section 2.4.  The constant underlying
graph has the tensors with known values, and the nodes all of whose outputs have them; a value can be known although an
input is not, as that of Shape.  Each of its connected components is pruned by one of three strategies:

sinks   the tensors that other nodes read become constants; everything before them is removed
lca     the lowest common ancestor of these tensors becomes a constant; the nodes between it and them stay
none    nothing changes

The size of a component is estimated as in the report: the names and operators of its nodes, the names of its edges, and
the bytes of its constants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from harness.core.errors import RequestError
from harness.model.analysis.propagation import Propagation, attribute_graphs, node_names

Strategy: TypeAlias = Literal["sinks", "lca", "none"]
STRATEGIES: tuple[Strategy, ...] = ("sinks", "lca", "none")


@dataclass(frozen=True)
class Component:
    """A connected part of the constant graph: nodes, constants (initializers), and the tensors that others read."""

    nodes: tuple[str, ...]
    constants: tuple[str, ...]
    sinks: tuple[str, ...]


@dataclass(frozen=True)
class Folding:
    """A component, the estimated bytes of each strategy, the chosen one, and its removed nodes and new constants."""

    component: Component
    estimates: Mapping[Strategy, int]
    strategy: Strategy
    removed: tuple[str, ...]
    folded: tuple[str, ...]


class _ConstantGraph:
    """The tensors with values, and the nodes that write no other tensors."""

    def __init__(self, model: onnx.ModelProto, found: Propagation) -> None:
        self.facts, self.protos, graph = found.facts, node_names(model.graph), model.graph
        self.initializers = {tensor.name for tensor in graph.initializer}
        self.outputs = {value.name for value in graph.output}
        self.nodes = {name: node for name, node in self.protos.items() if self._is_constant(node)}
        self.writers = {tensor: name for name, node in self.nodes.items() for tensor in node.output if tensor}
        self.readers: dict[str, list[str]] = {}
        for name, node in self.protos.items():
            for tensor in {*node.input, *captured(node)} - {""}:
                self.readers.setdefault(tensor, []).append(name)

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        return any(node.output) and all(self.has_value(tensor) for tensor in node.output if tensor)

    def has_value(self, tensor: str) -> bool:
        """Return whether a tensor has a known value, which an initializer of its type can store."""
        fact = self.facts.of(tensor)
        if fact.concrete is None or fact.type is None:
            return False
        return fact.concrete.dtype.kind in "iufb" and fact.type in onnx.helper.get_all_tensor_dtypes()

    def components(self) -> Iterator[Component]:
        """Yield the connected components that have a node, in the order of the graph."""
        left = dict.fromkeys(self.nodes)
        while left:
            waiting, nodes, constants = [next(iter(left))], set[str](), set[str]()
            while waiting:
                if (name := waiting.pop()) in nodes:
                    continue
                nodes.add(name)
                left.pop(name, None)
                for tensor in self._tensors(name):
                    near = [*self.readers.get(tensor, ()), *([self.writers[tensor]] if tensor in self.writers else [])]
                    waiting += [other for other in near if other in self.nodes]
                    if tensor in self.initializers:
                        constants.add(tensor)
            ordered = tuple(name for name in self.protos if name in nodes)
            written = constants.union(*(self.nodes[name].output for name in nodes))
            tensors = dict.fromkeys(tensor for name in ordered for tensor in self._tensors(name) if tensor in written)
            yield Component(ordered, tuple(sorted(constants)), tuple(filter(self.is_sink, tensors)))

    def _tensors(self, node: str) -> list[str]:
        """Return the tensors with values that a node reads or writes."""
        proto = self.nodes[node]
        return [tensor for tensor in (*proto.input, *proto.output) if tensor and self.has_value(tensor)]

    def is_sink(self, tensor: str) -> bool:
        """Return whether a node that is not constant, or an output of the graph, reads the tensor."""
        return tensor in self.outputs or any(name not in self.nodes for name in self.readers.get(tensor, ()))

    def before(self, tensors: Iterable[str]) -> set[str]:
        """Return the tensors, and all with values from which they are computed."""
        found, waiting = set[str](), list(tensors)
        while waiting:
            if (tensor := waiting.pop()) not in found:
                found.add(tensor)
                if tensor in self.writers:
                    inputs = self.nodes[self.writers[tensor]].input
                    waiting += [each for each in inputs if each and self.has_value(each)]
        return found

    def lowest_common_ancestor(self, sinks: Collection[str]) -> str | None:
        """Return the smallest of the tensors from which all sinks are computed, before no other such tensor."""
        common = set.intersection(*(self.before([sink]) for sink in sinks)) if sinks else set()
        lowest = [each for each in common if not any(each in self.before([other]) - {other} for other in common)]
        return min(lowest, key=lambda tensor: (self.bytes_of(tensor), tensor), default=None)

    def bytes_of(self, tensor: str) -> int:
        """Return the bytes of the values of a tensor."""
        value = self.facts.of(tensor).concrete
        return 0 if value is None else int(value.nbytes)

    def kept(self, component: Component, strategy: Strategy) -> tuple[set[str], set[str]]:
        """Return the nodes that stay, and the tensors that are constants afterwards."""
        if strategy == "none":
            return {*component.nodes}, {*component.constants}
        stay = set[str]()
        if strategy == "lca":
            ancestor = self.lowest_common_ancestor(component.sinks)
            if ancestor is None:
                return {*component.nodes}, {*component.constants}
            between = [t for t in self.before(component.sinks) if t != ancestor and ancestor in self.before([t])]
            stay = {self.writers[tensor] for tensor in between}
        written = {tensor for name in stay for tensor in self.nodes[name].output}
        read = {tensor for name in stay for tensor in self.nodes[name].input if tensor} | {*component.sinks}
        return stay, {tensor for tensor in read - written if self.has_value(tensor)}

    def estimate(self, component: Component, strategy: Strategy) -> int:
        """Return the bytes of the component: nodes with names and operators, names of edges, values of constants."""
        stay, constants = self.kept(component, strategy)
        texts = [*stay, *constants, *component.sinks, *(self.nodes[name].op_type for name in stay)]
        texts += [tensor for name in stay for tensor in self.nodes[name].input]
        stored = sum(int(each.ByteSize()) for name in stay for each in self.nodes[name].attribute)
        return sum(map(len, texts)) + stored + sum(self.bytes_of(tensor) for tensor in constants)


def captured(node: onnx.NodeProto) -> set[str]:
    """Return the tensors that the subgraphs of a node may read from the graph around it."""
    return {
        tensor
        for graph in attribute_graphs(node)
        for inner in graph.node
        for tensor in ({*inner.input} | captured(inner))
    } | {value.name for graph in attribute_graphs(node) for value in graph.output}


def fold(model: onnx.ModelProto, found: Propagation, asked: Strategy | None) -> tuple[onnx.ModelProto, list[Folding]]:
    """Return the model with its constant parts folded, and what was done with each component.

    Without `asked`, each component is pruned by the strategy of the smallest estimate.  Inputs and outputs get the
    shapes that the facts state, on which the values depend.  Raises RequestError for a contradictory graph.
    """
    if found.contradictions:
        error = found.contradictions[0]
        raise RequestError(f"node {error.node!r} contradicts others: {error.problem}", "see harness models analyse")
    graph, foldings = _ConstantGraph(model, found), []
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    removed, constants = set[str](), set[str]()
    for component in graph.components():
        estimates: dict[Strategy, int] = {each: graph.estimate(component, each) for each in STRATEGIES}
        smallest = min(estimates.values())
        best = next(each for each in STRATEGIES[::-1] if estimates[each] == smallest)
        strategy = best if asked is None else asked
        stay, stored = graph.kept(component, strategy)
        gone, new = {*component.nodes} - stay, stored - graph.initializers
        removed |= gone
        constants |= new
        foldings.append(Folding(component, estimates, strategy, tuple(sorted(gone)), tuple(sorted(new))))
    _rewrite(folded.graph, graph, removed, constants)
    return folded, foldings


def _rewrite(target: onnx.GraphProto, graph: _ConstantGraph, removed: set[str], constants: set[str]) -> None:
    """Remove nodes, and store the values of tensors: by Constant nodes those that are outputs of the graph."""
    kept = [node for name, node in node_names(target).items() if name not in removed]
    first = []
    for tensor in sorted(constants):
        fact = graph.facts.of(tensor)
        assert fact.concrete is not None and fact.type is not None  # noqa: S101, PT018 - of `has_value`
        values = fact.concrete.astype(onnx.helper.tensor_dtype_to_np_dtype(fact.type), copy=False)
        stored = onnx.numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), tensor)
        if tensor in graph.outputs:
            first.append(onnx.helper.make_node("Constant", [], [tensor], name=f"{tensor}_constant", value=stored))
        else:
            target.initializer.append(stored)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del target.node[:]
    target.node.extend([*first, *nodes])
    for value in (*target.input, *target.output):
        fact = graph.facts.of(value.name)
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if (known := fact.sizes.get(axis)) and known.constant is not None:
                size.dim_value = known.constant
    _remove_unread(target)


def _remove_unread(graph: onnx.GraphProto) -> None:
    """Remove nodes and initializers that no output needs, and stated shapes of tensors inside."""
    needed = {value.name for value in graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed |= {*node.input} | captured(node)
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in needed]:
        graph.initializer.remove(tensor)
        for value in [value for value in graph.input if value.name == tensor.name]:
            graph.input.remove(value)
    del graph.value_info[:]

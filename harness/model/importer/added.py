"""Nodes and constants that an importer writes in the place of a node of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.transforms.edit import add_constant


@dataclass(eq=False)
class Added:
    """The nodes that replace a node; constants are added to `graph`, and all names begin with `name`."""

    graph: onnx.GraphProto
    name: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def add(self, operator: str, inputs: Iterable[str], output: str = "", domain: str = "", **attributes: Any) -> str:
        """Add a node; return its output, by default a new name."""
        output = output or f"{self.name}/{operator}_{len(self.nodes)}"
        node = helper.make_node(operator, [*inputs], [output], f"{output}/{operator}", domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return the name of a new constant."""
        array: Array = np.asarray(values, dtype)
        return add_constant(self.graph, array, f"{self.name}/constant")

    def refusal(self, node: onnx.NodeProto, reason: str, accepted: str) -> RequestError:
        """Return the error to raise for the node."""
        return RequestError(f"node {node.name or node.output[0]!r} ({node.op_type}): {reason}", accepted)


def replace_nodes(graph: onnx.GraphProto, replacement: Callable[[int, onnx.NodeProto], list[onnx.NodeProto]]) -> None:
    """Write the nodes of `replacement`, of the place of a node and the node, in the place of each node of a graph."""
    written = [part for place, node in enumerate(graph.node) for part in replacement(place, node)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in written]
    del graph.node[:]
    graph.node.extend(copies)

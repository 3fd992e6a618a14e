"""A network, or some layers of it, as one TFLite file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness import targets
from harness.core.errors import RequestError
from harness.model.network import Network
from harness.model.tflite.file import TfliteFile
from harness.operators.base import Layer
from harness.operators.tensor import Tensor
from harness.targets.base import Claim
from harness.targets.litert.graph import Graph, Value
from harness.targets.litert.lowering import LiteRtLowering

Lowerings: TypeAlias = Mapping[type[Layer], LiteRtLowering[Any]]


@dataclass(frozen=True, eq=False)
class Converted:
    """The file, and where it has the activations that it reads and writes; for each layer its operators and claim."""

    file: TfliteFile
    inputs: Mapping[str, Value]
    layers: Mapping[str, Value]
    operators: Mapping[str, tuple[str, ...]]
    claims: Mapping[str, Claim]


def convert_network(network: Network, outputs: Sequence[str], metadata: Mapping[str, bytes] | None = None) -> Converted:
    """Return the file of a network."""
    lowerings: Any = targets.find("litert:xnnpack").lowerings  # of its own class
    return convert(network.layers, network.inputs, outputs, lowerings, metadata)


def convert(
    layers: Sequence[Layer],
    inputs: Sequence[Tensor],
    outputs: Sequence[str],
    lowerings: Lowerings,
    metadata: Mapping[str, bytes] | None = None,
) -> Converted:
    """Return the file of some layers, whose outputs are the activations with these names.

    An activation keeps its order in the file: images have the channels last.  Raises RequestError for a layer that
    TFLite cannot compute, with its node.
    """
    graph = Graph()
    given = {tensor.name: graph.activation(tensor) for tensor in inputs}
    values, operators = dict(given), {}
    for layer in layers:
        lowering, first = lowerings.get(type(layer)), len(graph.operators)
        why = "it has no form in TFLite here" if lowering is None else lowering.unsupported(layer, "")
        if lowering is None or why:
            raise RequestError(
                f"node {layer.node!r} ({layer.operator}) cannot be converted: {why}",
                f"operators with a form in TFLite: {', '.join(supported(lowerings))}",
            )
        values[layer.output.name] = lowering.emit(layer, graph, [values[tensor.name] for tensor in layer.inputs])
        operators[layer.name] = tuple(call.name for call in graph.operators[first:])
    file = graph.file([given[tensor.name] for tensor in inputs], [values[name] for name in outputs], metadata or {})
    claims = {layer.name: lowerings[type(layer)].claim_of(layer) for layer in layers}
    found = {layer.name: values[layer.output.name] for layer in layers}
    return Converted(file, given, found, operators, claims)


def supported(lowerings: Lowerings) -> list[str]:
    """Return the names of the ONNX operators that have a form in TFLite."""
    return sorted({name for layer in lowerings for _, name in layer.ONNX})

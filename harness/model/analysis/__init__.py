"""Analysis of a graph before it runs: facts of all edges, ranges, findings; and its reduction by constant folding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import onnx

from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model import graph as models
from harness.model.analysis.findings import Analysis, Edge, Finding, of_contradiction
from harness.model.analysis.hints import parse_hint
from harness.model.analysis.propagation import Propagation, propagate
from harness.model.analysis.ranges import Ranges, Tighter, ranges, text_of
from harness.model.network import Network

HOW_TO_RUN = "harness models import FILE -o NAME names what stands in the way, and a command that helps"
SEVERITIES = ("error", "warning", "note")
__all__ = ["Analysis", "Edge", "Finding", "analyse", "decode", "parse_hint"]


def decode(onnx_bytes: bytes, name: str) -> onnx.ModelProto:
    """Return the model of an ONNX file, valid or not; raise RequestError for other bytes, and for local functions.

    Functions that are operators of harness are permitted.
    """
    model = models.decode(onnx_bytes, name)
    if not model.graph.node:
        raise RequestError(f"model {name!r} has no nodes", "give a complete .onnx file")
    if any((function.domain, function.name) not in operators.by_onnx_name() for function in model.functions):
        raise RequestError(f"model {name!r} defines local functions", "inline them: onnx.inliner")
    return model


def analyse(
    graph: onnx.ModelProto,
    hints: Iterable[tuple[str, str, Any]] = (),
    vectors: Callable[[Network], Array | None] = lambda _: None,
    tighter: Tighter = lambda _: {},
    *,
    with_ranges: bool = True,
    departures: Callable[[onnx.ModelProto, Propagation], Iterable[Finding]] | None = None,
) -> Analysis:
    """Return the facts of all edges of an ONNX model, ranges, and findings; `hints` are those of `parse_hint`.

    The model may be float or quantised, of any opset, and need not be one that harness can run; ranges are those of
    networks that it can run.  `vectors` returns float32 inputs (n, K) of the network, with which it is observed,
    and `tighter` sound bounds of accumulators.  Without `with_ranges`, the layers are not computed.  `departures`
    returns more findings, from the facts of the model.
    """
    propagation = propagate(graph, hints)
    findings = [*_structure(propagation.nodes, graph.graph), *map(of_contradiction, propagation.contradictions)]
    findings += departures(graph, propagation) if departures else ()
    findings += [
        Finding("warning", "not_analysed", refusal.node, "", refusal.reason, "state facts of its outputs with --fact")
        for refusal in propagation.unanalysed
    ]
    measured = Ranges()
    if with_ranges and all(finding.severity != "error" for finding in findings):
        try:
            network, steps = _network(graph)
        except RequestError as error:
            reason = f"no ranges, as harness cannot run it as it is: {error.message}"
            findings.append(Finding("note", "no_ranges", "", "", reason, HOW_TO_RUN))
        else:
            measured = ranges(network, tighter(network), vectors(network))
            findings += measured.findings
            reason = f"the ranges are those of the file after: {'; '.join(steps)}"
            findings += (
                [Finding("note", "rewritten", "", "", reason, "harness run makes the same changes")] if steps else []
            )
    findings.sort(key=lambda refusal: SEVERITIES.index(refusal.severity))
    symbols = {name: str(propagation.facts.resolved(size)) for name, (size, _) in propagation.facts.bindings.items()}
    return Analysis(
        _edges(graph, propagation, measured), tuple(findings), symbols, propagation.passes, tuple(measured.layers)
    )


def _network(graph: onnx.ModelProto) -> tuple[Network, tuple[str, ...]]:
    """Return the network of a file, and the steps that make the file one."""
    name = graph.graph.name or "model"
    try:
        return models.parse(graph.SerializeToString(), name), ()
    except RequestError:
        from harness.model.importer import simplify  # here, because it imports this package

        copy = onnx.ModelProto()
        copy.CopyFrom(graph)
        simplified = simplify.simplify(copy, name)
        if not simplified.notes:
            raise
        with simplified.explained():
            return models.parse(simplified.model.SerializeToString(), name), simplified.notes


def _structure(nodes: Mapping[str, onnx.NodeProto], graph: onnx.GraphProto) -> Iterator[Finding]:
    """Yield the tensors that a node reads before they are written, and those that are written twice."""
    written = {value.name for value in (*graph.input, *graph.initializer)}
    written |= {tensor.values.name for tensor in graph.sparse_initializer}
    for name, node in nodes.items():
        for tensor in dict.fromkeys(each for each in node.input if each and each not in written):
            reason = f"it reads tensor {tensor!r}, which no node before it writes"
            yield Finding("error", "structure", name, tensor, reason, "write the nodes in topological order")
        for tensor in [each for each in node.output if each in written]:
            reason = f"it writes tensor {tensor!r}, which exists already"
            yield Finding("error", "structure", name, tensor, reason, "give each tensor its own name")
        written |= {each for each in node.output if each}


def _edges(model: onnx.ModelProto, found: Propagation, measured: Ranges) -> dict[str, Edge]:
    graph = model.graph
    constants = [tensor.name for tensor in graph.initializer]
    kinds: dict[str, Any] = {value.name: "input" for value in graph.input} | dict.fromkeys(constants, "constant")
    order = [*kinds, *(name for node in graph.node for name in (*node.input, *node.output) if name)]
    kinds |= {value.name: "output" for value in graph.output}
    edges = {}
    for name in dict.fromkeys(order):
        fact = found.facts.of(name)
        texts = ["" if text == "?" else text for text in (fact.type_text, fact.value_text)]
        origins = {str(aspect): str(origin) for aspect, origin in fact.origins.items()}
        kind = kinds.get(name, "activation" if fact.concrete is None else "constant")
        bounds = measured.bounds.get(name)
        if bounds is None and fact.concrete is not None and fact.concrete.size and fact.concrete.dtype.kind in "iuf":
            bounds = fact.concrete.reshape(1, -1), fact.concrete.reshape(1, -1)
        span = "" if bounds is None else text_of(bounds)
        edges[name] = Edge(name, texts[0], fact.shape_text, texts[1], kind, span, origins)
    return edges

"""Facts of the nodes and tensors of a network: its own, and those of a run or a measurement, as texts for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.core.arrays import Array
from harness.core.installation import module_of
from harness.model.analysis.findings import Edge
from harness.model.network import Network
from harness.model.structure import Distribution, distribution
from harness.operators.base import Layer
from harness.report.html import layer_facts, times_note
from harness.report.measurements import page as measured
from harness.report.network import LayerFacts, range_text
from harness.runs.description import graph
from harness.runs.entries import LayerEntry, MeasurementDocument, RunDocument
from harness.runs.facts import bound_share, gather, place, value_text
from harness.runs.measurement import facts as measurement_facts

MOST_SUMMARISED = 100_000  # constants of a layer: its distinct values are sorted

Rows = tuple[tuple[str, str], ...]
"""Pairs of label and text."""


@dataclass(frozen=True)
class Result:
    """The result of a layer: its mark as in a report, `good`, `bound`, `bad` or no kind, and the first difference."""

    mark: str
    kind: str
    text: str
    first: str = ""


@dataclass(frozen=True)
class Evidence:
    """Facts of documents by the name of the layer.  `verdict` is one word, `claims` are the sentences below it.

    `cautions` say what the numbers are not.  `items` are the items of layers, `timed` is the noun
    of their times or counts.
    """

    verdict: str = ""
    kind: str = ""
    claims: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    results: Mapping[str, Result] = field(default_factory=dict)
    times: Mapping[str, LayerFacts] = field(default_factory=dict)
    rows: Mapping[str, Rows] = field(default_factory=dict)
    items: Mapping[str, str] = field(default_factory=dict)
    timed: str = ""

    def __add__(self, other: Evidence) -> Evidence:
        """Return the facts of both; times of `other`, a measurement, replace those of a trace."""
        rows = {name: (*self.rows.get(name, ()), *other.rows.get(name, ())) for name in {**self.rows, **other.rows}}
        return Evidence(
            self.verdict or other.verdict,
            self.kind or other.kind,
            (*self.claims, *other.claims),
            tuple(dict.fromkeys((*self.cautions, *other.cautions))),
            {**self.results, **other.results},
            other.times or self.times,
            rows,
            {**other.items, **self.items},
            other.timed or self.timed,
        )


def of_run(content: Mapping[str, Any]) -> Evidence:
    """Return the facts of a run's document; ValueError if its parts contradict each other."""
    run = RunDocument.view(content)
    found = gather(run)
    traced = times_note(run, found)
    return Evidence(
        f"{run.verdict} {found.where}",
        {"identical": "good", "within bound": "bound"}.get(run.verdict, "bad"),
        (run.reason,),
        () if found.on_hardware else (f"Times are not MET: run {found.where}.",),
        {layer.name: _result(layer) for layer in run.layers},
        layer_facts(run) if traced else {},
        {layer.name: tuple(_layer_rows(layer)) for layer in run.layers},
        {layer.name: layer.item for layer in run.layers},
        "Traced time" if traced else "",
    )


def _result(layer: LayerEntry) -> Result:
    if layer.differing and (first := layer.first_difference):
        where = f"{place(first)}: expected {value_text(first.expected)}, found {value_text(first.actual)}"
        return Result(
            f"≠ {layer.differing:,}",
            "bad",
            f"{layer.differing:,} of {layer.compared:,} activations differ, {layer.own:,} of them its own",
            where,
        )
    if not layer.kept:
        return Result("", "", "overwritten on the board and not compared")
    if layer.bounded:
        return Result("≈", "bound", f"within its bound; the largest difference is {bound_share(layer)} of it")
    return Result("=", "good", f"all {layer.compared:,} activations are identical")


def _layer_rows(layer: LayerEntry) -> Iterator[tuple[str, str]]:
    yield from (("Item", layer.item), ("Target", layer.target), ("Ran on", layer.ran_on))


def of_measurement(content: Mapping[str, Any]) -> Evidence:
    """Return the facts of a measurement's document; ValueError if its parts contradict each other."""
    document = MeasurementDocument.view(content)
    found = measurement_facts.gather(document)
    times = measured.layer_facts(document)
    items = {task.layer: task.item for task in document.plan.tasks}
    return Evidence(
        f"{document.verdict} {found.where}",
        "good" if document.verdict == "measured" else "bad",
        (document.reason,),
        (f"Not MET: {found.why_not_met}.",) if found.why_not_met else (),
        times=times,
        items=items,
        timed=(f"Least {document.measured.unit}" if found.counted else "Median time") if times else "",
    )


@dataclass(frozen=True)
class NodeFacts:
    """Facts of a node that `harness` can run; `formula` is that of its operator."""

    layer: str
    rows: Rows
    formula: str = ""


def of_network(network: Network) -> dict[str, NodeFacts]:
    """Return the facts of all nodes by the name of the ONNX node."""
    return {layer.node: NodeFacts(layer.name, tuple(_node_rows(layer)), _formula(layer)) for layer in network.layers}


def _formula(layer: Layer) -> str:
    return layer.text.explain(layer.operator)


def _node_rows(layer: Layer) -> Iterator[tuple[str, str]]:
    yield "Layer", layer.name
    if sum(np.size(value) for value in layer.constants().values()) <= MOST_SUMMARISED:
        yield from zip(("Scale or m (distinct)", "Zero points"), filter(None, layer.text.summary()), strict=False)
    if bounds := layer.sums and layer.sums.accumulator():
        yield "Accumulator", f"{bounds.low:,} to {bounds.high:,}; {bounds.headroom_bits} bits of int32 to spare"
        yield "As float32", "exact" if bounds.float32_exact else "rounded"
    yield "Operations", f"{layer.text.operations:,} of one vector"
    yield "Specification", module_of(type(layer))


@dataclass(frozen=True)
class TensorFacts:
    """The type of a tensor, and the range of its possible values; empty where it is not known.

    `rows` are the facts of the analysis.
    """

    type: str = ""
    range: str = ""
    rows: Rows = ()

    def __add__(self, other: TensorFacts) -> TensorFacts:
        """Return the facts of both; the range of `other`, an analysis, is the tighter one."""
        return TensorFacts(self.type or other.type, other.range or self.range, (*self.rows, *other.rows))


def of_edge(edge: Edge) -> TensorFacts:
    """Return the facts of an analysed tensor."""
    given = f"{edge.shape} {edge.type}" if edge.type else ""
    known = "; ".join(dict.fromkeys(edge.origins.values()))
    rows = (("Shape", edge.shape), ("Value", edge.value), ("Known from", known))
    return TensorFacts(given, edge.range, tuple(row for row in rows if row[1]))


def of_tensors(network: Network) -> dict[str, TensorFacts]:
    """Return the facts of the network's input and of all activations by the name of the tensor."""
    tensors = [*network.inputs, *(layer.output for layer in network.layers)]
    return {
        tensor.name: TensorFacts(
            " x ".join(("vectors", *map(str, tensor.shape))) + f" {tensor.dtype}", range_text(node)
        )
        for tensor, node in zip(tensors, graph(network), strict=True)
    }


def distributions(network: Network, vectors: Array, activations: Sequence[Array]) -> dict[str, Distribution]:
    """Return the distribution of the values of these vectors by the name of the tensor."""
    names = (layer.output.name for layer in network.layers)
    values = network.values(vectors) | dict(zip(names, activations, strict=True))
    return {name: distribution(of_tensor) for name, of_tensor in values.items()}

"""Interactive page of a network: one file without network access that shows graph, facts and evidence.

The layout is computed here, see `layout`.  The page contains it as data, and its script draws what is expanded and in
view.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness import __version__
from harness.applications.view import layout
from harness.applications.view.facts import Evidence, NodeFacts, TensorFacts
from harness.applications.view.groups import groupings
from harness.model.analysis.findings import Finding
from harness.model.structure import Constant, Distribution, Edge, Graph, Structure, Vertex
from harness.report.page import environment, script
from harness.runs.facts import clean

PACKAGE = "harness.applications.view"
EXPANDED = 300  # vertices: the groups of a larger graph are collapsed at first
LONGEST_VALUE = 24  # characters of a value in a list


@dataclass(frozen=True)
class Content:
    """All that a page shows: `refused` says why `harness` cannot run the network, empty if it can.

    `nodes` are facts by the name of the ONNX node, `tensors` and `distributions` those of tensors by name, and
    `drawn_from` names the vectors of the distributions.  `findings` are those of `harness models analyse`.
    """

    structure: Structure
    refused: str = ""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    tensors: Mapping[str, TensorFacts] = field(default_factory=dict)
    distributions: Mapping[str, Distribution] = field(default_factory=dict)
    drawn_from: str = ""
    findings: Sequence[Finding] = ()
    evidence: Evidence = field(default_factory=Evidence)


def html(content: Content) -> str:
    """Return the page of a network; ToolError without Graphviz."""
    return (
        environment(PACKAGE)
        .get_template("view.html.jinja")
        .render(
            name=clean(content.structure.name),
            evidence=clean(asdict(content.evidence)),
            refused=clean(content.refused),
            data=encode(document(content)),
            script=script("view.js", package=PACKAGE),
        )
    )


def encode(value: Any) -> str:
    """Return JSON that can stand in an HTML element of any kind: no text in it can end or open an element."""
    text = json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def document(content: Content) -> dict[str, Any]:
    """Return the data of the page's script, as JSON types."""
    levels: dict[str, tuple[int, layout.Level]] = {}
    formulas: dict[str, int] = {}
    structure = content.structure
    graphs = [_graph(graph, content, index == 0, levels, formulas) for index, graph in enumerate(structure.graphs)]
    return {
        "name": structure.name,
        "properties": [*(row for row in structure.properties if row[1]), ("Page by", f"harness {__version__}")],
        "expanded": EXPANDED,
        "drawnFrom": content.drawn_from,
        "timed": content.evidence.timed,
        "findings": [
            [finding.severity, finding.node, finding.edge, finding.reason, finding.advice]
            for finding in content.findings
        ],
        "graphs": graphs,
        "formulas": list(formulas),
        "layouts": [
            [found.width, found.height, found.middles, level.sizes, found.paths]
            for found, (_, level) in zip(layout.layouts(list(levels)), levels.values(), strict=True)
        ],
    }


def _graph(
    graph: Graph, content: Content, main: bool, levels: dict[str, tuple[int, layout.Level]], formulas: dict[str, int]
) -> dict[str, Any]:
    """Return a graph; only nodes of the model's own graph have facts of the network and evidence."""
    tensors = {name: index for index, name in enumerate(graph.edges)}
    facts = content.nodes if main else {}
    items = content.evidence.items
    of = {name: items[node.layer] for name, node in facts.items() if node.layer in items}
    height = layout.HEIGHT if content.evidence.results or content.evidence.times else layout.LOW_HEIGHT
    most = max((time.amount for time in content.evidence.times.values()), default=0)
    shown = [_tensor(edge, content if main else None) for edge in graph.edges.values()]
    types = [str(tensor.get("type", "")) for tensor in shown]
    return {
        "title": graph.title,
        "nodes": [
            _node(vertex, facts.get(vertex.name), content.evidence, most, tensors, formulas)
            for vertex in graph.vertices
        ],
        "tensors": shown,
        "groupings": [
            {"name": name, "root": layout.document(layout.level(graph, group, tensors, types, height), levels)}
            for name, group in groupings(graph.vertices, of).items()
        ],
    }


def _node(
    vertex: Vertex, facts: NodeFacts | None, evidence: Evidence, most: float, tensors: Mapping[str, int],
    formulas: dict[str, int],
) -> dict[str, Any]:  # fmt: skip
    found: dict[str, Any] = {
        "name": vertex.name,
        "kind": vertex.kind,
        "operator": vertex.operator,
        "domain": vertex.domain,
        "reads": [tensors.get(name, -1) for name in vertex.reads],
        "writes": [tensors.get(name, -1) for name in vertex.writes],
        "attributes": [
            [attribute.name, attribute.kind, attribute.text, attribute.graph] for attribute in vertex.attributes
        ],
        "function": vertex.function,
        "text": vertex.text,
    }
    if facts is None:
        return _filled(found)
    result, time = evidence.results.get(facts.layer), evidence.times.get(facts.layer)
    found["rows"] = [*facts.rows, *evidence.rows.get(facts.layer, ())]
    if facts.formula:
        found["formula"] = formulas.setdefault(facts.formula, len(formulas))
    if result:
        found["result"] = [result.mark, result.kind, result.text, result.first]
    if time and (time.text or time.note):
        found["time"] = [time.text, time.note, round(time.amount / most, 4) if most else 0]
    return _filled(found)


def _filled(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that say something."""
    return {key: value for key, value in entry.items() if value not in ("", [], (), None)}


def _tensor(edge: Edge, content: Content | None) -> dict[str, Any]:
    facts = content.tensors.get(edge.name) if content else None
    drawn = content.distributions.get(edge.name) if content else None
    return _filled({
        "name": edge.name,
        "type": edge.text if edge.rank_known or not facts else facts.type,
        "range": facts.range if facts else "",
        "rows": facts.rows if facts and not edge.constant else (),
        "drawn": _distribution(drawn),
        "constant": _constant(edge.constant) if edge.constant else None,
    })  # fmt: skip


def _distribution(found: Distribution | None) -> list[Any] | None:
    """Return (count, low, high, mean, counts, number of values that are not finite)."""
    if found is None:
        return None
    return [found.count, *(_short(value) for value in (found.low, found.high, found.mean)), found.counts,
            found.not_finite]  # fmt: skip


def _short(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def _constant(found: Constant) -> dict[str, Any]:
    return _filled({
        "values": _distribution(found.distribution),
        "first": list(_listed(found.first)),
        "failure": found.failure,
    })  # fmt: skip


def _listed(values: Sequence[str]) -> Iterator[str]:
    for value in values:
        yield value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"

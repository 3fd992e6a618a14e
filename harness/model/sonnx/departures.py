"""Departures of a network from the safety-related profile, by the table of restrictions."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.helper

from harness.model.analysis.findings import Finding
from harness.model.analysis.propagation import MALFORMED, Propagation
from harness.model.sonnx.restrictions import OPERATORS, RESTRICTIONS, WITHOUT_DEFAULT
from harness.operators.node import DEFAULT_DOMAIN, NEWEST_OPSET, domain_of
from harness.operators.rules import Rules, schema_of
from harness.operators.tensor_facts import Contradiction

KIND = "sonnx"
"""The kind of these findings."""


def departures(model: onnx.ModelProto, propagation: Propagation) -> Iterator[Finding]:
    """Yield a finding for each restriction that a node or the graph does not keep, then a note that counts them.

    A restriction that cannot be checked, because a shape is not known, is a finding, too.
    """
    findings = [*_sparse(model.graph)]
    stated = {value.name for value in _values(model.graph) if _is_explicit(value)}
    opset = max((entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAIN), default=NEWEST_OPSET)
    for name, node in propagation.nodes.items():
        findings += _of_node(name, node, opset, stated)
        if not domain_of(node):
            rules = Rules(propagation.facts, node, name, opset)
            findings += _restricted(name, node, rules)
    yield from findings
    nodes = {finding.node for finding in findings}
    summary = f"{len(nodes)} of {len(propagation.nodes)} nodes leave the safety-related profile" if nodes else ""
    reason = summary or "no node leaves the safety-related profile"
    advice = "docs/reference/analyse-a-model.md lists the restrictions and their documents"
    yield Finding("note", KIND, "", "", reason, advice)


def _finding(number: str, node: str, edge: str, here: str, advice: str) -> Finding:
    return Finding("warning", KIND, node, edge, f"{number}: {here}", advice)


def _values(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _is_explicit(value: onnx.ValueInfoProto) -> bool:
    """Return whether the type and all sizes are stated; a symbol is a size."""
    tensor = value.type.tensor_type
    sizes = all(size.HasField("dim_value") or size.dim_param for size in tensor.shape.dim)
    return bool(tensor.elem_type) and tensor.HasField("shape") and sizes


def _sparse(graph: onnx.GraphProto) -> Iterator[Finding]:
    names = [tensor.values.name for tensor in graph.sparse_initializer]
    names += [value.name for value in _values(graph) if value.type.HasField("sparse_tensor_type")]
    for name in names:
        yield _finding("GR1", "", name, f"tensor {name!r} is sparse", "store it as a dense tensor")


def _of_node(name: str, node: onnx.NodeProto, opset: int, stated: set[str]) -> Iterator[Finding]:
    """Yield what the general restrictions say about a node: its operator, its outputs and its attributes."""
    operator = ".".join(filter(None, (domain_of(node), node.op_type)))
    if operator not in OPERATORS:
        reason = f"operator {operator} is none of the {len(OPERATORS)} operators of the profile"
        yield _finding("REQ OP 000", name, "", reason, "use operators of the profile, or argue for it as an exception")
    if any(attribute.name.startswith("sparse_value") for attribute in node.attribute):
        yield _finding("GR1", name, "", "its value is sparse", "store it as attribute value")
    if outputs := [output for output in node.output if output and output not in stated]:
        here = f"type and shape are not stated for {', '.join(map(repr, outputs))}"
        yield _finding("GR2", name, outputs[0], here, "write value_info: onnx.shape_inference.infer_shapes")
    if defaults := list(_defaults(node, opset)):
        here = f"attributes have their defaults: {', '.join(defaults)}"
        yield _finding("GR4", name, "", here, "state the value of each attribute in the node")


def _defaults(node: onnx.NodeProto, opset: int) -> Iterator[str]:
    """Yield the attributes that a node does not state, with the defaults of the schema."""
    schema = schema_of(node, opset)
    if schema is None or node.op_type == "Constant":
        return
    stated = {attribute.name for attribute in node.attribute} | WITHOUT_DEFAULT
    for name, attribute in sorted(schema.attributes.items()):
        if name not in stated and not attribute.required:
            default = attribute.default_value
            value = onnx.helper.get_attribute_value(default) if default.type else None
            text = value.decode() if isinstance(value, bytes) else value
            yield name if value is None else f"{name} ({text})"


def _restricted(name: str, node: onnx.NodeProto, rules: Rules) -> Iterator[Finding]:
    """Yield the restrictions of the operator that the node does not keep, or that cannot be checked."""
    for restriction in RESTRICTIONS.get(node.op_type, ()):
        try:
            holds = restriction.holds(rules)
        except (Contradiction, *MALFORMED):  # which the analysis reports
            holds = None
        number = f"{restriction.number} of {node.op_type} ({restriction.origin})"
        if holds is None:
            reason = f"cannot be checked: {restriction.statement}; a type, a shape or a value is not known"
            yield _finding(number, name, "", reason, "state it in the file, or with --fact")
        elif not holds:
            yield _finding(
                number, name, "", f"does not hold: {restriction.statement}", "write the node so that it holds"
            )

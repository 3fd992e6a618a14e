"""A model in the structure that the safety-related profile requires of the description of an operator (REQ OP 010).

Signature, restrictions, definition, inputs, attributes, outputs, constraints, error conditions and accuracy follow from
ONNX's schemas, from the definitions and rules of the operators, and from the table of restrictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.defs
import onnx.helper

from harness import operators
from harness.model.analysis.propagation import Propagation, propagate
from harness.model.network import Network
from harness.model.sonnx.restrictions import (
    DOCUMENTS,
    FOLDER,
    GENERAL,
    GENERAL_DOCUMENT,
    OPERATORS,
    REPOSITORY,
    REQUIREMENTS,
    RESTRICTIONS,
)
from harness.model.text.writer import CONSTANT
from harness.model.text.writer import GENERAL as ARITHMETIC
from harness.operators.base import Layer
from harness.operators.exact.expression import calls
from harness.operators.float_errors import has_tolerance
from harness.operators.node import domain_of
from harness.operators.pointwise import Pointwise
from harness.operators.rules import Rules, schema_of
from harness.operators.tensor import FLOAT32
from harness.operators.traits import Trait

OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
PAGE = """\
# {name}: description in the structure of the safety-related ONNX profile

| property | value |
| --- | --- |
| SHA-256 of the ONNX file | {sha256} |
| operator sets | {opsets} |
| general restrictions | {REPOSITORY}, {GENERAL_DOCUMENT} |
| requirements | {REPOSITORY}, {REQUIREMENTS} |

`harness models analyse FILE --profile sonnx` states where the file leaves the profile.

{restrictions}
{arithmetic}
"""
NO_ERROR = "No error condition: values are moved or compared, none is computed."
OF_CODES = "No error condition: the definition states the result of every input, saturation included."
OF_INTEGERS = "Sums, differences and products are modulo 2^n for n bits; there is no other error condition."
OF_FLOATS = "An overflow is an infinity and an operation without a result NaN, as IEEE 754 states; nothing else fails."


@dataclass(frozen=True)
class _Use:
    """The nodes of one ONNX operator, with the rules and, where it is one, the layer of each by name."""

    operator: type[Layer] | None
    schema: onnx.defs.OpSchema | None
    nodes: Mapping[str, onnx.NodeProto]
    rules: Mapping[str, Rules]
    layers: Sequence[Layer]

    @property
    def first(self) -> onnx.NodeProto:
        """The first node."""
        return next(iter(self.nodes.values()))


def describe(network: Network) -> Iterator[str]:
    """Yield the description, in Markdown, in pieces: a head, and a section for each operator that the network uses."""
    model = onnx.ModelProto.FromString(network.onnx_bytes)
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    restrictions = "".join(f"- {number}: {statement}\n" for number, statement in GENERAL.items())
    names = {"name": network.name, "sha256": network.sha256, "opsets": opsets, "arithmetic": ARITHMETIC}
    constants = {"REPOSITORY": REPOSITORY, "GENERAL_DOCUMENT": GENERAL_DOCUMENT, "REQUIREMENTS": REQUIREMENTS}
    yield PAGE.format(restrictions=restrictions, **names, **constants)
    propagation = propagate(model)
    used = dict.fromkeys((domain_of(node), node.op_type) for node in model.graph.node)
    for domain, name in used:
        yield "\n".join(_section(domain, name, _use(network, model, propagation, (domain, name)))) + "\n"


def _use(network: Network, model: onnx.ModelProto, propagation: Propagation, operator: tuple[str, str]) -> _Use:
    nodes = {name: node for name, node in propagation.nodes.items() if (domain_of(node), node.op_type) == operator}
    opset = max(entry.version for entry in model.opset_import if entry.domain == "")
    rules = {
        name: propagation.rules.get(name) or Rules(propagation.facts, node, name, opset) for name, node in nodes.items()
    }
    layers = [layer for layer in network.layers if layer.node in nodes]
    first = next(iter(nodes.values()))
    return _Use(operators.of_node(first), schema_of(first, opset), nodes, rules, layers)


def _section(domain: str, name: str, use: _Use) -> Iterator[str]:
    title = f"{domain}.{name}" if domain else name
    yield f"\n## {title}\n\n### Signature\n\n`{_signature(title, use)}`\n"
    if use.schema is not None:
        yield f"After {name} of ONNX, version {use.schema.since_version}.\n"
    yield f"### Restrictions\n\n{_restrictions(title)}\n"
    formula = use.operator.text.explain(name) if use.operator else CONSTANT
    yield f"### Definition\n\n```\n{formula}\n```\n"
    yield "### Inputs, attributes and outputs\n"
    yield from _table(("node", "inputs", "attributes", "outputs"), (_row(use, node) for node in use.nodes))
    yield "\n### Constraints\n"
    yield from _constraints(use)
    yield "\n### Error conditions\n"
    yield from _error_conditions(use)
    yield "\n### Accuracy\n"
    yield from _accuracy(use)


def _signature(title: str, use: _Use) -> str:
    if use.schema is None:
        count = max(len(node.input) for node in use.nodes.values())
        text = use.operator.text if use.operator else None
        inputs = [text.role(position) if text else f"input {position}" for position in range(count)]
        outputs = ["y"]
    else:
        inputs = [f"[{each.name}]" if each.option == OPTIONAL else each.name for each in use.schema.inputs]
        outputs = [each.name for each in use.schema.outputs[: len(use.first.output)]]
    return f"{', '.join(outputs)} = {title}({', '.join(inputs)})"


def _restrictions(name: str) -> str:
    if name not in OPERATORS:
        return "The operator is not in the list of the profile (REQ OP 000)."
    entries = RESTRICTIONS.get(name, ())
    rows = "\n".join(
        _table(("restriction", "statement", "origin"), ((e.number, e.statement, e.origin) for e in entries))
    )
    document = f"Document: {FOLDER}/{DOCUMENTS[name]}." if name in DOCUMENTS else "Without a document of its own."
    return f"GR1 to GR4. {document}" + (f"\n\n{rows}" if entries else "")


def _table(headings: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    for row in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"


def _row(use: _Use, name: str) -> tuple[str, ...]:
    """Return the tensors of a node with types and shapes, and its attributes."""
    rules = use.rules[name]
    cells = [
        ", ".join(f"{v.role}: {v.fact.type_text} {v.fact.shape_text}" for v in variables if v is not None)
        for variables in (rules.inputs, rules.outputs)
    ]
    attributes = ", ".join(f"{key} = {_value(value)}" for key, value in rules.attributes.items())
    return name, cells[0], attributes, cells[1]


def _value(value: Any) -> str:
    if isinstance(value, onnx.TensorProto):
        return f"a tensor of {list(value.dims)}"
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _constraints(use: _Use) -> Iterator[str]:
    """Yield the equations between types and shapes, numbered; those of some nodes name them."""
    nodes: dict[str, list[str]] = {}
    for name, rules in use.rules.items():
        for equation in rules.stated:
            nodes.setdefault(equation, []).append(name)
    for number, (equation, names) in enumerate(nodes.items(), 1):
        where = "" if len(names) == len(use.nodes) else f" ({', '.join(names)})"
        yield f"- C{number}: `{equation}`{where}"
    if not nodes:
        yield "None."


def _error_conditions(use: _Use) -> Iterator[str]:
    if use.operator is None or (Trait.MOVES | Trait.INDEX) & use.operator.traits:
        yield NO_ERROR
        return
    types = {layer.dtype for layer in use.layers}
    if FLOAT32 in types:
        yield OF_FLOATS
    elif any(layer.sums for layer in use.layers) or {dtype.itemsize for dtype in types} <= {1}:
        yield OF_CODES
    else:
        yield OF_INTEGERS
    if issubclass(use.operator, Pointwise) and use.operator.least > -float("inf"):
        yield f"A network that can give it an input below {use.operator.least:g} is refused."
    for layer in use.layers:
        if bounds := layer.sums and layer.sums.accumulator():
            yield f"- {layer.node}: sums are in int32, from {bounds.low} to {bounds.high}"


def _accuracy(use: _Use) -> Iterator[str]:
    """Yield the largest acceptable error (REQ OP 003), and how far other right implementations can be."""
    yield "The definition states every bit of the outputs: the largest acceptable error of a replication is 0."
    if use.operator is None or not has_tolerance(use.operator):
        return
    if not issubclass(use.operator, Pointwise):
        yield "ONNX states real numbers: ONNX Runtime is within the a-priori bound of any order of the operations."
        return
    limits = [f"{use.operator.largest_ulp:g} ulp"] if use.operator.largest_ulp else []
    limits += [f"{use.operator.largest_difference:g}"] if use.operator.largest_difference else []
    yield f"ONNX states real numbers: ONNX Runtime is within {' and '.join(limits)} of the definition."
    for function in calls(use.operator.definition):
        yield f"- `{function.name}` is within {function.ulp:g} ulp of the real function."

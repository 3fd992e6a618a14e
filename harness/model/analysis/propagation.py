"""Facts on all edges of a graph: the rules of its nodes, forward and backward, until no fact changes.

After R. Liautaud, Optimizing neural network inference on embedded devices (2018), sections 2.1 to 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper

from harness import operators
from harness.core.arrays import Array
from harness.model.graph import opsets_of
from harness.operators.node import DEFAULT_DOMAIN, NEWEST_OPSET, domain_of
from harness.operators.rules import Rules, schema_of
from harness.operators.rules_of_others import RULES
from harness.operators.sizes import Size
from harness.operators.tensor_facts import LONGEST_VALUE, Contradiction, Fact, Facts, Origin

CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")
RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
MOVES = (
    "Gather",
    "Slice",
    "Concat",
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "Identity",
    "Cast",
    "Transpose",
    "Flatten",
    "Expand",
    "Tile",
)
"""The operators that move symbolic sizes: those from a shape to another."""
ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
EXACT = {
    *MOVES,
    *ARITHMETIC,
    "Abs",
    "ConstantOfShape",
    "Div",
    "Equal",
    "Max",
    "Min",
    "Neg",
    "Not",
    "Range",
    "Shape",
    "Size",
}
EXACT |= {"And", "Or", "Greater", "Less", "Sqrt", "Where", "Split", "Pad", "Sign", "Floor", "Ceil", "Mod", "Reciprocal"}
EXACT |= {"Xor", "GreaterOrEqual", "LessOrEqual", "Trilu", "GatherElements", "GatherND", "ScatterND", "CastLike"}
EXACT |= {"ReduceMax", "ReduceMin", "ReduceSum"}
"""The operators of constants whose values follow: each result is moved, compared, or rounded once, as IEEE 754 says.

The order of a sum is that of NumPy.
"""
LARGEST_CONSTANT = 1 << 26  # bytes
MOST_PASSES = 100
MALFORMED = (TypeError, ValueError, IndexError, AttributeError, OverflowError, ZeroDivisionError)
"""The errors of rules that read an attribute or a constant of another form than the operator has."""
CONSTANT_INITIALIZERS = 4
"""The first IR version in which an initializer that is an input too is a default, which a caller can replace."""


@dataclass
class Unanalysed:
    """A node without rules, and the reason."""

    node: str
    reason: str


@dataclass(eq=False)
class Propagation:
    """The facts of a graph, its nodes and their rules by name, and the contradictions and gaps that were found."""

    facts: Facts
    nodes: dict[str, onnx.NodeProto]
    contradictions: list[Contradiction] = field(default_factory=list)
    unanalysed: list[Unanalysed] = field(default_factory=list)
    passes: int = 0
    rules: dict[str, Rules] = field(default_factory=dict)


def node_names(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """Return the nodes by names that are unique: their own, or operator and number."""
    found: dict[str, onnx.NodeProto] = {}
    for index, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{index}"
        while name in found:
            name += "_"
        found[name] = node
    return found


def attribute_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the subgraphs of a node of control flow."""
    return [graph for each in node.attribute for graph in (*([each.g] if each.HasField("g") else []), *each.graphs)]


def propagate(model: onnx.ModelProto, hints: Iterable[tuple[str, str, Any]] = ()) -> Propagation:
    """Return the facts of all tensors; `hints` are (tensor, part, value) of `parse_hint`.

    The first contradiction of each node is kept; its other rules are left out from then on.
    """
    facts, graph = Facts(), model.graph
    found = Propagation(facts, node_names(graph))
    _state(found, graph, model.ir_version, hints)
    opset = max((entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAIN), default=NEWEST_OPSET)
    pending = {name: rules for name, node in found.nodes.items() if (rules := _rules_of(found, name, node, opset))}
    found.rules.update(pending)
    opsets, places = opsets_of(model), {name: place for place, name in enumerate(pending)}
    readers: dict[str, list[str]] = {}
    for name in pending:
        for tensor in (*found.nodes[name].input, *found.nodes[name].output):
            readers.setdefault(tensor, []).append(name)
    waiting = {*pending}
    while waiting and found.passes < MOST_PASSES:
        found.passes += 1
        facts.changed.clear()
        for name in sorted(waiting, key=lambda each: places[each], reverse=found.passes % 2 == 0):
            try:
                _apply(pending[name])
                _follow_values(pending[name], opsets)
            except Contradiction as error:
                found.contradictions.append(error)
                del pending[name]
            except MALFORMED as error:
                found.contradictions.append(_malformed(pending.pop(name), error))
        waiting = {name for tensor in facts.changed for name in readers.get(tensor, ()) if name in pending}
    for fact in facts.by_name.values():
        fact.sizes = {axis: facts.resolved(size) for axis, size in sorted(fact.sizes.items())}
    return found


def _state(found: Propagation, graph: onnx.GraphProto, ir_version: int, hints: Iterable[tuple[str, str, Any]]) -> None:
    """Add the facts that the file and the hints state."""
    defaults = {value.name for value in graph.input} if ir_version >= CONSTANT_INITIALIZERS else set()
    for tensor in graph.initializer:
        _state_constant(found, tensor, has_value=tensor.name not in defaults)
    for name, part, value in hints:
        origin = Origin("", f"--fact {name}:{part}")
        for aspect, each in _hinted(part, value):
            _set(found, found.facts.of(name), aspect, each, origin)
    for kind, values in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        for info in values:
            if info.type.HasField("tensor_type"):
                _state_type(found, info, Origin("", f"the file states {kind} {info.name!r}"))


def _state_constant(found: Propagation, tensor: onnx.TensorProto, *, has_value: bool) -> None:
    fact, origin = found.facts.of(tensor.name), Origin("", f"initializer {tensor.name!r}")
    _set(found, fact, "type", tensor.data_type, origin)
    _set(found, fact, "rank", len(tensor.dims), origin)
    for axis, size in enumerate(tensor.dims):
        _set(found, fact, axis, size, origin)
    if has_value and tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.data_type != onnx.TensorProto.STRING:
        try:
            fact.value, fact.origins["value"] = onnx.numpy_helper.to_array(tensor), origin
        except (ValueError, TypeError, KeyError) as error:
            found.contradictions.append(Contradiction(tensor.name, "", f"its data is malformed: {error}", None, origin))


def _state_type(found: Propagation, info: onnx.ValueInfoProto, origin: Origin) -> None:
    fact, stated = found.facts.of(info.name), info.type.tensor_type
    if stated.elem_type:
        _set(found, fact, "type", stated.elem_type, origin)
    if stated.HasField("shape"):
        _set(found, fact, "rank", len(stated.shape.dim), origin)
    for axis, size in enumerate(stated.shape.dim):
        if size.HasField("dim_value") or size.dim_param:
            known = Size.of(size.dim_value if size.HasField("dim_value") else size.dim_param)
            _set(found, fact, axis, known, origin)


def _set(found: Propagation, fact: Fact, aspect: Any, value: Any, origin: Origin) -> None:
    try:
        found.facts.set(fact, aspect, value, origin)
    except Contradiction as error:
        found.contradictions.append(error)


def _hinted(part: str, value: Any) -> list[tuple[Any, Any]]:
    if part != "shape":
        return [(part, value)]
    sizes, closed = value
    return [
        *([("rank", len(sizes))] if closed else []),
        *((axis, size) for axis, size in enumerate(sizes) if size is not None),
    ]


def _rules_of(found: Propagation, name: str, node: onnx.NodeProto, opset: int) -> Rules | None:
    """Return the rules of a node; None, with a note, if there are none."""
    operator, schema = operators.of_node(node), schema_of(node, opset)
    if attribute_graphs(node):
        found.unanalysed.append(Unanalysed(name, f"{node.op_type}: its subgraphs are not analysed"))
        return None
    full = ".".join(filter(None, (domain_of(node), node.op_type)))
    state = operator.rules if operator and operators.has_rules(operator) else RULES.get(full)
    if state is None:
        found.unanalysed.append(Unanalysed(name, f"{full} has no rules"))
        return None
    rules = Rules(found.facts, node, name, opset, operator.text.roles if operator and schema is None else ())
    try:
        if schema is not None:
            _types_of_schema(rules, schema)
        state(rules)
    except Contradiction as error:
        found.contradictions.append(error)
        return None
    except MALFORMED as error:
        found.contradictions.append(_malformed(rules, error))
        return None
    return rules


def _malformed(rules: Rules, error: Exception) -> Contradiction:
    problem = f"its attributes or constants have another form than those of {rules.proto.op_type}: {error}"
    return rules.broken(problem, "attributes and constants have the form that ONNX states")


def _types_of_schema(rules: Rules, schema: onnx.defs.OpSchema) -> None:
    """Add that numbers of inputs and outputs, and their types, are those that ONNX's schema of the operator lists."""
    node = rules.proto
    for kind, count, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        rules.require(least <= count <= most, f"has {count} {kind}, {node.op_type} has {least} to {most}")
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    for variables, parameters in ((rules.inputs, schema.inputs), (rules.outputs, schema.outputs)):
        for at, variable in enumerate(variables):
            parameter = parameters[min(at, len(parameters) - 1)]
            names = {*allowed.get(parameter.type_str, [parameter.type_str])}
            if variable is not None:
                rules.given(variable.type).then(
                    lambda number, variable=variable, names=names: rules.require(
                        _schema_name(number) in names,
                        f"{variable.role} is {Fact('', number).type_text}, which {node.op_type} does not take",
                    )
                )


def _schema_name(number: int) -> str:
    return f"tensor({onnx.TensorProto.DataType.Name(number).lower()})"


def _apply(rules: Rules) -> None:
    """Apply the rules of a node until none adds a fact or a rule."""
    while True:
        before, waiting = rules.facts.changes, rules.pending
        rules.pending = []
        left = [rule for rule in waiting if not rule()]
        added = bool(rules.pending)
        rules.pending = left + rules.pending
        if not added and len(left) == len(waiting) and rules.facts.changes == before:
            return


def _follow_values(rules: Rules, opsets: Mapping[str, int]) -> None:
    """Add the value of the outputs if all inputs have values: constants, or integers with symbols that are moved."""
    node = rules.proto
    given = [each.fact for each in rules.given_inputs]
    outputs = [each.fact for each in rules.outputs if each]
    if (
        domain_of(node)
        or node.op_type not in EXACT
        or not node.output
        or all(each.value is not None for each in outputs)
    ):
        return
    if any(fact.value is None for fact in given) or (not given and node.op_type != "ConstantOfShape"):
        return
    origin = Origin(rules.name, f"{node.op_type} of known values")
    results = (
        _constants(rules, given, opsets)
        if all(f.concrete is not None for f in given)
        else _symbols(rules, given, opsets)
    )
    for name, value in zip(node.output, results, strict=False):
        if name:
            rules.facts.set(rules.facts.of(name), "value", value, origin)


def _constants(rules: Rules, given: Sequence[Fact], opsets: Mapping[str, int]) -> list[Array]:
    sizes = [np.prod(shape) if (shape := each.fact.shape) else 1 for each in rules.outputs if each]
    if sum(int(size) * 8 for size in sizes) > LARGEST_CONSTANT:
        return []
    return evaluated(rules.proto, {fact.name: fact.value for fact in given if fact.value is not None}, opsets) or []


def evaluated(node: onnx.NodeProto, given: dict[str, Array], opsets: Mapping[str, int]) -> list[Array] | None:
    """Return the outputs of one node for constants, as ONNX's reference evaluator computes them; None if it fails."""
    from onnx.reference import ReferenceEvaluator

    names = [onnx.ValueInfoProto(name=name) for name in given]
    graph = onnx.helper.make_graph(
        [node], "node", names, [onnx.ValueInfoProto(name=name) for name in node.output if name]
    )
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(graph, opsets=dict(opsets)).run(None, given)
    except Exception:  # noqa: BLE001 - its exceptions have no common base; the value stays unknown
        return None
    return [np.asarray(each) for each in found]


def _symbols(rules: Rules, given: Sequence[Fact], opsets: Mapping[str, int]) -> list[Array]:
    """Return integers with symbols after a node that moves them, or adds and multiplies them."""
    node, sized = rules.proto, [fact.value for fact in given if fact.value is not None]
    if sum(value.size for value in sized) > LONGEST_VALUE or any(value.dtype.kind not in "iuO" for value in sized):
        return []
    resolved = [_resolved(rules.facts, value) for value in sized]
    if node.op_type in ARITHMETIC:
        known = [all(each is not None for each in value.ravel()) for value in resolved]
        return [np.asarray(ARITHMETIC[node.op_type](*resolved), object)] if all(known) else []
    if node.op_type not in MOVES or (node.op_type == "Cast" and rules.attribute("to", 0) not in (6, 7)):
        return []
    data = len(given) if node.op_type == "Concat" else 1
    if any(fact.concrete is None for fact in given[data:]):
        return []
    table: list[Any] = []
    codes = {}
    for place, (fact, value) in enumerate(zip(given, resolved, strict=True)):
        codes[fact.name] = (
            np.arange(len(table), len(table) + value.size).reshape(value.shape) if place < data else fact.value
        )
        table += value.ravel().tolist() if place < data else []
    moved = evaluated(node, codes, opsets)  # type: ignore[arg-type] # constants have values
    if moved is None:
        return []
    values = np.empty(moved[0].size, object)
    values[:] = [table[int(at)] for at in moved[0].ravel()]
    return [values.reshape(moved[0].shape)]


def _resolved(facts: Facts, value: Array) -> Array:
    found = np.empty(value.size, object)
    found[:] = [None if each is None else facts.resolved(Size.of(each)) for each in value.ravel().tolist()]
    return found.reshape(value.shape)

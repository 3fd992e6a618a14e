"""Operators that are functions of other operators, and that no layer reads: their functions take their place.

ONNX builds the function of a node from its attributes and from the types of its inputs; others are in `bodies`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx.defs
from onnx import helper

from harness import operators
from harness.core.errors import RequestError
from harness.model.graph import opsets_of
from harness.model.importer import bodies, linear_maps, opsets, selections
from harness.model.transforms.edit import inlined
from harness.operators.node import NEWEST_OPSET, domain_of

DOMAIN = "harness.expanded"
"""The domain of nodes that are to be replaced by their function."""
CAST_LIKE = 15
"""The first opset that has CastLike."""
OTHERWISE_TREATED = {
    ("", name)
    for name in (
        *("CastLike", "Range", "Bernoulli", "SequenceMap", "DynamicQuantizeLinear"),
        *linear_maps.RULES,
        *selections.RULES,
    )
}
"""Functions that other steps compute or convert, or that no network has."""


def inline(model: onnx.ModelProto, names: Sequence[tuple[str, str]], name: str) -> onnx.ModelProto:
    """Return the model `name` with the nodes of functions, (domain, name) each, in the place of their calls."""
    try:
        return opsets.without_weights(model, lambda light: inlined(light, names))
    except Exception as error:  # it has no class of its own
        raise RequestError(f"model {name!r}: its functions cannot be inlined: {error}", "export it again") from error


def expand(model: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, list[str]]:
    """Return the model with functions in the place of operators without a layer, and the names of these.

    A function can have such operators, too.  Raises RequestError as `state` does.
    """
    names: dict[str, None] = {}
    while stated := state(model, name):
        names |= dict.fromkeys(stated)
        model = inline(model, [(DOMAIN, own.name) for own in model.functions if own.domain == DOMAIN], name)
    return model, [*names]


def state(model: onnx.ModelProto, name: str) -> list[str]:
    """Make the nodes without a layer calls of their functions, which are added to the model; return their operators.

    Raises RequestError, with the model `name` and the node, where no function is of its types and its opset.
    """
    candidates = [node for node in model.graph.node if (domain_of(node), node.op_type) in {*_stated(), *bodies.TEXTS}]
    types, names = opsets.types_of(model) if candidates else {}, set()
    for number, node in enumerate(candidates):
        own_types = [types.get(tensor, onnx.TypeProto()) for tensor in node.input]
        function = bodies.function_of(node)
        if function is None and operators.of_node(node) is None:
            function = _of_standard(node, own_types, opsets_of(model), name)
        if function is None:
            continue
        if opsets_of(model).get("", NEWEST_OPSET) < CAST_LIKE:
            _state_types(function, own_types)
        _state_defaults(node, opsets_of(model))
        for entry in function.opset_import:
            entry.version = opsets_of(model).get(entry.domain, entry.version)
        names.add(node.op_type)
        function.domain, function.name = DOMAIN, f"{node.op_type}_{number}"
        node.domain, node.op_type = function.domain, function.name
        model.functions.append(function)
    if names and DOMAIN not in opsets_of(model):
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return sorted(names)


def _state_types(function: onnx.FunctionProto, types: Sequence[onnx.TypeProto]) -> None:
    """Make each CastLike of a function, to the type of one of its inputs, a Cast."""
    kinds = {name: value.tensor_type.elem_type for name, value in zip(function.input, types, strict=False)}
    for part in function.node:
        if part.op_type == "CastLike":
            part.op_type = "Cast"
            part.attribute.append(helper.make_attribute("to", kinds[part.input[1]]))
            del part.input[1:]


@functools.cache
def _stated() -> frozenset[tuple[str, str]]:
    """Return the operators (domain, name) of which ONNX states a function."""
    schemas: Any = onnx.defs.get_all_schemas()  # their stub has no functions
    stated = {(schema.domain, schema.name) for schema in schemas
              if schema.has_function or schema.has_context_dependent_function}  # fmt: skip
    return frozenset(stated - OTHERWISE_TREATED)


def _state_defaults(node: onnx.NodeProto, versions: Mapping[str, int]) -> None:
    """Add the attributes with a default that a node of ONNX does not state."""
    if domain_of(node) in versions and onnx.defs.has(node.op_type, versions[domain_of(node)], domain_of(node)):
        schema = onnx.defs.get_schema(node.op_type, versions[domain_of(node)], domain_of(node))
        stated = {entry.name for entry in node.attribute}
        missing = [entry.default_value for name, entry in schema.attributes.items() if name not in stated]
        node.attribute.extend(value for value in missing if value.type)


def _of_standard(
    node: onnx.NodeProto, types: Sequence[onnx.TypeProto], versions: Mapping[str, int], name: str
) -> onnx.FunctionProto:
    """Return the function of ONNX; raise RequestError where none is of the types of the node and of its opset."""
    version, opset = versions[domain_of(node)], versions.get("", NEWEST_OPSET)
    schema: Any = onnx.defs.get_schema(node.op_type, version, domain_of(node))  # as above
    of_all_types = [known for known in schema.function_opset_versions if known <= version]
    of_types = [known for known in schema.context_dependent_function_opset_versions if known <= version]
    function, reason = onnx.FunctionProto(), "ONNX states none"
    try:
        if of_all_types:
            function.ParseFromString(schema.get_function_with_opset_version(max(of_all_types)))
        elif of_types:
            build = schema.get_context_dependent_function_with_opset_version
            texts = [entry.SerializeToString() for entry in types]
            function.ParseFromString(build(max(of_types), node.SerializeToString(), texts))
    except Exception as error:  # noqa: BLE001 - its exceptions have no common base
        reason = str(error)
    own = opsets_of(function).get("", opset)
    changed = [part.op_type for part in function.node if not opsets.is_same(part, opset, own)]
    if changed or not function.node:
        reason = f"{changed[0]} of opset {own} means something else in opset {opset}" if changed else reason
        raise RequestError(
            f"model {name!r}: node {node.name!r} ({node.op_type}): no function can take its place: {reason}",
            "inputs of float32, and the opset in which ONNX states the function",
        )
    return function

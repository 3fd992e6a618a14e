"""Models of opsets that are too old or too new, in one that is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any

import onnx
import onnx.defs
import onnx.shape_inference
import onnx.version_converter
from onnx import helper, numpy_helper

from harness.core.errors import RequestError
from harness.model.analysis.propagation import attribute_graphs
from harness.model.graph import NEWEST_IR_VERSION, opsets_of
from harness.model.importer.graph import Constants
from harness.model.importer.replacement import Replacement, attribute, replace_nodes, with_attributes
from harness.model.transforms.edit import add_constant
from harness.operators.node import DEFAULT_DOMAIN, NEWEST_OPSET, domain_of

OPSET = 13
DEFAULTS = {
    "BatchNormalization": (6, ("is_test",)),
    "Dropout": (6, ("is_test",)),
    "Selu": (5, ("alpha", "gamma")),
}
"""The last opset in which attributes have another default, which onnx.version_converter takes for that of `OPSET`."""
NUMPY_OPSET = 7
"""The first opset in which operands are repeated along axes as in NumPy."""
IR_VERSIONS_OF_TYPES = (14,)
"""IR versions that add types to NEWEST_IR_VERSION, and nothing else."""
OF_NEWEST = ("BitShift", "Mod")
"""Operators of which the definition is that of ONNX's newest version, which says more of cases left open before."""
REWORDED = {
    *(("Add", 14), ("Sub", 14), ("Mul", 14), ("Div", 14), ("Reshape", 14), ("Shape", 15), ("Cast", 19), ("Cast", 24)),
    *(("ReduceMax", 20), ("ReduceMin", 20), ("Range", 27), ("SpaceToDepth", 28)),
}
"""Versions that describe more types or attributes in other words; what the version before takes means the same."""
RECURRENT = ("LSTM", "GRU", "RNN")
EXCHANGED = [1, 0, 2]
EXCHANGED_INPUTS = {0: EXCHANGED, 5: EXCHANGED, 6: EXCHANGED}
EXCHANGED_OUTPUTS = {0: [2, 0, 1, 3], 1: EXCHANGED, 2: EXCHANGED}
"""The places of X, the states, Y and the last states, with the axes of layout 1 in those of layout 0, and back."""


def lower(model: onnx.ModelProto) -> list[str]:
    """State the newest opset and IR version, and layout 0, in place, where the model means the same; return notes.

    ONNX adds types to operators in most new versions: documentation, attributes, inputs and outputs are the same then.
    ONNX Runtime refuses a type that it does not know.
    """
    notes = []
    version = opsets_of(model).get("", NEWEST_OPSET)
    if (
        version > NEWEST_OPSET
        and not model.functions
        and all(is_same(node, version, NEWEST_OPSET) for node in _nodes(model.graph))
    ):
        for entry in model.opset_import:
            if entry.domain in DEFAULT_DOMAIN:
                entry.version = NEWEST_OPSET
        notes.append(f"opset {version} is {NEWEST_OPSET} now, in which ONNX says the same of all its operators")
    if model.ir_version in IR_VERSIONS_OF_TYPES:
        notes.append(f"IR version {model.ir_version} is {NEWEST_IR_VERSION} now, to which it adds types only")
        model.ir_version = NEWEST_IR_VERSION
    return notes + _lower_layouts(model)


def _lower_layouts(model: onnx.ModelProto) -> list[str]:
    """Write recurrent operators of layout 1, which ONNX Runtime refuses, by those of layout 0; return a note."""
    replaced = replace_nodes(model.graph, dict.fromkeys(RECURRENT, _transpose))
    names = [node.name or node.op_type for node in replaced]
    return [f"layout 1 of {', '.join(map(repr, names))} is 0 between Transposes"] if names else []


def _transpose(to: Replacement, node: onnx.NodeProto) -> None:
    """Write a node of layout 1 with layout 0, and the transpositions before and behind it."""
    if not attribute(node, "layout", 0):
        return
    copy = with_attributes(node, layout=None)
    for place, perm in EXCHANGED_INPUTS.items():
        if place < len(node.input) and node.input[place]:
            copy.input[place] = to.add("Transpose", [node.input[place]], perm=perm)
    to.nodes.append(copy)
    for place, output in enumerate(node.output):
        if output:
            copy.output[place] = to.free(f"{output}/layout_0")
            to.add("Transpose", [copy.output[place]], output=output, perm=EXCHANGED_OUTPUTS[place])


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of the graphs inside."""
    for node in graph.node:
        yield node
        for inner in attribute_graphs(node):
            yield from _nodes(inner)


def is_same(node: onnx.NodeProto, version: int, other: int) -> bool:
    """Return whether ONNX says the same of an operator of one version in another one, types apart."""
    if domain_of(node) or node.op_type in OF_NEWEST:
        return True
    try:
        schemas = [onnx.defs.get_schema(node.op_type, opset, "") for opset in (version, other)]
    except onnx.defs.SchemaError:
        return False
    attributes = {entry.name for entry in node.attribute}.union(*(schema.attributes for schema in schemas[1:]))
    of_version, of_other = (_statement(schema, attributes) for schema in schemas)
    return of_version == of_other


def _statement(schema: onnx.defs.OpSchema, names: Collection[str]) -> tuple[Any, ...]:
    """Return what ONNX says of an operator, without its types and other attributes than these."""
    attributes = [
        (name, entry.type, entry.required, entry.default_value.SerializeToString())
        for name, entry in sorted(schema.attributes.items())
        if name in names
    ]
    parameters = [[(value.name, value.option) for value in values] for values in (schema.inputs, schema.outputs)]
    while (schema.name, schema.since_version) in REWORDED:
        schema = onnx.defs.get_schema(schema.name, schema.since_version - 1, "")
    return schema.doc, attributes, parameters


def converted(model: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, str] | None:
    """Return the model, of an opset before `OPSET`, in that opset, and a note; None for other models.

    Raises RequestError, with the model `name`, where onnx.version_converter fails.
    """
    version = opsets_of(model).get("", OPSET)
    if version >= OPSET:
        return None
    if version < NUMPY_OPSET:
        _require_stated(model, version, name)
        _state_slopes(model, name)
    try:
        model = without_weights(model, lambda light: onnx.version_converter.convert_version(light, OPSET))
    except Exception as error:  # it has no class of its own
        reason = str(error).strip().splitlines()[0]
        raise RequestError(
            f"model {name!r} is of opset {version}, and onnx.version_converter fails: {reason}",
            f"export it with opset {OPSET} or later",
        ) from error
    return model, f"converted from opset {version} to {OPSET} by onnx.version_converter"


def _require_stated(model: onnx.ModelProto, version: int, name: str) -> None:
    """Refuse nodes that leave out attributes whose default means something else in later opsets."""
    for node in _nodes(model.graph):
        last, attributes = DEFAULTS.get(node.op_type, (0, ()))
        missing = [] if domain_of(node) else sorted({*attributes} - {entry.name for entry in node.attribute})
        if missing and version <= last:
            raise RequestError(
                f"model {name!r}: node {node.name or node.output[0]!r} ({node.op_type}): it has no {missing[0]}, whose "
                f"default in opset {version} differs from that in {OPSET}",
                f"state {', '.join(attributes)}, or export it with opset {last + 1} or later",
            )


def _state_slopes(model: onnx.ModelProto, name: str) -> None:
    """Give the slopes of each PRelu, one for each place of the second axis, the axes behind it, too, in place.

    onnx.version_converter leaves them along the last axis.  Raises RequestError where sizes are not known.
    """
    nodes = [node for node in _nodes(model.graph) if node.op_type == "PRelu" and not domain_of(node)]
    if not nodes:
        return
    graph = inferred(model)
    values = (*graph.input, *graph.value_info, *graph.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    slopes = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in nodes:
        source, slope = node.input
        if slope not in slopes or not ranks.get(source):
            raise RequestError(
                f"model {name!r}: node {node.name or node.output[0]!r} (PRelu): its slope is not constant, or the "
                f"number of axes of {source!r} is not known",
                f"export it with opset {NUMPY_OPSET} or later",
            )
        values_of_slope = numpy_helper.to_array(slopes[slope])
        if values_of_slope.size > 1:
            shaped = values_of_slope.reshape(-1, *(1,) * (ranks[source] - 2))
            node.input[1] = add_constant(model.graph, shaped, f"{slope}/{node.output[0]}")


def without_weights(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], onnx.ModelProto]) -> onnx.ModelProto:
    """Return the changed model; `change`, which copies what it reads, sees large initializers without their data."""
    weights = _take_weights(model)
    changed = change(model)
    _put_weights(changed, weights)
    return changed


def inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    """Return a graph with the types and shapes that ONNX infers, and without the data of large initializers."""
    weights = _take_weights(model)
    try:
        return onnx.shape_inference.infer_shapes(model).graph
    finally:
        _put_weights(model, weights)


def types_of(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Return the types of all tensors of which ONNX's inference of shapes finds one."""
    graph = inferred(model)
    types = {tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for tensor in graph.initializer}
    return types | {value.name: value.type for value in chain(graph.input, graph.value_info, graph.output)}


def _take_weights(model: onnx.ModelProto) -> dict[str, bytes]:
    weights: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > Constants.LARGE and tensor.name not in weights:
            weights[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    return weights


def _put_weights(model: onnx.ModelProto, weights: dict[str, bytes]) -> None:
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.raw_data = weights.pop(tensor.name)

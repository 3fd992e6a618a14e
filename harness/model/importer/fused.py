"""A quantised graph -> the operators as which ONNX Runtime runs it, those of `harness.model.parse`.

A group of DequantizeLinear, an operator and QuantizeLinear (QDQ) becomes one quantised operator (QLinearConv, QGemm,
QLinearAdd).  ONNX Runtime looks at neither the scale nor the zero point of a bias, and takes the axis of the weights'
scales for that of the outputs: a file that states others is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness import model as networks
from harness import operators
from harness.core.arrays import Array
from harness.core.errors import RequestError
from harness.model.importer import code_products, opsets
from harness.model.importer.conversion import CODES, INT32
from harness.model.importer.graph import MOVES, Dequantised, Graph
from harness.model.importer.quantised import Canonical
from harness.model.onnx_runtime import products
from harness.model.transforms.edit import declare_functions
from harness.operators.node import Node, domain_of
from harness.operators.tensor import INT8

GROUPS = [
    ("", operator)
    for operator in (
        *("Conv", "MatMul", "Gemm", "Add", "Mul", "Concat", "Relu", "Clip", "LeakyRelu", "Sigmoid"),
        *("MaxPool", "AveragePool", "GlobalAveragePool", "Softmax", "Identity"),
    )
]
"""Float operators that ONNX Runtime may fuse with DequantizeLinear and QuantizeLinear around them."""
INT8_NOTE = (
    "its groups have int8 codes: by its source code, ONNX Runtime has the values of this network on Arm, and on x86-64 "
    "with the session option session.qdqisint8allowed=1; without it, it computes some groups in float32 there"
)
PRODUCTS = ("Conv", "Gemm", "MatMul")


def convert(graph: Graph) -> Canonical:
    """Return the network as ONNX Runtime fuses it; raise RequestError with all nodes that stay in float32."""
    shape = graph.input_shape
    if graph.input_name and (len(shape) < 2 or shape[0] != 1):
        raise RequestError(
            f"model {graph.name!r}: input {graph.input_name!r} has shape {shape}",
            "one vector at a time: a first size of 1, or a free one",
        )
    _require_stated_products(graph)
    model = _optimised(graph.model, graph.name)
    code_products.expand(model)
    _write_as_qgemm(model)
    _write_as_slices(model)
    _separate_relus(model)
    _require_operators(graph, model)
    _clean(model, graph)
    network = networks.parse(model.SerializeToString(), graph.name)
    given = {output for node in graph.model.graph.node for output in node.output}
    codes = tuple(layer.output.name for layer in network.layers if layer.dtype in CODES and layer.output.name in given)
    quantisers = [sum(node.op_type == "QuantizeLinear" for node in each.graph.node) for each in (graph.model, model)]
    groups = quantisers[0] - quantisers[1]
    int8_groups = groups > 0 and any(layer.dtype == INT8 for layer in network.layers)
    notes = [f"{groups} QDQ groups are the quantised operators as which ONNX Runtime runs them"] if groups > 0 else []
    notes += [INT8_NOTE] if int8_groups else []
    return Canonical(model, codes, from_qdq=False, notes=tuple(notes), int8_groups=int8_groups)


def _optimised(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Return the model as ONNX Runtime fuses it, in which calls of local functions stay as they are.

    ONNX Runtime has the functions inlined: the calls are left out of its model, in which their results are inputs, and
    what they read are outputs.
    """
    local = {(function.domain, function.name) for function in model.functions}
    calls = [node for node in model.graph.node if (node.domain, node.op_type) in local]
    if not calls:
        return products.optimised(model.SerializeToString(), name, fuse_only=True)
    types, rest = opsets.types_of(model), onnx.ModelProto()
    rest.CopyFrom(model)
    for node in calls:
        rest.graph.node.remove(node)
    written = dict.fromkeys(tensor for node in calls for tensor in node.output)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    ends = {value.name for value in (*model.graph.input, *model.graph.output)} | stored.keys() | {""}
    read = {tensor for node in calls for tensor in node.input} - ends - written.keys()
    outputs = [value for value in model.graph.output if value.name not in written]
    outputs += [helper.make_value_info(tensor, types[tensor]) for tensor in sorted(read)]
    inputs = [helper.make_value_info(tensor, types[tensor]) for tensor in written]
    _set_ends(rest.graph, [*model.graph.input, *inputs], outputs)
    fused = products.optimised(rest.SerializeToString(), name, fuse_only=True)
    _set_ends(fused.graph, model.graph.input, model.graph.output)
    kept = {tensor.name for tensor in fused.graph.initializer}
    missing = {tensor for node in calls for tensor in node.input} & stored.keys() - kept
    fused.graph.initializer.extend(stored[tensor] for tensor in sorted(missing))
    _insert(fused.graph, calls)
    declare_functions(fused)
    return fused


def _set_ends(
    graph: onnx.GraphProto, inputs: Iterable[onnx.ValueInfoProto], outputs: Iterable[onnx.ValueInfoProto]
) -> None:
    del graph.input[:], graph.output[:]
    graph.input.extend(inputs)
    graph.output.extend(outputs)


def _insert(graph: onnx.GraphProto, calls: Sequence[onnx.NodeProto]) -> None:
    """Add nodes: the next node is always the first one whose inputs are known."""
    waiting = [*calls, *graph.node]
    known = {value.name for value in (*graph.input, *graph.initializer)} | {""}
    nodes = list[onnx.NodeProto]()
    while waiting:
        place = next(place for place, node in enumerate(waiting) if known.issuperset(node.input))
        nodes.append(onnx.NodeProto.FromString(waiting.pop(place).SerializeToString()))
        known.update(nodes[-1].output)
    del graph.node[:]
    graph.node.extend(nodes)


def _require_operators(graph: Graph, model: onnx.ModelProto) -> None:
    """Refuse operators that are unknown, most of which ONNX Runtime makes of float operators between codes."""
    unknown = [node for node in model.graph.node if operators.of_node(node) is None]
    left = [node for node in unknown if ("", node.op_type.removeprefix("Fused")) in GROUPS] or unknown
    if left:
        names = ", ".join(f"{node.name!r} ({node.op_type})" for node in left)
        is_float = ("", left[0].op_type.removeprefix("Fused")) in GROUPS
        raise RequestError(
            f"model {graph.name!r}: ONNX Runtime runs {names}, "
            + ("in float32" if is_float else "which the harness does not support"),
            "every operator between DequantizeLinear (with zero points) on all that it reads, and QuantizeLinear to "
            "the same type, and a Relu only before the least code as zero point; or quantise it in the operator format "
            "(QuantFormat.QOperator); --drop-final removes a Softmax at the end"
            if is_float
            else f"supported: {', '.join(name for _, name in operators.by_onnx_name())}",
        )


def _write_as_qgemm(model: onnx.ModelProto) -> None:
    """Replace every QLinearMatMul with constant weights by a QGemm without bias, which has the same multiplier."""
    constants = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QLinearMatMul" and node.input[3] in constants:
            node.op_type, node.domain = "QGemm", "com.microsoft"
            node.input.insert(6, "")


def _write_as_slices(model: onnx.ModelProto) -> None:
    """Replace every Split of stated sizes by a Slice for each output; ONNX Runtime makes one of such Slices."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        given = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        sizes = given.get("split")
        if len(node.input) > 1 and node.input[1] in constants:
            sizes = numpy_helper.to_array(constants[node.input[1]]).tolist()
        if node.op_type != "Split" or sizes is None:
            model.graph.node.append(node)
            continue
        for number, (output, size) in enumerate(zip(node.output, sizes, strict=True)):
            start = sum(sizes[:number])
            bounds = {"starts": start, "ends": start + size, "axes": given.get("axis", 0)}
            names = [f"{output}/{what}" for what in bounds]
            for name, value in zip(names, bounds.values(), strict=True):
                model.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
            model.graph.node.append(helper.make_node("Slice", [node.input[0], *names], [output], f"{output}/Slice"))


def _separate_relus(model: onnx.ModelProto) -> None:
    """Replace every FusedConv with a Relu, which ONNX Runtime makes of these two nodes, by them again."""
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.append(node)
        activation = {entry.name: entry.s for entry in node.attribute}.get("activation")
        if node.op_type == "FusedConv" and activation == b"Relu":
            sum_node, output = model.graph.node[-1], node.output[0]
            kept = [entry for entry in node.attribute if not entry.name.startswith("activation")]
            del sum_node.attribute[:]
            sum_node.attribute.extend(kept)
            sum_node.op_type, sum_node.domain, sum_node.output[0] = "Conv", "", f"{output}/sums"
            model.graph.node.append(helper.make_node("Relu", [f"{output}/sums"], [output], f"{output}/Relu"))


def _clean(model: onnx.ModelProto, graph: Graph) -> None:
    """Take any number of vectors; keep the file's metadata and the domains that are in use."""
    used = {domain_of(node) for node in model.graph.node} | {""}
    opsets = {entry.domain: entry.version for entry in model.opset_import} | {"com.microsoft": 1}
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, opsets[domain]) for domain in sorted(used))
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = "vectors"
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for tensor in model.graph.initializer:
        if tensor.name in shapes:
            asked = numpy_helper.to_array(tensor).copy()
            if asked.size and asked[0] == 1:  # one vector: as many as there are
                asked[0] = 0
                tensor.CopyFrom(numpy_helper.from_array(asked, tensor.name))
    model.graph.name = graph.model.graph.name or graph.name


def _require_stated_products(graph: Graph) -> None:
    """Refuse products whose bias or weights do not state what ONNX Runtime takes them for."""
    scales = {node.proto.output[0]: _constant(node, 1) for node in graph.nodes if node.operator == "DequantizeLinear"}
    writers = {node.proto.output[0]: node for node in graph.nodes}
    for node in graph.nodes:
        if node.operator not in PRODUCTS or domain_of(node.proto):
            continue
        weights = graph.dequantised.get(node.inputs[1])
        tensor = node.inputs[0]
        while (writer := writers.get(tensor)) is not None and writer.operator in MOVES:
            tensor = writer.inputs[0]  # ONNX Runtime moves DequantizeLinear behind it
        source = scales.get(tensor)
        if weights is None or source is None:
            continue  # ONNX Runtime leaves it in float32: refused as that
        outputs = _output_axis(node, weights.codes)
        if weights.scale.size > 1 and weights.axis % weights.codes.ndim != outputs:
            raise weights.node.refusal(
                f"has its scales along axis {weights.axis} of the weights", f"axis {outputs}, one scale for each output"
            )
        if node.has(2):
            _require_bias(node, graph.dequantised.get(node.inputs[2]), source * weights.scale.reshape(-1))


def _output_axis(node: Node, codes: Array) -> int:
    transposed = any(entry.name == "transB" and entry.i for entry in node.proto.attribute)
    return 0 if node.operator == "Conv" or transposed else codes.ndim - 1


def _require_bias(node: Node, bias: Dequantised | None, expected: Array) -> None:
    """Require an int32 bias with exactly the scale float32(x_scale * w_scale) and zero point 0."""
    if bias is None:
        raise node.refusal(
            f"the bias {node.inputs[2]!r} is float32: onnxruntime would round it to int32 multiples of x_scale * "
            "w_scale",
            "a bias stored as int32 before a DequantizeLinear of that scale",
        )
    given, wanted = np.broadcast_arrays(bias.scale.reshape(-1), expected.astype(np.float32))
    if bias.codes.dtype != INT32 or bias.zero_point.any() or (given != wanted).any():
        raise bias.node.refusal(
            f"the bias is {bias.codes.dtype} of scale {_first(given, wanted)}, x_scale * w_scale is "
            f"{_first(wanted, given)}; onnxruntime would take it for int32 of that scale with zero point 0",
            "an int32 bias with the float32 product x_scale * w_scale as its scale and zero point 0",
        )


def _first(values: Array, others: Array) -> Array:
    """Return the first value that differs from the others, or the first."""
    different: Iterable[Array] = values[values != others]
    return next(iter(different), values[0])


def _constant(node: Node, position: int) -> Array:
    return np.asarray(node.constants[node.inputs[position]]).reshape(-1)

"""Rules by family that write each operator behind a new axis of vectors; see `vector_axis`.

elements      activations get the number of axes of the result; constants stay
renaming      no node: the values are the same, in the same order
axis, axes    axes that count from the front are one more; negative ones of `AXES` become positive
parameters    an entry for the axis of vectors comes before the others (Transpose, Tile, Expand, Pad, ...)
products      of matrices: factors of one axis get a second one, a constant left factor becomes a right one
recurrences   one operator of domain harness for each direction
images        operators with a batch axis of their own: without it if its size is 1, else one node for each place
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness import operators
from harness.core.errors import RequestError
from harness.model.importer import axis_products
from harness.model.importer.axis_products import images
from harness.model.importer.axis_recurrences import recurrence
from harness.model.importer.replacement import Shape, attribute, with_attributes
from harness.model.importer.rewriting import Rewriting, stated
from harness.operators.codes import CodeFunction, Conversion
from harness.operators.elements import Elements
from harness.operators.node import domain_of
from harness.operators.pointwise import Pointwise
from harness.operators.tensor import FLOAT16, FLOAT32

AXES_OF_RESIZE = 18
"""The first opset in which Resize has the attribute `axes`."""
Rule = Callable[[Rewriting, onnx.NodeProto], None]


def require_known(graph: onnx.GraphProto, name: str) -> None:
    """Raise RequestError, with the model `name`, for the first node without a rule."""
    for node in graph.node:
        rule_of(node, name)


def rule_of(node: onnx.NodeProto, name: str) -> Rule:
    """Return the rule of an operator; raise RequestError, with the model `name`, if there is none."""
    rule, operator = RULES.get((domain_of(node), node.op_type)), operators.of_node(node)
    if rule is not None:
        return rule
    if operator is not None and issubclass(operator, ELEMENTS):
        return _elements
    operator_name = ".".join(filter(None, (domain_of(node), node.op_type)))
    raise RequestError(
        f"model {name!r}: node {node.name or node.op_type!r} ({node.op_type}): no rule puts an axis of vectors in "
        f"front of operator {operator_name}",
        "a first axis that is the number of vectors",
    )


def write(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write a node of the file; raise RequestError where it has no meaning for any number of vectors."""
    if not any(to.is_activation(tensor) for tensor in node.input):
        to.nodes.append(with_attributes(node))
        for entry in node.attribute:
            if node.op_type == "Constant" and entry.name == "value":
                to.constants[node.output[0]] = numpy_helper.to_array(entry.t)
        return
    empty = [tensor for tensor in node.output if tensor and 0 in to.shapes[tensor]]
    if empty:
        raise to.refusal(node, f"its output {empty[0]!r} has no values", "sizes of 1 or more")
    to.name = node.name
    rule_of(node, to.model)(to, node)


def _elements(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write a function of values at one place, with broadcasting."""
    activations = [tensor for tensor in node.input if to.is_activation(tensor)]
    shape, attributes = to.shapes[node.output[0]], _axis_of_scales(to, node)
    is_alike = not attributes and all(to.shapes[tensor] == shape for tensor in activations)
    constants = [tensor for tensor in node.input if tensor and not to.is_activation(tensor)]
    home = _common_form(to, activations) if is_alike else None
    others = _without_first_axis(to, constants, shape, home) if home is not None else None
    if others is not None:
        inputs = [to.form(tensor, home) if to.is_activation(tensor) else others.get(tensor, tensor)
                  for tensor in node.input]  # fmt: skip
        to.write(node, inputs, home)
        return
    inputs = []
    for tensor in node.input:
        if to.is_activation(tensor):
            own = stated(to.shapes[tensor])
            tensor = to.form(tensor, (1,) * (len(stated(shape)) - len(own)) + own)  # noqa: PLW2901
        inputs.append(tensor)
    to.write(node, inputs, attributes=attributes)


def _common_form(to: Rewriting, activations: list[str]) -> Shape | None:
    """Return a shape in which all activations are written, if possible their own; None if there is none."""
    own = stated(to.shapes[activations[0]])
    common = [shape for shape in to.forms[activations[0]] if all(shape in to.forms[tensor] for tensor in activations)]
    return own if own in common else next(iter(common), None)


def _without_first_axis(to: Rewriting, constants: list[str], shape: Shape, home: Shape) -> dict[str, str] | None:
    """Return constants with at most the axes of `home`, by the names of those that have more.

    None if one of several values is no operand of shape `home`, which is `shape` without a first size of 1.
    """
    shorter = {}
    for tensor in constants:
        array = to.values(tensor)
        if array is None:
            return None
        sizes = array.shape
        is_number = math.prod(sizes) == 1
        if not is_number and shape != (1, *home):
            return None
        if len(sizes) > len(home):
            shorter[tensor] = to.constant(array.reshape(() if is_number else sizes[1:]), array.dtype)
    return shorter


def _axis_of_scales(to: Rewriting, node: onnx.NodeProto) -> dict[str, int]:
    """Return the attribute `axis` of QuantizeLinear and DequantizeLinear with a scale for each place of an axis."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return {}
    scale = to.input_values(node, 1)
    axis = int(attribute(node, "axis", 1))
    return {} if scale is None or scale.size == 1 else {"axis": axis + (axis >= 0)}


def _rename(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write no node for values that keep their order."""
    to.one_activation(node)
    to.renames(node.output[0], node.input[0])


def _along(default: int) -> Rule:
    """Return the rule of operators of one activation with an attribute `axis`."""

    def rule(to: Rewriting, node: onnx.NodeProto) -> None:
        to.one_activation(node)
        axis = int(attribute(node, "axis", default))
        attributes = {"axis": axis + (axis >= 0)}
        if not to.shapes[node.output[0]] and node.op_type in ("ArgMax", "ArgMin"):
            attributes["keepdims"] = 1  # a number has one axis
        to.write(node, to.own_forms(node), attributes=attributes)

    return rule


def _joined_codes(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write a concatenation of codes, each with its scale and zero point, which are constants."""
    if not all(to.is_activation(tensor) for tensor in node.input[2::3]):
        raise to.refusal(node, "joins constants", "activations only")
    axis = int(attribute(node, "axis", 0))
    to.write(node, to.own_forms(node), attributes={"axis": axis + (axis >= 0)})


def _concat(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write constants as paddings of the activations next to them: x and -0.0, plus -0.0 and the constant."""
    axis = int(attribute(node, "axis", 0)) % len(to.shapes[node.output[0]])
    first = next(place for place, tensor in enumerate(node.input) if to.is_activation(tensor))
    parts: list[list[str]] = []
    for tensor in node.input[first:]:
        if to.is_activation(tensor):
            parts.append([tensor])
        else:
            parts[-1].append(tensor)
    sources = []
    for place, (tensor, *behind) in enumerate(parts):
        before = list(node.input[:first]) if place == 0 else []
        sources.append(_padded(to, node, tensor, (before, behind), axis) if before or behind else to.form(tensor))
    if len(sources) > 1:
        to.write(node, sources, attributes={"axis": axis + 1})
    else:
        to.write(helper.make_node("Identity", sources, node.output, node.name), sources)


def _padded(to: Rewriting, node: onnx.NodeProto, tensor: str, constants: tuple[list[str], list[str]], axis: int) -> str:
    """Return an activation with constants before and behind it along an axis."""
    parts = [[to.required_values(node, list(node.input).index(name)) for name in names] for names in constants]
    [dtype] = {array.dtype for part in parts for array in part}
    if dtype not in (FLOAT32, FLOAT16):
        raise to.refusal(node, f"joins constants of type {dtype}", "activations only, or float32 or float16")
    shape = to.shapes[tensor]
    pads = np.zeros((2, len(shape) + 1), np.int64)
    pads[:, axis + 1] = [sum(array.shape[axis] for array in part) for part in parts]
    zero = to.constant(-0.0, np.float32)
    sizes = to.constant(pads.reshape(-1))
    values = to.constant(np.concatenate([*parts[0], np.full(shape, -0.0, dtype), *parts[1]], axis), np.float32)
    if dtype == FLOAT32:
        return to.add("Add", [to.add("Pad", [to.form(tensor), sizes, zero]), values])
    single = to.add("Cast", [to.form(tensor)], to=onnx.TensorProto.FLOAT)
    joined = to.add("Add", [to.add("Pad", [single, sizes, zero]), values])
    return to.add("Cast", [joined], to=onnx.TensorProto.FLOAT16)


def _gather(to: Rewriting, node: onnx.NodeProto) -> None:
    data, indices = node.input
    axis = int(attribute(node, "axis", 0))
    if to.is_activation(data) and not to.is_activation(indices):
        places = to.required_values(node, 1)
        if not to.shapes[node.output[0]]:
            indices = to.constant(places.reshape(1), places.dtype)
        to.write(node, [to.form(data), indices], attributes={"axis": axis + (axis >= 0)})
    elif not to.is_activation(data) and axis == 0:
        to.write(node, [data, to.form(indices)], (*stated(to.shapes[indices]), *to.shape_of(data)[1:]))
    else:
        raise to.refusal(node, "its values and its indices depend on the vector", "constant indices")


def _reduce(to: Rewriting, node: onnx.NodeProto) -> None:
    rank, axes = len(to.one_activation(node)), attribute(node, "axes", None)
    if len(node.input) > 1:
        constant = to.input_values(node, 1)
        axes = constant if constant is None else constant.tolist()
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        _rename(to, node)
        return
    over = sorted(axis % rank + 1 for axis in axes) if axes and rank else list(range(1, rank + 1)) or [1]
    is_number = not to.shapes[node.output[0]]
    attributes: dict[str, Any] = {"keepdims": 1} if is_number else {}
    inputs = [to.form(node.input[0])]
    if len(onnx.defs.get_schema(node.op_type, to.opset, "").inputs) > 1:
        inputs.append(to.constant(over))
    else:
        attributes["axes"] = over
    to.write(node, inputs, (1,) * max(rank, 1) if is_number else None, attributes)


def _transpose(to: Rewriting, node: onnx.NodeProto) -> None:
    rank = len(to.one_activation(node))
    perm = attribute(node, "perm", None) or list(range(rank))[::-1]
    to.write(node, to.own_forms(node), attributes={"perm": [0, *(axis + 1 for axis in perm)]})


def _tile(to: Rewriting, node: onnx.NodeProto) -> None:
    to.one_activation(node)
    repeats = to.required_values(node, 1)
    to.write(node, [to.form(node.input[0]), to.constant([1, *repeats])])


def _expand(to: Rewriting, node: onnx.NodeProto) -> None:
    own, shape = stated(to.one_activation(node)), stated(to.shapes[node.output[0]])
    source = to.form(node.input[0], (1,) * (len(shape) - len(own)) + own)
    to.write(node, [source, to.constant([1, *shape])])


def _slice(to: Rewriting, node: onnx.NodeProto) -> None:
    rank = len(to.one_activation(node))
    starts, axes = to.required_values(node, 1), to.input_values(node, 3)
    sliced = np.arange(len(starts)) if axes is None else axes % rank
    axes_behind = to.constant(sliced + 1, starts.dtype)
    to.write(node, [to.form(node.input[0]), *node.input[1:3], axes_behind, *node.input[4:]])


def _pad(to: Rewriting, node: onnx.NodeProto) -> None:
    rank = len(to.one_activation(node))
    pads, axes = to.input_values(node, 1), to.input_values(node, 3)
    inputs = [to.form(node.input[0]), *node.input[1:]]
    if axes is not None:
        inputs[3] = to.constant(axes % rank + 1, axes.dtype)
    elif pads is not None:
        begins, ends = np.split(pads, 2)
        inputs[1] = to.constant([0, *begins, 0, *ends])
    to.write(node, inputs)


def _cumulate(to: Rewriting, node: onnx.NodeProto) -> None:
    rank = len(to.one_activation(node))
    axis = to.required_values(node, 1)
    to.write(node, [to.form(node.input[0]), to.constant(axis % rank + 1, axis.dtype)])


def _resize(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write an image operator whose sizes leave out its own batch axis."""
    sizes, rank = to.input_values(node, 3), len(to.shapes[node.input[0]])
    if (
        sizes is not None
        and len(sizes) == rank
        and to.opset >= AXES_OF_RESIZE
        and attribute(node, "axes", None) is None
    ):
        inputs = [*node.input[:3], to.constant(sizes[1:])]
        node = with_attributes(node, axes=range(1, rank))
        node.input[:] = inputs
    images(to, node)


def _selection(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write a selection along the third of four axes; the first one becomes a part of the second."""
    lead = max(to.shape_of(tensor)[0] for tensor in node.input)
    inputs = []
    for tensor in node.input:
        first, outer, *others = to.shape_of(tensor)
        if to.is_activation(tensor):
            inputs.append(to.form(tensor, (first * outer, *others)))
        else:
            values = to.required_values(node, list(node.input).index(tensor))
            rows = np.broadcast_to(values, (lead if outer > 1 or first > 1 else 1, *values.shape[1:]))
            inputs.append(to.constant(rows.reshape(1, -1, *others), values.dtype))
    first, outer, *others = to.shapes[node.output[0]]
    to.write(node, inputs, (first * outer, *others))


def _unchanged(to: Rewriting, node: onnx.NodeProto) -> None:
    """Write an operator of the last axes."""
    to.one_activation(node)
    to.write(node, to.own_forms(node))


ELEMENTS = (Pointwise, Elements, CodeFunction, Conversion)
"""The families of operators whose values depend on values at one place only, but for those in `RULES`."""
FAMILIES: Mapping[Rule, str] = {
    _elements: "Dropout",
    _rename: "Identity Reshape Flatten Squeeze Unsqueeze",
    _along(-1): "Softmax LogSoftmax Hardmax TopK LayerNormalization LpNormalization RMSNormalization "
    "com.microsoft.QLinearSoftmax",
    _along(0): "ArgMax ArgMin Split",
    _concat: "Concat",
    _joined_codes: "com.microsoft.QLinearConcat",
    _gather: "Gather",
    _reduce: "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum "
    "ReduceLogSumExp",
    _transpose: "Transpose",
    _tile: "Tile",
    _expand: "Expand",
    _slice: "Slice",
    _pad: "Pad",
    _cumulate: "CumSum CumProd",
    axis_products.mat_mul: "MatMul",
    axis_products.gemm: "Gemm",
    axis_products.rows_of_codes: "QLinearMatMul com.microsoft.QGemm",
    _resize: "Resize",
    _unchanged: "Trilu Det",
    recurrence: "LSTM GRU RNN",
    _selection: "harness.GatherElements harness.ScatterElements harness.NonMaxSuppression",
    images: "Conv ConvTranspose ConvInteger QLinearConv AveragePool MaxPool LpPool GlobalAveragePool GlobalMaxPool "
    "GlobalLpPool BatchNormalization InstanceNormalization GroupNormalization LRN Upsample DepthToSpace "
    "SpaceToDepth com.microsoft.QLinearAveragePool com.microsoft.QLinearGlobalAveragePool harness.LSTM harness.GRU "
    "harness.RNN",
}
RULES = {tuple(name.rpartition(".")[::2]): rule for rule, names in FAMILIES.items() for name in names.split()} | {
    ("", "Constant"): _elements
}
"""The rules by domain and operator."""

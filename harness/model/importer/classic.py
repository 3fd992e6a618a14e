"""Operators of ai.onnx.ml on numbers as operators of ONNX's own domain; trees are in `trees`.

Scaler                  (x - offset) * scale
Binarizer               1 where x > threshold, else 0
ArrayFeatureExtractor   Gather along the last axis
Normalizer              x / sum |x| or x / sqrt(sum x^2); a row of zeros stays
LabelEncoder            the value of the key that equals x, else the default
LinearRegressor         x * coefficients^T + intercepts
LinearClassifier        the same, and the label of the first greatest score
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.core.arrays import Array
from harness.model.graph import opsets_of
from harness.model.importer import opsets, trees
from harness.model.importer.replacement import Replacement, Unknown, attribute, has_rule, operators_of, replace_nodes

DOMAIN = "ai.onnx.ml"
TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE)
KEEP_TYPE = ("ArrayFeatureExtractor", "Binarizer", "Normalizer", "Scaler")
"""Operators whose output has the type of the input; ONNX infers none."""
Writer = Callable[[Replacement, onnx.NodeProto, Any], None]
"""Function that adds the nodes of a node for a type of its input; it raises Unknown for other forms."""


def expand(model: onnx.ModelProto) -> list[str]:
    """Replace the nodes in place; return a note of them.  Raises RequestError for forms without a meaning."""
    if not has_rule(model.graph, WRITERS, DOMAIN):
        return []
    types = {name: value.tensor_type.elem_type for name, value in opsets.types_of(model).items()}

    def write(to: Replacement, node: onnx.NodeProto) -> None:
        kind = types.get(node.input[0], 0)
        if kind in TYPES or node.op_type == "LabelEncoder":
            WRITERS[node.op_type](to, node, helper.tensor_dtype_to_np_dtype(kind))
            if node.op_type in KEEP_TYPE:
                types[node.output[0]] = kind

    replaced = operators_of(replace_nodes(model.graph, dict.fromkeys(WRITERS, write), domain=DOMAIN))
    if "" not in opsets_of(model):
        model.opset_import.append(helper.make_opsetid("", opsets.OPSET))
    return [f"{', '.join(replaced)} are operators of ONNX's own domain"] if replaced else []


def _scaler(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    offset, scale = (to.constant(attribute(node, role, None), dtype) for role in ("offset", "scale"))
    to.add("Mul", [to.add("Sub", [node.input[0], offset]), scale])


def _binarizer(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    threshold = to.constant(attribute(node, "threshold", 0.0), dtype)
    is_above = to.add("Greater", [node.input[0], threshold])
    to.add("Cast", [is_above], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _features(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:  # noqa: ARG001 - of any type
    constants = {tensor.name: tensor for tensor in to.graph.initializer}
    if node.input[1] not in constants:
        raise Unknown(node.name)
    places = to.constant(numpy_helper.to_array(constants[node.input[1]]).reshape(-1))
    to.add("Gather", [node.input[0], places], axis=-1)


def _normalizer(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    norm = attribute(node, "norm", b"MAX").decode()
    if norm not in ("L1", "L2"):
        raise to.refusal(node, f"norm is {norm}, of which ONNX does not state the sign", "L1 or L2")
    x, least = node.input[0], to.constant(np.finfo(dtype).smallest_subnormal, dtype)
    terms = to.add("Abs", [x]) if norm == "L1" else to.add("Mul", [x, x])
    total = to.add("Max", [to.add("ReduceSum", [terms, to.constant([-1])]), least])
    to.add("Div", [x, total if norm == "L1" else to.add("Sqrt", [total])])


def _label_encoder(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    keys, values = _table(node, "keys"), _table(node, "values")
    if keys is None or values is None or keys.dtype != dtype or values.dtype.kind not in "if":
        raise Unknown(node.name)
    if len(keys) > trees.MOST_KEYS or np.isnan(keys).any():  # Equal is false for NaN
        raise Unknown(node.name)
    default = attribute(node, "default_tensor", None)
    if default is not None:
        number: Any = numpy_helper.to_array(default).reshape(-1)[0]
    else:
        is_float = values.dtype.kind == "f"
        number = attribute(node, "default_float", -0.0) if is_float else attribute(node, "default_int64", -1)
    trees.selected(to, node.input[0], zip(keys, values, strict=True), number, (dtype, values.dtype))


def _table(node: onnx.NodeProto, side: str) -> Array | None:
    """Return the keys or the values if they are numbers."""
    tensor = attribute(node, f"{side}_tensor", None)
    if tensor is not None:
        return numpy_helper.to_array(tensor).reshape(-1)
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        values = attribute(node, f"{side}_{kind}", None)
        if values is not None:
            return np.asarray(values, dtype)
    return None


def _scores(to: Replacement, node: onnx.NodeProto, dtype: Any, rows: int, output: str = "") -> str:
    """Add the linear functions and their transformation; return the scores."""
    coefficients = np.asarray(attribute(node, "coefficients", []), dtype).reshape(rows, -1)
    intercepts = attribute(node, "intercepts", None)
    product = to.add("MatMul", [node.input[0], to.constant(coefficients.T, dtype)])
    total = product if intercepts is None else to.add("Add", [product, to.constant(intercepts, dtype)])
    return trees.transformed(to, node, total, output)


def _linear_regressor(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    _scores(to, node, dtype, int(attribute(node, "targets", 1)))


def _linear_classifier(to: Replacement, node: onnx.NodeProto, dtype: Any) -> None:
    labels = attribute(node, "classlabels_ints", None)
    if not trees.are_labels(labels) or len(attribute(node, "intercepts", labels)) != len(labels):
        raise Unknown(node.name)
    scores = _scores(to, node, dtype, len(labels), node.output[1])
    trees.label(to, scores, labels)


WRITERS: Mapping[str, Writer] = {
    "ArrayFeatureExtractor": _features,
    "Binarizer": _binarizer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
    "TreeEnsemble": trees.ensemble,
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
}

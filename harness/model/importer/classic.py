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
from harness.model.importer.added import Added, replace_nodes
from harness.model.importer.logic import types_of
from harness.model.importer.rewriting import attribute

DOMAIN = "ai.onnx.ml"
TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE)
KEEP_TYPE = ("ArrayFeatureExtractor", "Binarizer", "Normalizer", "Scaler")
"""Operators whose output has the type of the input; ONNX infers none."""
Writer = Callable[[Added, onnx.NodeProto, Any], bool]
"""Function that adds the nodes of a node for a type of its input; it returns False for a form that it does not know."""


def expand(model: onnx.ModelProto) -> list[str]:
    """Replace the nodes in place; return a note of them.  Raises RequestError for forms without a meaning."""
    if not any(node.domain == DOMAIN for node in model.graph.node):
        return []
    types, replaced = types_of(model), dict[str, None]()
    types |= {value.name: value.type.tensor_type.elem_type for value in model.graph.input}

    def replacement(place: int, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        write = WRITERS.get(node.op_type) if node.domain == DOMAIN else None
        kind = types.get(node.input[0], 0)
        added = Added(model.graph, f"{node.name or node.op_type}_{place}")
        is_known = kind in TYPES or node.op_type == "LabelEncoder"
        if write is None or not is_known or not write(added, node, helper.tensor_dtype_to_np_dtype(kind)):
            return [node]
        if node.op_type in KEEP_TYPE:
            types[node.output[0]] = kind
        replaced[node.op_type] = None
        return added.nodes

    replace_nodes(model.graph, replacement)
    if "" not in opsets_of(model):
        model.opset_import.append(helper.make_opsetid("", opsets.OPSET))
    return [f"{', '.join(replaced)} are operators of ONNX's own domain"] if replaced else []


def _scaler(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:
    offset, scale = (added.constant(attribute(node, role, None), dtype) for role in ("offset", "scale"))
    added.add("Mul", [added.add("Sub", [node.input[0], offset]), scale], node.output[0])
    return True


def _binarizer(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:
    threshold = added.constant(attribute(node, "threshold", 0.0), dtype)
    is_above = added.add("Greater", [node.input[0], threshold])
    added.add("Cast", [is_above], node.output[0], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    return True


def _features(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:  # noqa: ARG001 - of any type
    constants = {tensor.name: tensor for tensor in added.graph.initializer}
    if node.input[1] not in constants:
        return False
    places = added.constant(numpy_helper.to_array(constants[node.input[1]]).reshape(-1))
    added.add("Gather", [node.input[0], places], node.output[0], axis=-1)
    return True


def _normalizer(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:
    norm = attribute(node, "norm", b"MAX").decode()
    if norm not in ("L1", "L2"):
        raise added.refusal(node, f"norm is {norm}, of which ONNX does not state the sign", "L1 or L2")
    x, least = node.input[0], added.constant(np.finfo(dtype).smallest_subnormal, dtype)
    terms = added.add("Abs", [x]) if norm == "L1" else added.add("Mul", [x, x])
    total = added.add("Max", [added.add("ReduceSum", [terms, added.constant([-1])]), least])
    added.add("Div", [x, total if norm == "L1" else added.add("Sqrt", [total])], node.output[0])
    return True


def _label_encoder(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:
    keys, values = _table(node, "keys"), _table(node, "values")
    if keys is None or values is None or keys.dtype != dtype or values.dtype.kind not in "if":
        return False
    if len(keys) > trees.MOST_KEYS or np.isnan(keys).any():  # Equal is false for NaN
        return False
    default = attribute(node, "default_tensor", None)
    if default is not None:
        number: Any = numpy_helper.to_array(default).reshape(-1)[0]
    else:
        is_float = values.dtype.kind == "f"
        number = attribute(node, "default_float", -0.0) if is_float else attribute(node, "default_int64", -1)
    trees.selected(added, node.input[0], zip(keys, values, strict=True), number, (dtype, values.dtype), node.output[0])
    return True


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


def _scores(added: Added, node: onnx.NodeProto, dtype: Any, rows: int, output: str) -> str:
    """Add the linear functions and their transformation; return the scores."""
    coefficients = np.asarray(attribute(node, "coefficients", []), dtype).reshape(rows, -1)
    intercepts = attribute(node, "intercepts", None)
    product = added.add("MatMul", [node.input[0], added.constant(coefficients.T, dtype)])
    total = product if intercepts is None else added.add("Add", [product, added.constant(intercepts, dtype)])
    return trees.transformed(added, node, total, output)


def _linear_regressor(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:
    _scores(added, node, dtype, int(attribute(node, "targets", 1)), node.output[0])
    return True


def _linear_classifier(added: Added, node: onnx.NodeProto, dtype: Any) -> bool:
    labels = attribute(node, "classlabels_ints", None)
    if not trees.are_labels(labels) or len(attribute(node, "intercepts", labels)) != len(labels):
        return False
    scores = _scores(added, node, dtype, len(labels), node.output[1])
    trees.label(added, scores, labels, node.output[0])
    return True


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

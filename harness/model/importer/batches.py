"""Nodes that state the number of vectors of a file, 1 or a batch, written for any number of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import onnx.helper

from harness.model.analysis.propagation import Propagation
from harness.model.graph import opsets_of
from harness.model.transforms.edit import add_constant
from harness.operators.node import domain_of

SIZES = 3
"""The input of Resize that states sizes; that of scales is in front of it."""
AXES_OF_RESIZE = 18
"""The opset from which on Resize can leave out axes."""


def frees_reshape(model: onnx.ModelProto, node: onnx.NodeProto, propagation: Propagation, batch: int) -> bool:
    """Write 0, the size of the input, for the number of vectors; return whether the node is such a Reshape."""
    if node.op_type != "Reshape" or domain_of(node):
        return False
    shape, first = propagation.facts.of(node.input[1]).concrete, propagation.facts.of(node.input[0]).sizes.get(0)
    if shape is None or first is None or first.constant != batch or not shape.size or shape[0] != batch:
        return False
    if any(entry.name == "allowzero" and entry.i for entry in node.attribute) and 0 in shape:
        return False
    node.input[1] = add_constant(model.graph, np.array([0, *shape[1:]], np.int64), f"{node.output[0]}/shape")
    del node.attribute[:]
    return True


def frees_resize(model: onnx.ModelProto, node: onnx.NodeProto, propagation: Propagation, batch: int) -> bool:
    """State sizes without the number of vectors, or scales that say exactly the same; return whether it was stated."""
    if node.op_type != "Resize" or domain_of(node) or len(node.input) <= SIZES:
        return False
    sizes, shape = propagation.facts.of(node.input[SIZES]).concrete, propagation.facts.of(node.input[0]).shape
    if sizes is None or shape is None or sizes.shape != (len(shape),) or not shape[0] == sizes[0] == batch:
        return False
    if any(entry.name in ("axes", "keep_aspect_ratio_policy") for entry in node.attribute):
        return False
    if opsets_of(model).get("", 0) >= AXES_OF_RESIZE:
        node.input[SIZES] = add_constant(model.graph, sizes[1:], f"{node.output[0]}/sizes")
        node.attribute.append(onnx.helper.make_attribute("axes", [*range(1, len(shape))]))
        return True
    scales = (sizes / np.array(shape)).astype(np.float32)
    pairs = zip(scales.tolist(), shape, sizes.tolist(), strict=True)
    if any(Fraction(scale) * before != after for scale, before, after in pairs):
        return False
    node.input[SIZES - 1] = add_constant(model.graph, scales, f"{node.output[0]}/scales")
    del node.input[SIZES]
    return True

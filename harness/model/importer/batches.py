"""Nodes that state the number of vectors of a file, 1 or a batch, written for any number of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import onnx.helper

from harness.core.errors import RequestError
from harness.model.analysis.propagation import Propagation
from harness.model.graph import opsets_of
from harness.model.importer.inputs import BATCH
from harness.model.importer.simplification import Simplified, listed
from harness.model.onnx_runtime.agreement import require_same
from harness.model.onnx_runtime.sessions import Stored
from harness.model.transforms.edit import add_constant
from harness.operators.node import domain_of

SIZES = 3
"""The input of Resize that states sizes; that of scales is in front of it."""
AXES_OF_RESIZE = 18
"""The opset from which on Resize can leave out axes."""


def _frees_reshape(model: onnx.ModelProto, node: onnx.NodeProto, propagation: Propagation, batch: int) -> bool:
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


def _frees_resize(model: onnx.ModelProto, node: onnx.NodeProto, propagation: Propagation, batch: int) -> bool:
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


def free_first_axis(simplified: Simplified) -> list[str]:
    """Make the first axis, of `batch` vectors in the file, that of any number of vectors, also in Reshapes.

    A batch above 1 stays if ONNX Runtime then computes other values for single vectors than for all of them.
    """
    graph, batch, propagation = simplified.model.graph, simplified.batch, simplified.propagation
    before = Stored(simplified.model) if batch > 1 else None
    freeing = (_frees_reshape, _frees_resize)
    reshaped = [
        node.name or node.output[0]
        for node in graph.node
        if propagation and any(frees(simplified.model, node, propagation, batch) for frees in freeing)
    ]
    if before is None:
        return [f"{listed(reshaped)}: a first size of 1 is the number of vectors"] if reshaped else []
    for value in (*graph.input, *graph.output):
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = BATCH
    try:
        require_same(before, simplified.model, simplified.name, batch)
    except RequestError:
        simplified.model = onnx.load(before.path)
        return []
    return [f"the first axis, {batch} in the file, is the number of vectors"]

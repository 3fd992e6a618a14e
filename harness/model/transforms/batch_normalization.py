"""`batch-normalization`: BatchNormalization becomes part of the Conv, ConvTranspose, Gemm or MatMul before it.

    f = scale / sqrt(var + epsilon)          w' = w * f          b' = (b - mean) * f + B

in float64 for each channel of the output, and w' and b' are rounded to float32 once.  The function of real numbers is
the same; the bits change (Property 4 of the ACETONE paper).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx.helper
from onnx import numpy_helper

from harness.model.importer.steps import Scaling, Shift
from harness.model.transforms.edit import Applied, Fold, named, only_reader, writer
from harness.model.transforms.weighted import Weighted, has_rows
from harness.operators.batch_normalization import DEFAULT_EPSILON
from harness.operators.node import domain_of

MESSAGE = "no Conv, ConvTranspose, Gemm or MatMul with initializers as weights, read by this node only, is before it"


def apply(model: onnx.ModelProto, name: str) -> Applied:
    """Fold every node whose input only it reads; raises RequestError for weights beyond float32."""
    graph = model.graph
    done, kept, folds = [], [], []
    for node in [node for node in graph.node if node.op_type == "BatchNormalization" and not domain_of(node)]:
        before = writer(graph, node.input[0])
        product = Weighted.read(graph, before) if before and only_reader(graph, node.input[0]) else None
        constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name in node.input}
        if before is None or product is None or len(constants) < len(set(node.input)) - 1:
            kept.append(f"{named(node)}: {MESSAGE}")
            continue
        if has_rows(model, name, before):
            kept.append(f"{named(node)}: {named(before)} multiplies several rows of a vector")
            continue
        scale, offset, mean, variance = (
            numpy_helper.to_array(constants[each]).astype(np.float64) for each in list(node.input)[1:5]
        )
        given = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        deviation = np.sqrt(variance + given.get("epsilon", DEFAULT_EPSILON))
        factor = scale / deviation
        weights = product.weights * factor.reshape(*product.weights.shape[:2], 1, 1)
        replace(product, weights=weights, bias=(product.bias - mean) * factor + offset).write(graph, before, name)
        steps = Shift(node.name, -mean), Scaling(node.name, 1 / deviation), Scaling(node.name, scale)
        folds.append(Fold(before.name, before.input[0], node.output[0], trailing=(*steps, Shift(node.name, offset))))
        before.output[0] = node.output[0]
        graph.node.remove(node)
        done.append(node.name)
    return Applied(tuple(done), tuple(kept), tuple(folds))
